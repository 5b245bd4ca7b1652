//! The transcendental functions of real numbers, over slices: the one table that says what computes each of them.

macro_rules! table {
    ($($t:ident)*) => {$(
        pub(super) mod $t {
            use super::super::op::ElementOp::{self, *};
            use super::super::strip::{Found, slices1, slices2};
            use crate::BlockElement;
            use chunkwise_math::Elementary;

            macro_rules! one {
                ($f:ident) => { Some(Found::Run(|ins, n, out| slices1::<$t>(ins, n, out, <$t as Elementary>::$f), $t::DTYPE)) };
            }
            macro_rules! two {
                ($f:ident) => { Some(Found::Run(|ins, n, out| slices2::<$t>(ins, n, out, <$t as Elementary>::$f), $t::DTYPE)) };
            }

            /// A function of one input.
            pub(in super::super) fn unary(op: ElementOp) -> Option<Found> {
                match op {
                    Acos => one!(acos),
                    Acosh => one!(acosh),
                    Asin => one!(asin),
                    Asinh => one!(asinh),
                    Atan => one!(atan),
                    Atanh => one!(atanh),
                    Cos => one!(cos),
                    Cosh => one!(cosh),
                    Exp => one!(exp),
                    Expm1 => one!(expm1),
                    Log => one!(log),
                    Log1p => one!(log1p),
                    Log2 => one!(log2),
                    Log10 => one!(log10),
                    Sin => one!(sin),
                    Sinh => one!(sinh),
                    Tan => one!(tan),
                    Tanh => one!(tanh),
                    _ => None,
                }
            }

            /// A function of two inputs.
            pub(in super::super) fn binary(op: ElementOp) -> Option<Found> {
                match op {
                    Atan2 => two!(atan2),
                    Hypot => two!(hypot),
                    Logaddexp => two!(logaddexp),
                    Pow => two!(pow),
                    _ => None,
                }
            }
        }
    )*};
}
table! { f32 f64 }

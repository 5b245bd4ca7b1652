//! The transcendental functions of real numbers, over slices: the one table that says who computes them.

macro_rules! table {
    ($($t:ident)*) => {$(
        pub(super) mod $t {
            use super::super::ElementOp::{self, *};
            use super::super::numeric::RealMath;
            use super::super::strip::{Found, slices1, slices2};
            use crate::BlockElement;

            /// `f` of every element.
            fn each(xs: &[$t], out: &mut [$t], f: impl Fn($t) -> $t) {
                out.iter_mut().zip(xs).for_each(|(o, &x)| *o = f(x));
            }

            /// `f` of every pair.
            fn pairs(xs: &[$t], ys: &[$t], out: &mut [$t], f: impl Fn($t, $t) -> $t) {
                out.iter_mut().zip(xs).zip(ys).for_each(|((o, &x), &y)| *o = f(x, y));
            }

            macro_rules! one {
                ($f:expr) => { Some(Found::Run(|ins, n, out| slices1::<$t>(ins, n, out, |xs, out| each(xs, out, $f)), $t::DTYPE)) };
            }
            macro_rules! two {
                ($f:expr) => {
                    Some(Found::Run(|ins, n, out| slices2::<$t>(ins, n, out, |xs, ys, out| pairs(xs, ys, out, $f)), $t::DTYPE))
                };
            }

            /// A function of one input.
            pub(in super::super) fn unary(op: ElementOp) -> Option<Found> {
                match op {
                    Acos => one!($t::acos),
                    Acosh => one!(RealMath::arcosh),
                    Asin => one!($t::asin),
                    Asinh => one!(RealMath::arsinh),
                    Atan => one!($t::atan),
                    Atanh => one!(RealMath::artanh),
                    Cos => one!($t::cos),
                    Cosh => one!($t::cosh),
                    Exp => one!($t::exp),
                    Expm1 => one!($t::exp_m1),
                    Log => one!($t::ln),
                    Log1p => one!($t::ln_1p),
                    Log2 => one!($t::log2),
                    Log10 => one!($t::log10),
                    Sin => one!($t::sin),
                    Sinh => one!($t::sinh),
                    Tan => one!($t::tan),
                    Tanh => one!($t::tanh),
                    _ => None,
                }
            }

            /// A function of two inputs.
            pub(in super::super) fn binary(op: ElementOp) -> Option<Found> {
                match op {
                    Atan2 => two!($t::atan2),
                    Hypot => two!($t::hypot),
                    Logaddexp => two!(RealMath::logaddexp),
                    Pow => two!($t::powf),
                    _ => None,
                }
            }
        }
    )*};
}
table! { f32 f64 }

//! The trait [`Elementary`], which joins functions, precisions and loops.

use crate::arch::{Arch, Binary, Level, Plain, Unary, map, map2};
use crate::bits::{FULL, SHORT};
use crate::out::Out;
use crate::{exp, inverse, log, power, single, single_log, single_power, trig};

/// Declares a function of one argument. `f64` has full precision, and `f32` the 30 bits that count, or a function of its own if one is
/// named. `large` arguments go to the standard library; `quick` is [`Unary::quick`].
macro_rules! unary {
    ($(
        $name:ident = $module:ident::$function:ident $(quick $quick:ident)? $(large $slow:path)?
        $(, $own:ident::$single:ident $(quick $short:ident)?)?;
    )*) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Unary<f64> for $name {
            #[inline(always)]
            fn value<A: Arch>(self, x: f64) -> f64 {
                $module::$function::<A, FULL>(x)
            }

            $(
            const QUICK: bool = true;

            #[inline(always)]
            fn quick<A: Arch>(self, x: f64) -> (f64, bool) {
                $module::$quick::<A>(x)
            }
            )?

            $(
            const RARE: bool = true;

            #[inline(always)]
            fn rare(self, x: f64) -> bool {
                x.abs() > trig::LARGE
            }

            #[inline(always)]
            fn slow(self, x: f64) -> f64 {
                $slow(x)
            }
            )?
        }

        impl Unary<f32> for $name {
            #[inline(always)]
            fn value<A: Arch>(self, x: f32) -> f32 {
                $(if true {
                    return $own::$single::<A>(x);
                })?
                $module::$function::<A, SHORT>(f64::from(x)) as f32
            }

            $($(
            const QUICK: bool = true;

            #[inline(always)]
            fn quick<A: Arch>(self, x: f32) -> (f32, bool) {
                $own::$short::<A>(x)
            }
            )?)?

            $(
            const RARE: bool = true;

            #[inline(always)]
            fn rare(self, x: f32) -> bool {
                x.abs() > trig::LARGE_SHORT
            }

            #[inline(always)]
            fn slow(self, x: f32) -> f32 {
                $slow(f64::from(x)) as f32
            }
            )?
        }
    )*};
}

unary! {
    Exp = exp::exp, single::exp;
    Exp2 = exp::exp2, single::exp2;
    Expm1 = exp::expm1, single::expm1;
    Log = log::log quick log_quick, single_log::log quick log_quick;
    Log2 = log::log2 quick log2_quick, single_log::log2 quick log2_quick;
    Log10 = log::log10 quick log10_quick, single_log::log10 quick log10_quick;
    Log1p = log::log1p quick log1p_quick, single_log::log1p quick log1p_quick;
    Sin = trig::sin large f64::sin, single::sin;
    Cos = trig::cos large f64::cos, single::cos;
    Tan = trig::tan large f64::tan, single::tan;
    Asin = inverse::asin, single::asin;
    Acos = inverse::acos, single::acos;
    Atan = inverse::atan, single::atan;
    Sinh = exp::sinh, single::sinh;
    Cosh = exp::cosh, single::cosh;
    Tanh = exp::tanh, single::tanh;
    Asinh = log::asinh, single_log::asinh;
    Acosh = log::acosh, single_log::acosh;
    Atanh = log::atanh, single_log::atanh;
}

/// Declares a function of two arguments, as [`unary`] does.
macro_rules! binary {
    ($(
        $name:ident = $module:ident::$function:ident $(rare $rare:path, $slow:path)?
        $(, $own:ident::$single:ident rare $seldom:path)?;
    )*) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Binary<f64> for $name {
            #[inline(always)]
            fn value<A: Arch>(self, x: f64, y: f64) -> f64 {
                $module::$function::<A, FULL>(x, y)
            }

            $(
            const RARE: bool = true;

            #[inline(always)]
            fn rare(self, x: f64, y: f64) -> bool {
                $rare(x, y)
            }

            #[inline(always)]
            fn slow(self, x: f64, y: f64) -> f64 {
                $slow(x, y)
            }
            )?
        }

        impl Binary<f32> for $name {
            #[inline(always)]
            fn value<A: Arch>(self, x: f32, y: f32) -> f32 {
                $(if true {
                    return $own::$single::<A>(x, y);
                })?
                $module::$function::<A, SHORT>(f64::from(x), f64::from(y)) as f32
            }

            $(
            const RARE: bool = true;

            #[inline(always)]
            fn rare(self, x: f32, y: f32) -> bool {
                $seldom(x, y)
            }

            #[inline(always)]
            fn slow(self, x: f32, y: f32) -> f32 {
                $module::$function::<Plain, FULL>(f64::from(x), f64::from(y)) as f32
            }
            )?
        }
    )*};
}

binary! {
    Atan2 = inverse::atan2 rare inverse::atan2_rare, f64::atan2, single::atan2 rare single::atan2_rare;
    Hypot = power::hypot rare power::hypot_rare, f64::hypot;
    Logaddexp = power::logaddexp;
}

#[derive(Clone, Copy)]
pub(crate) struct Pow;

impl Binary<f64> for Pow {
    const STAGES: bool = true;

    #[inline(always)]
    fn value<A: Arch>(self, x: f64, y: f64) -> f64 {
        power::pow::<A>(x, y)
    }

    #[inline(always)]
    fn begin<A: Arch>(self, x: f64, y: f64) -> (f64, f64, bool) {
        power::pow_begin::<A>(x, y)
    }

    #[inline(always)]
    fn end<A: Arch>(self, h: f64, l: f64) -> f64 {
        power::pow_end::<A>(h, l)
    }
}

impl Binary<f32> for Pow {
    const STAGES: bool = true;

    #[inline(always)]
    fn value<A: Arch>(self, x: f32, y: f32) -> f32 {
        single_power::pow::<A>(x, y)
    }

    #[inline(always)]
    fn begin<A: Arch>(self, x: f32, y: f32) -> (f32, f32, bool) {
        single_power::pow_begin::<A>(x, y)
    }

    #[inline(always)]
    fn end<A: Arch>(self, h: f32, l: f32) -> f32 {
        single_power::pow_end::<A>(h, l)
    }
}

/// pow with one exponent for all elements.
#[derive(Clone, Copy)]
pub(crate) struct PowBy<T>(pub(crate) T);

impl<T: Copy> Unary<T> for PowBy<T>
where
    Pow: Binary<T>,
{
    const STAGES: bool = <Pow as Binary<T>>::STAGES;

    #[inline(always)]
    fn value<A: Arch>(self, x: T) -> T {
        Pow.value::<A>(x, self.0)
    }

    #[inline(always)]
    fn begin<A: Arch>(self, x: T) -> (T, T, bool) {
        Pow.begin::<A>(x, self.0)
    }

    #[inline(always)]
    fn end<A: Arch>(self, h: T, l: T) -> T {
        Pow.end::<A>(h, l)
    }
}

/// Declares the trait and implements it for both types.
macro_rules! elementary {
    (
        $($(#[$doc:meta])* $name:ident $type:ident;)*
        ; two $($(#[$doc2:meta])* $name2:ident $type2:ident;)*
    ) => {
        /// Elementary functions, element by element: `out[i] = f(xs[i])`.
        ///
        /// All slices should have the same length. Elements beyond the shortest one are neither read nor written; all others are written.
        /// Nothing panics. Errors are listed in the [crate's table](crate). If the type is known, write `<f64 as Elementary>::exp`:
        /// `f64::exp` is that of the standard library.
        ///
        /// ```
        /// # use chunkwise_math::{Elementary, Out};
        /// let mut out = [0.0; 3];
        /// <f64 as Elementary>::exp(&[0.0, f64::INFINITY, f64::NEG_INFINITY], Out::from(&mut out));
        /// assert_eq!(out, [1.0, f64::INFINITY, 0.0]);
        /// ```
        pub trait Elementary: Copy + private::Sealed {
            $($(#[$doc])* fn $name(xs: &[Self], out: Out<'_, Self>);)*
            $($(#[$doc2])* fn $name2(xs: &[Self], ys: &[Self], out: Out<'_, Self>);)*

            /// xs to the power of one y. The same as [`Elementary::pow`] with that y everywhere.
            fn pow_scalar(xs: &[Self], y: Self, out: Out<'_, Self>);
        }

        elementary!(@impl f64, $($name $type)*; $($name2 $type2)*);
        elementary!(@impl f32, $($name $type)*; $($name2 $type2)*);
    };
    (@impl $t:ty, $($name:ident $type:ident)*; $($name2:ident $type2:ident)*) => {
        impl Elementary for $t {
            $(fn $name(xs: &[Self], out: Out<'_, Self>) {
                map(Level::best(), $type, xs, out);
            })*
            $(fn $name2(xs: &[Self], ys: &[Self], out: Out<'_, Self>) {
                map2(Level::best(), $type2, xs, ys, out);
            })*

            fn pow_scalar(xs: &[Self], y: Self, out: Out<'_, Self>) {
                map(Level::best(), PowBy(y), xs, out);
            }
        }
    };
}

elementary! {
    /// e to the power of x.
    exp Exp;
    /// 2 to the power of x.
    exp2 Exp2;
    /// exp(x) - 1, accurate near zero.
    expm1 Expm1;
    /// The natural logarithm; -inf at zero, NaN below.
    log Log;
    /// The logarithm in base 2, exact at powers of two.
    log2 Log2;
    /// The logarithm in base 10.
    log10 Log10;
    /// log(1 + x), accurate near zero.
    log1p Log1p;
    /// The sine of x in radians. Beyond 2^27 (`f32`: 2^20) the standard library computes it, at its own speed.
    sin Sin;
    /// The cosine; large arguments as with [`Elementary::sin`].
    cos Cos;
    /// The tangent; large arguments as with [`Elementary::sin`].
    tan Tan;
    /// The arcsine; NaN outside of [-1, 1].
    asin Asin;
    /// The arccosine; NaN outside of [-1, 1].
    acos Acos;
    /// The arctangent.
    atan Atan;
    /// The hyperbolic sine.
    sinh Sinh;
    /// The hyperbolic cosine.
    cosh Cosh;
    /// The hyperbolic tangent.
    tanh Tanh;
    /// The inverse hyperbolic sine.
    asinh Asinh;
    /// The inverse hyperbolic cosine; NaN below 1.
    acosh Acosh;
    /// The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.
    atanh Atanh;
    ; two
    /// x to the power of y. The special cases are those of C99: 1 to any power and anything to the power of 0 are 1, even for NaN. A
    /// negative number to a power that is not an integer is NaN.
    pow Pow;
    /// The angle of the point (y, x): the first argument is y.
    atan2 Atan2;
    /// sqrt(x^2 + y^2) without intermediate overflow. Infinite if either is, even beside NaN.
    hypot Hypot;
    /// log(exp(x) + exp(y)) without intermediate overflow.
    logaddexp Logaddexp;
}

mod private {
    /// Keeps implementations in this crate.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

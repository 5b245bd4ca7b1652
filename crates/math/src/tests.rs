//! Accuracy against exact references and the standard library, special cases, and independence of position and instruction set.

mod accuracy;
mod places;
mod specials;

use crate::arch::{Level, map, map2};
use crate::elementary::*;

/// A number type whose errors are measured in units of the last place.
pub(crate) trait Real: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// The distance from y to the exact value, in units of the last place of the exact value. Special values must match, or are infinitely
    /// far.
    fn error(y: Self, exact: f64) -> f64;
    /// The bits.
    fn bits(self) -> u64;
}

impl Real for f64 {
    fn error(y: f64, exact: f64) -> f64 {
        if y == exact || (y.is_nan() && exact.is_nan()) {
            return 0.0;
        }
        let unit = f64::from_bits(exact.abs().to_bits().max(f64::MIN_POSITIVE.to_bits()) & !((1 << 52) - 1)) * f64::EPSILON;
        let d = (y - exact).abs() / unit;
        if d.is_nan() { f64::INFINITY } else { d }
    }

    fn bits(self) -> u64 {
        if self.is_nan() { u64::MAX } else { self.to_bits() }
    }
}

impl Real for f32 {
    fn error(y: f32, exact: f64) -> f64 {
        if y == exact as f32 || (y.is_nan() && exact.is_nan()) {
            // Then the distance is at most half a unit.
            return if exact.is_finite() && y.is_finite() { (f64::from(y) - exact).abs() / unit32(exact) } else { 0.0 };
        }
        let d = (f64::from(y) - exact).abs() / unit32(exact);
        if d.is_nan() { f64::INFINITY } else { d }
    }

    fn bits(self) -> u64 {
        if self.is_nan() { u64::MAX } else { u64::from(self.to_bits()) }
    }
}

fn unit32(exact: f64) -> f64 {
    let smallest = f64::from(f32::MIN_POSITIVE);
    let a = exact.abs().max(smallest).min(f64::from(f32::MAX));
    f64::from_bits(a.to_bits() & !((1 << 52) - 1)) * f64::from(f32::EPSILON)
}

/// A function of one argument at a level.
type One<T> = fn(Level, &[T], &mut [T]);
/// A function of two arguments at a level.
type Two<T> = fn(Level, &[T], &[T], &mut [T]);

macro_rules! ones {
    ($t:ty, $($name:literal $type:ident $exact:expr, $bound:literal;)*) => {
        vec![$(($name, (|level, xs, out| map(level, $type, xs, out.into())) as One<$t>, $exact as fn(f64) -> f64, $bound)),*]
    };
}

macro_rules! twos {
    ($t:ty, $($name:literal $type:ident $exact:expr, $bound:literal;)*) => {
        vec![$(($name, (|level, xs, ys, out| map2(level, $type, xs, ys, out.into())) as Two<$t>, $exact as fn(f64, f64) -> f64, $bound)),*]
    };
}

type Table1<T> = Vec<(&'static str, One<T>, fn(f64) -> f64, f64)>;
type Table2<T> = Vec<(&'static str, Two<T>, fn(f64, f64) -> f64, f64)>;

/// Name, function, the function of the standard library, and the bound of the error in the crate's table.
fn ones64() -> Table1<f64> {
    ones! { f64,
        "exp" Exp f64::exp, 1.0;
        "exp2" Exp2 f64::exp2, 1.0;
        "expm1" Expm1 f64::exp_m1, 2.0;
        "log" Log f64::ln, 1.0;
        "log2" Log2 f64::log2, 1.5;
        "log10" Log10 f64::log10, 1.5;
        "log1p" Log1p f64::ln_1p, 1.5;
        "sin" Sin f64::sin, 1.0;
        "cos" Cos f64::cos, 1.0;
        "tan" Tan f64::tan, 2.0;
        "asin" Asin f64::asin, 1.5;
        "acos" Acos f64::acos, 2.0;
        "atan" Atan f64::atan, 2.0;
        "sinh" Sinh f64::sinh, 2.0;
        "cosh" Cosh f64::cosh, 2.0;
        "tanh" Tanh f64::tanh, 2.5;
        "asinh" Asinh asinh, 2.5;
        "acosh" Acosh acosh, 2.5;
        "atanh" Atanh atanh, 2.5;
    }
}

fn twos64() -> Table2<f64> {
    twos! { f64,
        "pow" Pow f64::powf, 1.0;
        "atan2" Atan2 f64::atan2, 2.0;
        "hypot" Hypot f64::hypot, 1.0;
        "logaddexp" Logaddexp logaddexp, 2.0;
    }
}

fn ones32() -> Table1<f32> {
    ones! { f32,
        "exp" Exp f64::exp, 2.0;
        "exp2" Exp2 f64::exp2, 2.0;
        "expm1" Expm1 f64::exp_m1, 2.0;
        "log" Log f64::ln, 2.0;
        "log2" Log2 f64::log2, 2.0;
        "log10" Log10 f64::log10, 2.5;
        "log1p" Log1p f64::ln_1p, 2.0;
        "sin" Sin f64::sin, 2.0;
        "cos" Cos f64::cos, 2.0;
        "tan" Tan f64::tan, 3.0;
        "asin" Asin f64::asin, 2.5;
        "acos" Acos f64::acos, 2.0;
        "atan" Atan f64::atan, 2.0;
        "sinh" Sinh f64::sinh, 2.5;
        "cosh" Cosh f64::cosh, 2.0;
        "tanh" Tanh f64::tanh, 2.5;
        "asinh" Asinh asinh, 3.0;
        "acosh" Acosh acosh, 3.0;
        "atanh" Atanh atanh, 2.5;
    }
}

fn twos32() -> Table2<f32> {
    twos! { f32,
        "pow" Pow f64::powf, 2.0;
        "atan2" Atan2 f64::atan2, 2.0;
        "hypot" Hypot f64::hypot, 0.52;
        "logaddexp" Logaddexp logaddexp, 0.52;
    }
}

/// The standard library's inverse hyperbolic functions overflow or lose digits for some arguments.
fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let y = if a > 1e9 { a.ln() + std::f64::consts::LN_2 } else { (a + a * a / (1.0 + a.hypot(1.0))).ln_1p() };
    y.copysign(x)
}

fn acosh(x: f64) -> f64 {
    let d = x - 1.0;
    if x < 1.0 {
        return f64::NAN;
    }
    if x > 1e9 { x.ln() + std::f64::consts::LN_2 } else { (d + (d * (x + 1.0)).sqrt()).ln_1p() }
}

fn atanh(x: f64) -> f64 {
    x.abs().atanh().copysign(x)
}

fn logaddexp(x: f64, y: f64) -> f64 {
    if x == y { x + std::f64::consts::LN_2 } else { x.max(y) + (-(x - y).abs()).exp().ln_1p() }
}

/// Random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Any bits: all exponents, both signs, sometimes NaN and infinity. Every second number is within 2^-20 .. 2^10.
    fn f64(&mut self) -> f64 {
        let bits = self.next();
        if bits & 1 == 0 {
            return f64::from_bits(self.next());
        }
        let exponent = 1003 + (bits >> 1) % 30;
        f64::from_bits((self.next() & 0x800f_ffff_ffff_ffff) | (exponent << 52))
    }

    fn f32(&mut self) -> f32 {
        let bits = self.next();
        if bits & 1 == 0 {
            return f32::from_bits(self.next() as u32);
        }
        let exponent = 107 + ((bits >> 1) % 30) as u32;
        f32::from_bits((self.next() as u32 & 0x807f_ffff) | (exponent << 23))
    }
}

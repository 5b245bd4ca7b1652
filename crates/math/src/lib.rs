//! Elementary functions over slices of `f32` and `f64`.
//!
//! Every function is branch-free scalar code (argument reduction, a polynomial, reconstruction through the bits of floats), which the
//! compiler vectorises: for AVX-512, for AVX2 with FMA, for NEON, and without fused multiply-add for any other machine. The choice is made
//! at run time. Logarithms and powers also have a quick form without the selections for special arguments. It is used for blocks of
//! elements without special arguments, and gives the same result. NaN, infinities, signed zeros and subnormal numbers follow C99 (annex F),
//! as in NumPy.
//!
//! A result depends on the argument and on whether the machine has fused multiply-add, but never on the position in the slice, the length
//! of the slice or the width of the vectors.
//!
//! Errors are bounded by tests, in units of the last place:
//!
//! | `f64` | at most |
//! |---|---|
//! | exp, exp2, log, sin, cos, pow, hypot | 1 |
//! | log2, log10, log1p, asin | 1.5 |
//! | expm1, tan, acos, atan, atan2, sinh, cosh, logaddexp | 2 |
//! | tanh, asinh, acosh, atanh | 2.5 |
//!
//! | `f32` | at most |
//! |---|---|
//! | hypot, logaddexp | 0.52 |
//! | exp, exp2, expm1, log, log2, log1p, sin, cos, acos, atan, cosh, pow, atan2 | 2 |
//! | log10, asin, sinh, tanh, atanh | 2.5 |
//! | tan, asinh, acosh | 3 |
//!
//! If a result of logaddexp is close to zero, the bound is in units of the larger argument. The tests compare `f64` with some 20,000 values
//! of mpmath that are themselves rounded, so half a unit more would pass. Functions of one `f32` are compared with `f64` at every 257th
//! float, functions of two at random ones.

mod arch;
mod bits;
mod coefficients;
mod elementary;
mod exp;
mod inverse;
mod log;
mod out;
mod power;
mod single;
mod single_log;
mod single_power;
#[cfg(test)]
mod tests;
mod trig;

pub use arch::Level;
pub use elementary::Elementary;
pub use out::Out;

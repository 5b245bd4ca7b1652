//! Elementary functions over slices of `f32` and `f64`.
//!
//! Every function is branch-free scalar code (argument reduction, a polynomial, reconstruction through the bits of floats), which the
//! compiler makes vectors of: for AVX-512, for AVX2 with FMA, for NEON, and without fused multiply-add for any other machine. The
//! choice is made at run time. NaN, infinities, signed zeros and subnormal numbers follow C99 (annex F), and so NumPy.
//!
//! A result depends on the argument and on whether the machine has fused multiply-add, never on the place in the slice, the length
//! of the slice or the width of the vectors.
//!
//! ERROR_TABLE

mod arch;
mod bits;
mod coefficients;
mod elementary;
mod exp;
mod inverse;
mod log;
mod power;
mod single;
#[cfg(test)]
mod tests;
mod trig;

pub use arch::Level;
pub use elementary::Elementary;

//! Run-time dispatch of instruction sets: one place where a loop is compiled for each of them.
//!
//! Binaries are built for a baseline processor (x86-64 with SSE2). A [`Loop`] is compiled again for AVX2 with FMA and for AVX-512 (on
//! ARM, NEON is the baseline), and the best version that the processor has is run. The loops stay plain Rust that the compiler
//! vectorises; nothing is contracted or reassociated, so every version gives the same bits.

use chunkwise_math::Level;

/// A loop that is worth compiling for each instruction set.
pub(crate) trait Loop {
    /// What it returns.
    type Output;
    /// Runs it. Implementations must be `#[inline(always)]`, and so must everything in the loop that is not trivial: a function that is
    /// called, and not inlined, is compiled for the baseline.
    fn run(self) -> Self::Output;
}

/// The loop for x86-64-v3.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse3,ssse3,sse4.1,sse4.2,popcnt,avx,avx2,bmi1,bmi2,fma,lzcnt")]
fn v3<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// The loop for x86-64-v4.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse3,ssse3,sse4.1,sse4.2,popcnt,avx,avx2,bmi1,bmi2,fma,lzcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn v4<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// Runs a loop in its best version.
///
/// The crate `pulp` does this without `unsafe` here, but the code around each loop was an eighth of all that is compiled for this crate.
#[inline]
pub(crate) fn dispatch<L: Loop>(body: L) -> L::Output {
    match Level::best() {
        // SAFETY: the level says that the processor has all instructions of x86-64-v4 (`Level::available`).
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { v4(body) },
        // SAFETY: the level says that the processor has all instructions of x86-64-v3.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { v3(body) },
        _ => body.run(),
    }
}

//! Run-time dispatch of instruction sets: one place where a loop is compiled for each of them.
//!
//! Binaries are built for a baseline processor (x86-64 with SSE2). A [`Loop`] is compiled again for AVX2 with FMA and for AVX-512 (on
//! ARM, NEON is the baseline), and the best version that the processor has is run. The loops stay plain Rust that the compiler
//! vectorises; nothing is contracted or reassociated, so every version gives the same bits.

use std::sync::OnceLock;

/// A loop that is worth compiling for each instruction set.
pub(crate) trait Loop {
    /// What it returns.
    type Output;
    /// Runs it. Implementations must be `#[inline(always)]`, and so must everything in the loop that is not trivial: a function that is
    /// called, and not inlined, is compiled for the baseline.
    fn run(self) -> Self::Output;
}

struct Dispatched<L>(L);

impl<L: Loop> pulp::WithSimd for Dispatched<L> {
    type Output = L::Output;
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> L::Output {
        self.0.run()
    }
}

/// Runs a loop in its best version.
#[inline]
pub(crate) fn dispatch<L: Loop>(body: L) -> L::Output {
    // Found out once: strips and rows are short, and the question has many parts.
    static ARCH: OnceLock<pulp::Arch> = OnceLock::new();
    ARCH.get_or_init(pulp::Arch::new).dispatch(Dispatched(body))
}

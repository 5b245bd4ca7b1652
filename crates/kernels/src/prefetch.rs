//! Hints to the processor about memory that is used next.

use std::mem::MaybeUninit;

/// The processor fetches so many bytes at a time.
const LINE: usize = 64;

/// Has the processor fetch memory that is written soon, while other things are done: a store that has to wait for its line of memory
/// holds up those after it, and short runs at many places end before the processor sees that they are runs. Nothing changes but the time.
pub fn expect_writes(room: &[MaybeUninit<u8>]) {
    #[cfg(target_arch = "x86_64")]
    for line in room.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a hint that reads and writes nothing, about an address inside of a slice; the baseline has the instruction, or ignores it.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (room, LINE);
}

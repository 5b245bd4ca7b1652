//! The allocator of the command: the system's, but large blocks on huge pages.
//!
//! Chunks and accumulators are tens of megabytes, allocated and freed by every task. On pages of 4 KiB a task spends more time in page
//! faults than in arithmetic (climatology: 16 s of system time against 5 s of user time; docs/benchmarks.md). A block of at least
//! [`LARGE`] bytes is mapped by itself, aligned to a huge page, and the kernel is asked to back it with huge pages.

use std::alloc::{GlobalAlloc, Layout, System};

/// Blocks from this size on are mapped by themselves.
const LARGE: usize = 4 << 20;
/// The size of a huge page.
const HUGE: usize = 2 << 20;

/// See the module.
pub struct Allocator;

fn large(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= LARGE && layout.align() <= HUGE
}

/// The bytes that are mapped for a block.
fn mapped(size: usize) -> usize {
    size.next_multiple_of(HUGE)
}

#[cfg(target_os = "linux")]
mod map {
    use super::{HUGE, mapped};

    /// A zeroed mapping for `size` bytes, aligned to a huge page; null if there is no memory.
    pub fn map(size: usize) -> *mut u8 {
        let len = mapped(size);
        let Some(whole) = len.checked_add(HUGE) else { return std::ptr::null_mut() };
        // SAFETY: a new anonymous mapping at a place of the kernel's choice touches no memory that exists. What is unmapped below are
        // the ends of that mapping, outside of the aligned block, that nobody has seen; both are multiples of a page.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), whole, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return std::ptr::null_mut();
            }
            let start = start.cast::<u8>();
            let before = start.align_offset(HUGE);
            let block = start.add(before);
            if before > 0 {
                libc::munmap(start.cast(), before);
            }
            if HUGE > before {
                libc::munmap(block.add(len).cast(), HUGE - before);
            }
            // A refusal only means small pages.
            libc::madvise(block.cast(), len, libc::MADV_HUGEPAGE);
            block
        }
    }

    /// Gives a block of `size` bytes from [`map`] back.
    ///
    /// # Safety
    /// `block` came from `map(size)` and is not used again.
    pub unsafe fn unmap(block: *mut u8, size: usize) {
        // SAFETY: by the contract, the mapping has exactly this place and length.
        unsafe { libc::munmap(block.cast(), mapped(size)) };
    }
}

#[cfg(not(target_os = "linux"))]
mod map {
    pub fn map(_: usize) -> *mut u8 {
        std::ptr::null_mut()
    }
    pub unsafe fn unmap(_: *mut u8, _: usize) {}
}

// SAFETY: blocks come either from `System` or from a mapping of their own, and which one is a function of the layout alone, so every
// block goes back to where it came from; mappings are aligned to `HUGE`, which `large` compares with the layout, and are as large as
// the layout. Nothing here panics or allocates through itself.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is that of `System`.
        if large(layout) { map::map(layout.size()) } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above; a new mapping is zero.
        if large(layout) { map::map(layout.size()) } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the layout is that of the allocation, so it says where the block came from.
        if large(layout) { unsafe { map::unmap(block, layout.size()) } } else { unsafe { System.dealloc(block, layout) } }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !large(layout) && !large(new) {
            // SAFETY: the block is the system's and stays it.
            return unsafe { System.realloc(block, layout, size) };
        }
        if large(layout) && large(new) && mapped(size) == mapped(layout.size()) {
            return block;
        }
        // SAFETY: the new block is as large as `new`, the old one as `layout`, and they do not overlap; the old one is given back once.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                std::ptr::copy_nonoverlapping(block, to, layout.size().min(size));
                self.dealloc(block, layout);
            }
            to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_size_hold_what_is_written() {
        for size in [1, 4096, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 12345] {
            let mut v: Vec<u8> = vec![0; size];
            assert!(v.iter().all(|&b| b == 0), "{size}");
            v.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 % 251) as u8);
            // Growing and shrinking cross the border between the two kinds of blocks both ways.
            v.reserve_exact(LARGE);
            assert!(v.iter().enumerate().all(|(i, &b)| b == (i * 31 % 251) as u8), "{size} grown");
            v.truncate(size / 2);
            v.shrink_to_fit();
            assert!(v.iter().enumerate().all(|(i, &b)| b == (i * 31 % 251) as u8), "{size} shrunk");
        }
    }

    #[test]
    fn large_blocks_are_aligned() {
        let layouts = [Layout::from_size_align(LARGE, 1), Layout::from_size_align(LARGE + 7, 4096), Layout::from_size_align(LARGE, HUGE)];
        for layout in layouts.into_iter().flatten() {
            // SAFETY: the layout is not empty, and the block is given back with the same layout.
            unsafe {
                let block = Allocator.alloc(layout);
                assert!(!block.is_null() && block.align_offset(HUGE) == 0);
                *block.add(layout.size() - 1) = 1;
                Allocator.dealloc(block, layout);
            }
        }
    }
}

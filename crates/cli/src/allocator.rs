//! The allocator of the command: the system's for small blocks; large ones are mapped by themselves and kept for the next task.
//!
//! Chunks and accumulators are tens of megabytes, allocated and freed by every task, and the system gives their pages back and clears
//! them anew each time: that took more time than arithmetic (docs/benchmarks.md). So a freed mapping is kept and given out again to an
//! allocation of about its size; and a block of at least [`LARGE`] bytes is aligned to a huge page that the kernel is asked for.
//!
//! Keeping costs no memory: mappings in use and kept are together never more than were once in use together, so the peak of the
//! process is that of an allocator that keeps nothing ([`Kept::room`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, MutexGuard};

/// Blocks from this size on are mapped by themselves.
const MAPPED: usize = 128 << 10;
/// Blocks from this size on live on huge pages.
const LARGE: usize = 4 << 20;
/// The size of a huge page.
const HUGE: usize = 2 << 20;
/// The size that smaller mappings are rounded up to.
const SMALL: usize = 64 << 10;
/// Freed mappings that are kept at most.
const KEPT: usize = 128;

/// See the module.
pub struct Allocator;

fn by_itself(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= MAPPED && layout.align() <= 4096
}

/// The bytes that are mapped for a block. Blocks are kept by this length, so those of about the same size share their mappings.
fn mapped(size: usize) -> usize {
    size.checked_next_multiple_of(if size >= LARGE { HUGE } else { SMALL }).unwrap_or(usize::MAX)
}

/// Freed mappings, the oldest first, and what is in use.
struct Kept {
    /// Address and length.
    blocks: [(usize, usize); KEPT],
    count: usize,
    kept: usize,
    used: usize,
    most: usize,
}

static FREED: Mutex<Kept> = Mutex::new(Kept { blocks: [(0, 0); KEPT], count: 0, kept: 0, used: 0, most: 0 });

fn freed() -> MutexGuard<'static, Kept> {
    // Nothing panics while it holds the lock.
    FREED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Kept {
    fn remove(&mut self, i: usize) -> (usize, usize) {
        let block = self.blocks[i];
        self.blocks.copy_within(i + 1..self.count, i);
        self.count -= 1;
        self.kept -= block.1;
        block
    }

    /// The address of a kept mapping of this length, the one that was freed last: it is warm.
    fn take(&mut self, len: usize) -> Option<usize> {
        let found = (0..self.count).rev().find(|&i| self.blocks[i].1 == len)?;
        self.used += len;
        Some(self.remove(found).0)
    }

    /// Counts `len` more bytes as used. If the whole were then more than was ever in use at once, gives a kept mapping that must go first.
    fn grow(&mut self, len: usize) -> Option<(usize, usize)> {
        self.most = self.most.max(self.used.saturating_add(len));
        if self.count > 0 && self.used.saturating_add(self.kept).saturating_add(len) > self.most {
            return Some(self.remove(0));
        }
        self.used = self.used.saturating_add(len);
        None
    }

    /// Takes a mapping back. If there are too many, gives the oldest, which must go.
    fn keep(&mut self, block: (usize, usize)) -> Option<(usize, usize)> {
        let old = if self.count == KEPT { Some(self.remove(0)) } else { None };
        self.blocks[self.count] = block;
        self.count += 1;
        self.kept += block.1;
        self.used = self.used.saturating_sub(block.1);
        old
    }
}

/// A block of `size` bytes; null if there is no memory.
fn allocate(size: usize, zeroed: bool) -> *mut u8 {
    let len = mapped(size);
    let reused = freed().take(len);
    if let Some(at) = reused {
        let block = at as *mut u8;
        if zeroed {
            // SAFETY: the mapping has at least `size` bytes and is nobody else's since it was taken from those that are kept.
            unsafe { block.write_bytes(0, size) };
        }
        return block;
    }
    loop {
        let old = freed().grow(len);
        match old {
            // SAFETY: it was kept with this address and length, and is nobody's now.
            Some((at, n)) => unsafe { map::unmap(at as *mut u8, n) },
            None => break,
        }
    }
    let block = map::map(len, size >= LARGE);
    if block.is_null() {
        freed().used -= len;
    }
    block
}

/// Gives a block of `size` bytes back.
///
/// # Safety
/// It came from [`allocate`] with a size of the same [`mapped`] length, and is not used again.
unsafe fn free(block: *mut u8, size: usize) {
    let old = freed().keep((block as usize, mapped(size)));
    if let Some((at, n)) = old {
        // SAFETY: it was kept with this address and length, and is nobody's now.
        unsafe { map::unmap(at as *mut u8, n) };
    }
}

#[cfg(target_os = "linux")]
mod map {
    use super::HUGE;

    /// A zeroed mapping of `len` bytes, a multiple of a page, on huge pages if possible; null if there is no memory.
    pub fn map(len: usize, huge: bool) -> *mut u8 {
        let Some(whole) = len.checked_add(if huge { HUGE } else { 0 }) else { return std::ptr::null_mut() };
        // SAFETY: a new anonymous mapping at a place of the kernel's choice touches no memory that exists. What is unmapped below are
        // the ends of that mapping, outside of the aligned block, that nobody has seen; both are multiples of a page.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), whole, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return std::ptr::null_mut();
            }
            let start = start.cast::<u8>();
            if !huge {
                return start;
            }
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

    /// Gives a mapping back.
    ///
    /// # Safety
    /// `block` came from `map(len, _)` and is not used again.
    pub unsafe fn unmap(block: *mut u8, len: usize) {
        // SAFETY: by the contract, the mapping has exactly this place and length.
        unsafe { libc::munmap(block.cast(), len) };
    }
}

#[cfg(not(target_os = "linux"))]
mod map {
    pub fn map(_: usize, _: bool) -> *mut u8 {
        std::ptr::null_mut()
    }
    pub unsafe fn unmap(_: *mut u8, _: usize) {}
}

// SAFETY: blocks come either from `System` or from a mapping of their own, and which one is a function of the layout alone, so every
// block goes back to where it came from; mappings are aligned to a page at least, which `by_itself` compares with the layout, and are
// as large as the layout. Nothing here panics or allocates through itself.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is that of `System`.
        if by_itself(layout) { allocate(layout.size(), false) } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if by_itself(layout) { allocate(layout.size(), true) } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the layout is that of the allocation, so it says where the block came from.
        if by_itself(layout) { unsafe { free(block, layout.size()) } } else { unsafe { System.dealloc(block, layout) } }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if !by_itself(layout) && !by_itself(new) {
            // SAFETY: the block is the system's and stays it.
            return unsafe { System.realloc(block, layout, size) };
        }
        if by_itself(layout) && by_itself(new) && mapped(size) == mapped(layout.size()) {
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
        for size in [1, 4096, MAPPED - 1, MAPPED, MAPPED + SMALL, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 12345] {
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
        let layouts = [Layout::from_size_align(LARGE, 1), Layout::from_size_align(LARGE + 7, 4096)];
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

    #[test]
    fn a_freed_block_is_used_again_and_zeroed_if_asked() {
        // A length of its own, so that other tests do not take it.
        let layout = Layout::from_size_align(29 * HUGE, 8).unwrap();
        // SAFETY: the layout is not empty; every block is given back once, with its layout.
        unsafe {
            let first = Allocator.alloc(layout);
            first.write_bytes(7, layout.size());
            Allocator.dealloc(first, layout);
            let second = Allocator.alloc_zeroed(layout);
            assert_eq!(first, second);
            assert!(std::slice::from_raw_parts(second, layout.size()).iter().all(|&b| b == 0));
            Allocator.dealloc(second, layout);
        }
    }

    #[test]
    fn what_is_kept_never_adds_to_the_most_that_was_in_use() {
        let mut kept = Kept { blocks: [(0, 0); KEPT], count: 0, kept: 0, used: 0, most: 0 };
        let (mut live, mut next, mut state): (Vec<(usize, usize)>, usize, u64) = (Vec::new(), 1, 1);
        let mut most = 0;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let roll = (state >> 33) as usize;
            if roll % 2 == 0 || live.is_empty() {
                let len = (roll / 2 % 40 + 1) * SMALL;
                match kept.take(len) {
                    Some(at) => live.push((at, len)),
                    None => {
                        while kept.grow(len).is_some() {}
                        live.push((next, len));
                        next += 1;
                    }
                }
            } else {
                let block = live.swap_remove(roll / 2 % live.len());
                let _ = kept.keep(block);
            }
            let used: usize = live.iter().map(|b| b.1).sum();
            most = most.max(used);
            assert_eq!(kept.used, used);
            assert!(kept.used + kept.kept <= most, "{} in use, {} kept, {most} at most so far", kept.used, kept.kept);
        }
    }
}

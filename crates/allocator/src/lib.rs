//! The allocator of the command and of the Python package. Small blocks come from the system; large ones are mapped by themselves and kept for the next task.
//!
//! Chunks and accumulators are tens of megabytes, and every task allocates and frees them. The system takes their pages back and clears
//! them again each time, which took more time than arithmetic (docs/design/performance.md). So a freed mapping is kept and given out again,
//! as a whole or in parts. A block of at least [`LARGE`] bytes is aligned to huge pages, for which the kernel is asked.
//!
//! Keeping costs no memory. Used and kept mappings together are never more than were once in use at the same time, so the peak of the
//! process is that of an allocator that keeps nothing ([`Kept::grow`]).

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, MutexGuard};

/// Blocks of at least this size are mapped by themselves.
const MAPPED: usize = 128 << 10;
/// Blocks of at least this size are on huge pages.
const LARGE: usize = 4 << 20;
/// The size of a huge page.
const HUGE: usize = 2 << 20;
/// Smaller mappings are rounded up to a multiple of this size.
const SMALL: usize = 64 << 10;
/// The largest number of freed mappings that are kept.
const KEPT: usize = 128;

/// The allocator; see the module.
#[derive(Debug)]
pub struct Allocator;

fn by_itself(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= MAPPED && layout.align() <= 4096
}

/// The bytes that are mapped for a block of this size.
fn mapped(size: usize) -> usize {
    size.checked_next_multiple_of(if size >= LARGE { HUGE } else { SMALL }).unwrap_or(usize::MAX)
}

/// A freed mapping, or the rest of one.
#[derive(Clone, Copy)]
struct Free {
    start: usize,
    len: usize,
    /// It lies on huge pages: the start and the length are multiples of one.
    huge: bool,
}

/// Freed mappings, the oldest first, and the number of used bytes.
struct Kept {
    blocks: [Free; KEPT],
    count: usize,
    kept: usize,
    used: usize,
    most: usize,
}

static FREED: Mutex<Kept> = Mutex::new(Kept::new());

fn freed() -> MutexGuard<'static, Kept> {
    // No code panics while it holds the lock.
    FREED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Kept {
    const fn new() -> Kept {
        Kept { blocks: [Free { start: 0, len: 0, huge: false }; KEPT], count: 0, kept: 0, used: 0, most: 0 }
    }

    fn remove(&mut self, i: usize) -> Free {
        let block = self.blocks[i];
        self.blocks.copy_within(i + 1..self.count, i);
        self.count -= 1;
        self.kept -= block.len;
        block
    }

    /// The address of `len` kept bytes. They come from the mapping that fits best, and its rest stays.
    fn take(&mut self, len: usize, huge: bool) -> Option<usize> {
        let fits = |&i: &usize| self.blocks[i].huge == huge && self.blocks[i].len >= len;
        // Of equal mappings, the one that was freed last is taken, because it is still in cache.
        let best = (0..self.count).rev().filter(fits).min_by_key(|&i| self.blocks[i].len)?;
        self.used += len;
        let block = &mut self.blocks[best];
        if block.len == len {
            return Some(self.remove(best).start);
        }
        block.len -= len;
        self.kept -= len;
        // The bytes come from its end, so that the rest keeps its address.
        Some(self.blocks[best].start + self.blocks[best].len)
    }

    /// Counts `len` more bytes as used. If used and kept mappings would then exceed the peak of use, returns a kept mapping that must be
    /// unmapped first.
    fn grow(&mut self, len: usize) -> Option<Free> {
        self.most = self.most.max(self.used.saturating_add(len));
        if self.count > 0 && self.used.saturating_add(self.kept).saturating_add(len) > self.most {
            return Some(self.remove(0));
        }
        self.used = self.used.saturating_add(len);
        None
    }

    /// Keeps a freed mapping, and joins it with its neighbours: mappings need not be unmapped one by one. If there are too many, returns
    /// the oldest one, which must be unmapped.
    fn keep(&mut self, mut block: Free) -> Option<Free> {
        self.used = self.used.saturating_sub(block.len);
        while let Some(i) = (0..self.count).find(|&i| self.blocks[i].touches(block)) {
            let other = self.remove(i);
            block = Free { start: block.start.min(other.start), len: block.len + other.len, huge: block.huge };
        }
        let old = if self.count == KEPT { Some(self.remove(0)) } else { None };
        self.blocks[self.count] = block;
        self.count += 1;
        self.kept += block.len;
        old
    }
}

impl Free {
    fn touches(self, other: Free) -> bool {
        self.huge == other.huge && (self.start + self.len == other.start || other.start + other.len == self.start)
    }
}

/// Gives all kept mappings back to the system, for programs that do other work after a run.
pub fn trim() {
    loop {
        let old = {
            let mut kept = freed();
            if kept.count == 0 {
                kept.most = kept.used;
                return;
            }
            kept.remove(0)
        };
        // SAFETY: it was kept with this address and length, and is not in use any more.
        unsafe { map::unmap(old.start as *mut u8, old.len) };
    }
}

/// A block of `size` bytes; null if there is no memory.
fn allocate(size: usize, zeroed: bool) -> *mut u8 {
    let len = mapped(size);
    let huge = size >= LARGE;
    let reused = freed().take(len, huge);
    if let Some(at) = reused {
        let block = at as *mut u8;
        if zeroed {
            // SAFETY: the mapping has at least `size` bytes, and no other code uses it since it was taken from those that are kept.
            unsafe { block.write_bytes(0, size) };
        }
        return block;
    }
    make_room(len);
    let block = map::map(len, huge);
    if block.is_null() {
        freed().used -= len;
    }
    block
}

/// Makes room for a mapping of `len` additional bytes, and counts it as used.
fn make_room(len: usize) {
    loop {
        let old = freed().grow(len);
        match old {
            // SAFETY: it was kept with this address and length, and is not in use any more.
            Some(old) => unsafe { map::unmap(old.start as *mut u8, old.len) },
            None => return,
        }
    }
}

/// Moves a mapping on huge pages to a place where it can be longer. Decoders that do not know the decoded length grow their buffers again
/// and again. Moved pages exist only once, unlike copies. The result is null if the mapping cannot be moved. Then it is unchanged.
///
/// # Safety
/// The block is in use, has `len` bytes, and is only used where it is afterwards.
unsafe fn grow(block: *mut u8, len: usize, longer: usize) -> *mut u8 {
    make_room(longer - len);
    // SAFETY: by the contract.
    let moved = unsafe { map::grow(block, len, longer) };
    if moved.is_null() {
        let mut kept = freed();
        kept.used = kept.used.saturating_sub(longer - len);
    }
    moved
}

/// Frees a block of `size` bytes.
///
/// # Safety
/// It came from [`allocate`] with a size of the same [`mapped`] length on the same side of [`LARGE`], and is not used again.
unsafe fn free(block: *mut u8, size: usize) {
    // SAFETY: by the contract, this is the block's mapping.
    unsafe { free_mapping(Free { start: block as usize, len: mapped(size), huge: size >= LARGE }) };
}

/// Frees a mapping, or a part of one.
///
/// # Safety
/// It is not in use any more.
unsafe fn free_mapping(mapping: Free) {
    let old = freed().keep(mapping);
    if let Some(old) = old {
        // SAFETY: it was kept with this address and length, and is not in use any more.
        unsafe { map::unmap(old.start as *mut u8, old.len) };
    }
}

#[cfg(target_os = "linux")]
mod map {
    use super::HUGE;

    /// A zeroed mapping of `len` bytes, a multiple of a page, on huge pages if possible; null if there is no memory.
    pub fn map(len: usize, huge: bool) -> *mut u8 {
        let Some(whole) = len.checked_add(if huge { HUGE } else { 0 }) else { return std::ptr::null_mut() };
        // SAFETY: a new anonymous mapping at a place of the kernel's choice touches no memory that exists. What is unmapped below are the ends of
        // that mapping, outside of the aligned block, that no other code has seen; both are multiples of a page.
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
            // If the kernel refuses, the pages are small.
            libc::madvise(block.cast(), len, libc::MADV_HUGEPAGE);
            block
        }
    }

    /// Moves a mapping on huge pages, without copying them, to a place where it can be longer. Null if that is not possible.
    ///
    /// # Safety
    /// The `len` bytes of the block are the caller's and came from [`map`]; they are used only at their new place.
    pub unsafe fn grow(block: *mut u8, len: usize, longer: usize) -> *mut u8 {
        let place = map(longer, true);
        if place.is_null() {
            return place;
        }
        // SAFETY: the place is a mapping that no other code knows, so it may be replaced; the block is the caller's.
        unsafe {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let moved = libc::mremap(block.cast(), len, longer, flags, place);
            // The block may consist of neighbours that the kernel does not move together. Some kernels have unmapped the place by then, so
            // another thread may use it; others have not. So it is left alone: at worst, some addresses are lost.
            if moved == libc::MAP_FAILED { std::ptr::null_mut() } else { moved.cast() }
        }
    }

    /// Gives a mapping back.
    ///
    /// # Safety
    /// These bytes came from [`map`], of one call or of several whose mappings are neighbours, and are not used again.
    pub unsafe fn unmap(block: *mut u8, len: usize) {
        // SAFETY: by the contract the bytes are mapped and not in use; parts of mappings may be given back, and several at once.
        unsafe { libc::munmap(block.cast(), len) };
    }
}

#[cfg(not(target_os = "linux"))]
mod map {
    pub fn map(_: usize, _: bool) -> *mut u8 {
        std::ptr::null_mut()
    }
    pub unsafe fn grow(_: *mut u8, _: usize, _: usize) -> *mut u8 {
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
        let same_side = by_itself(layout) && by_itself(new) && (size >= LARGE) == (layout.size() >= LARGE);
        if same_side && mapped(size) <= mapped(layout.size()) {
            let rest = mapped(layout.size()) - mapped(size);
            if rest > 0 {
                // SAFETY: the end of the block's own mapping, which is not used any more; its length is a whole number of units.
                unsafe { free_mapping(Free { start: block as usize + mapped(size), len: rest, huge: size >= LARGE }) };
            }
            return block;
        }
        if same_side && size >= LARGE {
            // SAFETY: the block is a mapping of this length, or a part of one, and nothing uses its old address after this.
            let moved = unsafe { grow(block, mapped(layout.size()), mapped(size)) };
            if !moved.is_null() {
                return moved;
            }
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
    use std::sync::PoisonError;

    #[global_allocator]
    static TESTED: Allocator = Allocator;

    /// Held by every test that takes blocks: kept mappings are shared, and neighbours that other tests freed would join.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn blocks_of_every_size_hold_what_is_written() {
        let _alone = alone();
        for size in [1, 4096, MAPPED - 1, MAPPED, MAPPED + SMALL, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 12345] {
            let mut v: Vec<u8> = vec![0; size];
            assert!(v.iter().all(|&b| b == 0), "{size}");
            v.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31 % 251) as u8);
            // Growing and shrinking cross the border between the two kinds of blocks in both directions.
            v.reserve_exact(LARGE);
            assert!(v.iter().enumerate().all(|(i, &b)| b == (i * 31 % 251) as u8), "{size} grown");
            v.truncate(size / 2);
            v.shrink_to_fit();
            assert!(v.iter().enumerate().all(|(i, &b)| b == (i * 31 % 251) as u8), "{size} shrunk");
        }
    }

    #[test]
    fn large_blocks_are_aligned() {
        let _alone = alone();
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
    fn a_block_that_grows_is_not_there_twice() {
        let _alone = alone();
        let resident = || -> usize {
            let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
            status.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0) * 4096
        };
        let before = resident();
        let mut v: Vec<u8> = vec![3; 96 * HUGE];
        v.reserve_exact(2 * 96 * HUGE);
        // A copy would still be among the kept mappings.
        assert!(resident() < before + 150 * HUGE, "{} MB", (resident() - before) >> 20);
        assert!(v.iter().all(|&b| b == 3));
    }

    #[test]
    fn a_freed_block_is_used_again_and_zeroed_if_asked() {
        let _alone = alone();
        // What other tests left behind could join the freed block, and the next one would then come from another part of it.
        trim();
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
    fn what_is_trimmed_is_not_resident() {
        let _alone = alone();
        let long = || {
            let kept = freed();
            kept.blocks[..kept.count].iter().any(|b| b.len >= 64 * HUGE)
        };
        drop(vec![3u8; 64 * HUGE]);
        assert!(long());
        trim();
        assert!(!long());
    }

    #[test]
    fn what_is_kept_never_adds_to_the_most_that_was_in_use() {
        let mut kept = Kept::new();
        let (mut live, mut next, mut state): (Vec<Free>, usize, u64) = (Vec::new(), SMALL, 1);
        let mut most = 0;
        for round in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let roll = (state >> 33) as usize;
            if roll.is_multiple_of(2) || live.is_empty() {
                let (len, huge) = ((roll / 4 % 40 + 1) * if (roll / 2).is_multiple_of(2) { SMALL } else { HUGE }, roll / 2 % 2 == 1);
                let start = kept.take(len, huge).unwrap_or_else(|| {
                    while kept.grow(len).is_some() {}
                    // Some are neighbours, so that they are joined.
                    next = if round % 3 == 0 { next + HUGE } else { next }.next_multiple_of(if huge { HUGE } else { SMALL }) + len;
                    next - len
                });
                let block = Free { start, len, huge };
                assert!(!huge || (start.is_multiple_of(HUGE) && len.is_multiple_of(HUGE)));
                let apart = |b: &Free| b.start + b.len <= start || start + len <= b.start;
                assert!(live.iter().chain(&kept.blocks[..kept.count]).all(apart), "blocks overlap");
                live.push(block);
            } else {
                let block = live.swap_remove(roll / 2 % live.len());
                let _ = kept.keep(block);
            }
            let used: usize = live.iter().map(|b| b.len).sum();
            most = most.max(used);
            assert_eq!(kept.used, used);
            assert_eq!(kept.kept, kept.blocks[..kept.count].iter().map(|b| b.len).sum::<usize>());
            assert!(kept.used + kept.kept <= most, "{} in use, {} kept, {most} at most so far", kept.used, kept.kept);
        }
    }
}

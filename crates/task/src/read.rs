//! Reading a region on more than one core.

use crate::TaskContext;
use chunkwise_kernels::borrow;
use chunkwise_plan::{memory, runs};
use chunkwise_storage::{READ_BUFFER, READ_GAP, ReadStats, StorageError};
use chunkwise_types::Region;

// The projection counts the buffers that storage reads through, and bands are cut by what it reads at once.
const _: () = assert!(memory::READ_BUFFER == READ_BUFFER && runs::GAP as u64 == READ_GAP);

/// Regions of less than this are not worth another thread.
const WORTHWHILE: usize = 8 << 20;

/// Reads a region. While cores are idle, because the budget has room for no other task, and while the budget has room for the buffers of
/// further readers, the rows are shared out among those cores.
pub(crate) fn read_region(ctx: &TaskContext, name: &str, region: &Region, out: &mut [u8]) -> Result<ReadStats, StorageError> {
    let (io, array) = (ctx.array(name), &ctx.plan.arrays[name]);
    let alone = |out: &mut [u8]| io.read_region(region, out);
    // Rows lie one after another in the block if everything in front of their axis has length 1.
    let Some(axis) = region.shape.iter().position(|&n| n > 1).filter(|_| out.len() >= WORTHWHILE) else { return alone(out) };
    let (start, len) = (region.start[axis], region.shape[axis]);
    let Some(memory) = ctx.memory() else { return alone(out) };
    // Where rows of chunks start; anywhere, if a part of a chunk costs no more than its bytes.
    let cuts: Vec<u64> = match io.divisible() {
        true => (0..len.min(64)).map(|k| start + k * len / len.min(64)).collect(),
        false => array.grid.0[axis].touched(start, len).map(|c| array.grid.0[axis].bounds(c).0.max(start)).collect(),
    };
    let lent = borrow(cuts.len() - 1);
    let each = if io.divisible() { memory::BLOCKS } else { memory::reading(array) };
    let beside = each.saturating_mul(lent.count as u64);
    let Some(_spare) = (lent.count > 0).then(|| memory.reserve_spare(beside)).flatten() else { return alone(out) };
    let row = out.len() / len as usize;
    let share = cuts.len().div_ceil(lent.count + 1);
    let mut parts: Vec<(Region, &mut [u8])> = Vec::new();
    let mut rest = out;
    for first in (0..cuts.len()).step_by(share) {
        let (from, to) = (cuts[first], cuts.get(first + share).copied().unwrap_or(start + len));
        let (now, after) = rest.split_at_mut((to - from) as usize * row);
        let mut part = region.clone();
        (part.start[axis], part.shape[axis]) = (from, to - from);
        parts.push((part, now));
        rest = after;
    }
    let results: Vec<Result<ReadStats, StorageError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|(part, out)| scope.spawn(move || io.read_region(&part, out))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    results.into_iter().try_fold(ReadStats::default(), |sum, part| Ok(sum.plus(part?)))
}

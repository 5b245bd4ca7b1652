//! Reading a region on more than one core.

use crate::TaskContext;
use chunkwise_kernels::{Lent, borrow};
use chunkwise_plan::{memory, runs};
use chunkwise_storage::{READ_BUFFER, READ_GAP, ReadStats, SHARD_BUFFER, Spare, StorageError};
use chunkwise_types::Region;

// The projection counts the buffers that storage reads through, and bands are cut by what it reads at once.
const _: () = assert!(memory::READ_BUFFER == READ_BUFFER && memory::SHARD_BUFFER == SHARD_BUFFER && runs::GAP as u64 == READ_GAP);

/// Regions of less than this are not worth another thread.
const WORTHWHILE: usize = 8 << 20;

/// Idle cores, because the budget has room for no other task, and memory for the buffers of a further reader on each; at most so many, and
/// if this many bytes are worth it.
pub(crate) fn helpers<'c>(ctx: &'c TaskContext, name: &str, bytes: usize, most: usize) -> Option<(Lent, Spare<'c>)> {
    let memory = ctx.memory().filter(|_| bytes >= WORTHWHILE)?;
    let lent = Some(borrow(most)).filter(|lent| lent.count > 0)?;
    let each = if ctx.array(name).divisible() { memory::BLOCKS } else { memory::reading(&ctx.plan.arrays[name]) };
    let spare = memory.reserve_spare(each.saturating_mul(lent.count as u64))?;
    Some((lent, spare))
}

/// Does all parts of some work at once, each on a thread, if there is more than one.
pub(crate) fn together<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Sync) -> Vec<R> {
    if parts.len() < 2 {
        return parts.into_iter().map(work).collect();
    }
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || work(part))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Reads a region; where others help, its rows are shared out.
pub(crate) fn read_region(ctx: &TaskContext, name: &str, region: &Region, out: &mut [u8]) -> Result<ReadStats, StorageError> {
    let (io, array) = (ctx.array(name), &ctx.plan.arrays[name]);
    // Rows lie one after another in the block if everything in front of their axis has length 1.
    let Some(axis) = region.shape.iter().position(|&n| n > 1) else { return io.read_region(region, out) };
    let (start, len) = (region.start[axis], region.shape[axis]);
    // Where rows of chunks start; anywhere, if a part of a chunk costs no more than its bytes.
    let cuts: Vec<u64> = match io.divisible() {
        true => (0..len.min(64)).map(|k| start + k * len / len.min(64)).collect(),
        false => array.grid.0[axis].touched(start, len).map(|c| array.grid.0[axis].bounds(c).0.max(start)).collect(),
    };
    let Some((lent, _spare)) = helpers(ctx, name, out.len(), cuts.len() - 1) else { return io.read_region(region, out) };
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
    let results = together(parts, |(part, out)| io.read_region(&part, out));
    results.into_iter().try_fold(ReadStats::default(), |sum, part| Ok(sum.plus(part?)))
}

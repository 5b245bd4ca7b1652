//! Reading a region on more than one core.

use crate::TaskContext;
use chunkwise_kernels::borrow;
use chunkwise_plan::memory;
use chunkwise_storage::{ReadStats, StorageError};
use chunkwise_types::Region;

/// Regions of less than this are not worth another thread.
const WORTHWHILE: usize = 8 << 20;

/// Reads a region. While cores are idle, because the budget has room for no other task, and while the budget has room for the buffers of
/// further readers, the rows of chunks are shared out among those cores.
pub(crate) fn read_region(ctx: &TaskContext, name: &str, region: &Region, out: &mut [u8]) -> Result<ReadStats, StorageError> {
    let (io, array) = (ctx.array(name), &ctx.plan.arrays[name]);
    let alone = |out: &mut [u8]| io.read_region(region, out);
    // Rows of chunks lie one after another in the block if everything in front of their axis has length 1.
    let Some(axis) = region.shape.iter().position(|&n| n > 1).filter(|_| out.len() >= WORTHWHILE) else { return alone(out) };
    let cuts = &array.grid.0[axis];
    let rows: Vec<u64> = cuts.touched(region.start[axis], region.shape[axis]).collect();
    let Some(memory) = ctx.memory().filter(|_| rows.len() > 1) else { return alone(out) };
    let lent = borrow(rows.len() - 1);
    let beside = memory::reading(array).saturating_mul(lent.count as u64);
    if lent.count == 0 || !memory.reserve_spare(beside) {
        return alone(out);
    }
    let row = out.len() / region.shape[axis] as usize;
    let end = region.start[axis] + region.shape[axis];
    let mut parts: Vec<(Region, &mut [u8])> = Vec::new();
    let (mut rest, mut from) = (out, region.start[axis]);
    for share in rows.chunks(rows.len().div_ceil(lent.count + 1)) {
        let to = share
            .last()
            .map_or(end, |&last| {
                let (start, len) = cuts.bounds(last);
                start + len
            })
            .min(end);
        let (now, after) = rest.split_at_mut((to - from) as usize * row);
        let mut part = region.clone();
        (part.start[axis], part.shape[axis]) = (from, to - from);
        parts.push((part, now));
        (rest, from) = (after, to);
    }
    let results: Vec<Result<ReadStats, StorageError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|(part, out)| scope.spawn(move || io.read_region(&part, out))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    memory.release(beside);
    results.into_iter().try_fold(ReadStats::default(), |sum, part| {
        let part = part?;
        Ok(sum.plus(part))
    })
}

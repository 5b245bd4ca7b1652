//! Copies into smaller chunks: pieces of the source that fit into a core's cache go from there to the chunks that they belong to, so that a
//! region is never in memory in the order of the source, and no chunk is gathered from it.

use super::{Progress, Run};
use crate::{TaskContext, TaskError, read};
use bytes::BytesMut;
use chunkwise_kernels::expect_writes;
use chunkwise_plan::{Stage, WrittenChunk, memory};
use chunkwise_storage::{ArrayIo, Cursor, Elements, ReadStats, StorageError};
use chunkwise_types::{ChunkGrid, DType, PerAxis, Region, ravel, volume};

/// Lines of up to so many bytes are copied in registers, all bytes of which are loaded: a piece has so many more at its end.
const REGISTERS: usize = 64;

/// Bytes of the next chunk that the processor is asked for beforehand.
const AHEAD: usize = 4096;

/// A region of an array, and the chunks of another one that it is copied to.
pub(super) struct Scatter<'a> {
    ctx: &'a TaskContext,
    /// The array that is read.
    name: &'a str,
    from: &'a ArrayIo,
    dtype: DType,
    region: &'a Region,
    /// Of the array that is written.
    grid: &'a ChunkGrid,
    /// The chunks of the region, by their numbers.
    touched: Region,
}

/// Some chunks of a copy, those of a part of its region. Chunks that were written before are `None`.
struct Part<'c> {
    region: Region,
    touched: Region,
    chunks: &'c mut [Option<BytesMut>],
}

enum Fault {
    Read(StorageError),
    Cancelled,
}

/// The first axis of a region that is longer than one.
fn lead(region: &Region) -> Option<usize> {
    region.shape.iter().position(|&n| n > 1)
}

impl<'a> Scatter<'a> {
    /// The copy that a stage makes of a region, if it makes nothing else, and if this is the better way.
    pub(super) fn of(ctx: &'a TaskContext, stage: &'a Stage, regions: &'a [Region]) -> Option<Scatter<'a>> {
        let ([step], [output], [region]) = (&stage.program.steps[..], &stage.outputs[..], regions) else { return None };
        let name = step.read.as_deref()?;
        let (from, source) = (ctx.array(name), &ctx.plan.arrays[name]);
        let grid = &ctx.plan.arrays[&output.array].grid;
        let within = lead(region)? + 1;
        let (read, touched) = (source.grid.touched(region), grid.touched(region));
        // Pieces go through one chunk of the source after another; and without a cut within, chunks are slices of the region as it is.
        let suits = from.divisible() && read.shape[within..].iter().all(|&n| n == 1) && touched.shape[within..].iter().any(|&n| n > 1);
        suits.then_some(Scatter { ctx, name, from, dtype: step.ty.dtype, region, grid, touched })
    }

    /// Reads the region into its chunks, in C order; `had` are those that are there already.
    fn read(&self, had: &[bool], cancelled: &(dyn Fn() -> bool + Sync)) -> (ReadStats, Result<Vec<Option<BytesMut>>, Fault>) {
        let item = self.dtype.size();
        let bytes = |index: &[u64]| (self.grid.region(index).volume() * item) as usize;
        let wanted = self.touched.indices().zip(had).filter(|(_, had)| !**had).map(|(index, _)| bytes(&index));
        // One block for all of them: it is filled in the end, and need not be cleared before.
        let mut rest = BytesMut::with_capacity(wanted.sum());
        let mut take = |index: Vec<u64>| {
            let others = rest.split_off(bytes(&index));
            std::mem::replace(&mut rest, others)
        };
        let mut chunks: Vec<Option<BytesMut>> = self.touched.indices().zip(had).map(|(index, had)| (!had).then(|| take(index))).collect();
        // Chunks that follow each other along the first axis that is cut follow each other in the region's list, too.
        let axis = self.touched.shape.iter().position(|&n| n > 1).unwrap_or(0);
        let cuts = self.touched.shape[axis];
        let helpers = read::helpers(self.ctx, self.name, (self.region.volume() * item) as usize, cuts as usize - 1);
        let share = cuts.div_ceil(1 + helpers.as_ref().map_or(0, |(lent, _)| lent.count as u64));
        let each = (share * volume(&self.touched.shape[axis + 1..])) as usize;
        let parts = (0..).step_by(share as usize).zip(chunks.chunks_mut(each)).map(|(first, chunks)| {
            let (mut touched, mut region) = (self.touched.clone(), self.region.clone());
            (touched.start[axis], touched.shape[axis]) = (touched.start[axis] + first, share.min(cuts - first));
            let start = self.grid.0[axis].bounds(touched.start[axis]).0;
            let (from, len) = self.grid.0[axis].bounds(touched.end(axis) - 1);
            (region.start[axis], region.shape[axis]) = (start, from + len - start);
            Part { region, touched, chunks }
        });
        let done = read::together(parts.collect(), |part| self.fill(part, cancelled));
        let stats = done.iter().fold(ReadStats::default(), |sum, (stats, _)| sum.plus(*stats));
        let failed = done.into_iter().find_map(|(_, result)| result.err());
        (stats, failed.map_or(Ok(chunks), Err))
    }

    /// The shape of the parts of a region that are read one after another in C order: of every chunk they bring the elements in its order.
    fn piece(&self, region: &Region) -> PerAxis {
        let mut shape = region.shape.clone();
        for axis in 0..shape.len() {
            let inner = volume(&shape[axis + 1..]).saturating_mul(self.dtype.size());
            shape[axis] = (memory::GATHERED / inner.max(1)).clamp(1, shape[axis]);
            if inner <= memory::GATHERED {
                break;
            }
        }
        shape
    }

    /// Reads a part piece by piece, and appends to every chunk its lines of each.
    fn fill(&self, part: Part<'_>, cancelled: &(dyn Fn() -> bool + Sync)) -> (ReadStats, Result<(), Fault>) {
        let shape = self.piece(&part.region);
        let cut = ChunkGrid::regular(&part.region.shape, &shape);
        let mut data = vec![0u8; (volume(&shape) * self.dtype.size()) as usize + REGISTERS];
        let (mut cursor, mut lines, mut stats) = (Cursor::default(), Lines::default(), ReadStats::default());
        for index in Region::full(&cut.counts()).indices() {
            if cancelled() {
                return (stats, Err(Fault::Cancelled));
            }
            let mut piece = cut.region(&index);
            piece.start.iter_mut().zip(&part.region.start).for_each(|(at, start)| *at += start);
            let bytes = (piece.volume() * self.dtype.size()) as usize;
            match self.from.read_piece(&piece, &mut cursor, &mut data[..bytes]) {
                Ok(read) => stats = stats.plus(read),
                Err(e) => return (stats, Err(Fault::Read(e))),
            }
            if self.dtype == DType::Bool {
                data.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            }
            lines.share_out(&data, &piece, self.dtype.size(), self.grid, (&part.touched, &mut *part.chunks));
        }
        (stats, Ok(()))
    }
}

/// Where the lines of a row of chunks start in a piece.
#[derive(Default)]
struct Lines {
    starts: Vec<usize>,
    outer: Vec<usize>,
}

impl Lines {
    /// Appends what a piece has of each chunk to it.
    fn share_out(
        &mut self,
        data: &[u8],
        piece: &Region,
        item: u64,
        grid: &ChunkGrid,
        (touched, chunks): (&Region, &mut [Option<BytesMut>]),
    ) {
        let here = grid.touched(piece);
        // What lies behind the last axis that is cut is one run.
        let last = touched.shape.iter().rposition(|&n| n > 1).unwrap_or(0);
        let common = |axis: usize, chunk: u64| {
            let (start, len) = grid.0[axis].bounds(chunk);
            start.max(piece.start[axis]) - piece.start[axis]..(start + len).min(piece.end(axis)) - piece.start[axis]
        };
        let stride = |axis: usize| volume(&piece.shape[axis + 1..]) * item;
        let mut rows = here.clone();
        rows.shape[last] = 1;
        for row in rows.indices() {
            self.starts.clear();
            self.starts.push(0);
            for (axis, &chunk) in row[..last].iter().enumerate() {
                std::mem::swap(&mut self.starts, &mut self.outer);
                let (all, stride) = (common(axis, chunk), stride(axis));
                self.starts.clear();
                self.starts.extend(self.outer.iter().flat_map(|at| all.clone().map(move |i| at + (i * stride) as usize)));
            }
            let number: Vec<u64> = row.iter().zip(&touched.start).map(|(i, first)| i - first).collect();
            let first = ravel(&number, &touched.shape) as usize;
            let mut columns = chunks[first..].iter_mut().zip(here.start[last]..here.end(last)).peekable();
            while let Some((chunk, column)) = columns.next() {
                let Some(chunk) = chunk else { continue };
                let (span, inner) = (common(last, column), stride(last));
                let width = ((span.end - span.start) * inner) as usize;
                if let Some((Some(next), _)) = columns.peek_mut() {
                    let room = next.spare_capacity_mut();
                    expect_writes(&room[..(self.starts.len() * width).min(AHEAD).min(room.len())]);
                }
                append(chunk, &data[(span.start * inner) as usize..], &self.starts, width);
            }
        }
    }
}

/// Appends `width` bytes from each of some places.
fn append(out: &mut BytesMut, data: &[u8], starts: &[usize], width: usize) {
    match width {
        0..=8 => in_registers::<8>(out, data, starts, width),
        9..=16 => in_registers::<16>(out, data, starts, width),
        17..=32 => in_registers::<32>(out, data, starts, width),
        33..=REGISTERS => in_registers::<REGISTERS>(out, data, starts, width),
        _ => starts.iter().for_each(|&at| out.extend_from_slice(&data[at..at + width])),
    }
}

/// As [`append`]: `N` bytes are copied, the first of which stay. Copies of a length that is only known here take several times as long.
fn in_registers<const N: usize>(out: &mut BytesMut, data: &[u8], starts: &[usize], width: usize) {
    for &at in starts {
        let len = out.len();
        if out.capacity() - len >= N {
            out.extend_from_slice(&data[at..at + N]);
            out.truncate(len + width);
        } else {
            out.extend_from_slice(&data[at..at + width]);
        }
    }
}

impl Run<'_> {
    /// Copies a region of a stage to its chunks.
    pub(super) fn scatter(&mut self, stage: &Stage, scatter: &Scatter<'_>) -> Result<Vec<WrittenChunk>, TaskError> {
        let (output, watch) = (&stage.outputs[0], self.watch);
        let had: Vec<Option<WrittenChunk>> = scatter.touched.indices().map(|index| watch.have(&output.array, &index)).collect();
        let there: Vec<bool> = had.iter().map(Option::is_some).collect();
        let (read, chunks) = scatter.read(&there, &|| watch.cancelled());
        self.count(read);
        let chunks = chunks.map_err(|fault| match fault {
            Fault::Read(source) => self.storage()(source),
            Fault::Cancelled => TaskError::Cancelled,
        })?;
        let mut written = Vec::with_capacity(had.len());
        // Half of the work was to read and to sort.
        self.progress = Progress { done: had.len(), all: 2 * had.len(), begun: 0.0 };
        for ((index, had), chunk) in scatter.touched.indices().zip(had).zip(chunks) {
            self.check()?;
            let chunk = chunk.unwrap_or_default();
            written.push(match had {
                Some(had) => had,
                None => self.put(output, &scatter.touched, &index, Elements::whole(&chunk, &scatter.grid.region(&index).shape))?,
            });
            self.advance();
        }
        Ok(written)
    }
}

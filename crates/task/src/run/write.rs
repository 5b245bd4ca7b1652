//! Writing the chunks of a task, and telling the executor of them.

use super::Run;
use crate::TaskError;
use chunkwise_kernels::Block;
use chunkwise_plan::{Stage, StageOutput, WrittenChunk, memory};
use chunkwise_storage::{ChunkWritten, Elements, Moment, Owner};
use chunkwise_types::{AxisChunks, ChunkGrid, Region, volume};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Chunks that are reported together, if they are written within a time: every report wakes the executor, and what is not reported when the
/// process is killed is made again.
const TOGETHER: usize = 4;
const WITHIN: Duration = Duration::from_millis(2);
/// Chunks of a folder that appear together at least, and their decoded bytes at most: what a killed process had not finished is lost.
const IN_FOLDER: u64 = 8;
const FOLDER_BYTES: u64 = 16 << 20;
/// Bytes of a run from which on it is read from memory as fast as a longer one.
const RUN: u64 = 256;

/// Chunks that are written, and of which the executor does not know yet.
pub(super) struct Told {
    /// The task writes more than one chunk: of a single one its end says enough.
    many: bool,
    untold: Vec<WrittenChunk>,
    last: Moment,
    /// When inputs were looked for last.
    looked: Option<Moment>,
    /// The entity tags of what is in object stores.
    etags: HashMap<(String, Vec<u64>), String>,
}

/// How long chunks are kept back that may have been made of an input that is gone, before it is looked for again.
const LOOKED: Duration = Duration::from_millis(500);

impl Told {
    pub(super) fn new(many: bool) -> Told {
        Told { many, untold: Vec::new(), last: Moment::now(), looked: None, etags: HashMap::new() }
    }

    /// Takes chunks that are stored now.
    fn stored(&mut self, chunks: Vec<(WrittenChunk, Option<String>)>) {
        for (chunk, etag) in chunks {
            if let Some(etag) = &etag {
                self.etags.insert((chunk.array.clone(), chunk.chunk.clone()), etag.clone());
            }
            self.untold.push(WrittenChunk { etag, ..chunk });
        }
    }

    /// Adds the entity tags that came after chunks were listed.
    pub(super) fn tag(&mut self, written: &mut [WrittenChunk]) {
        for chunk in written.iter_mut().filter(|c| c.etag.is_none()) {
            if self.etags.is_empty() {
                break;
            }
            chunk.etag = self.etags.remove(&(chunk.array.clone(), chunk.chunk.clone()));
        }
    }
}

impl Run<'_> {
    /// Tells the executor of all chunks that are written, if the inputs that they were made of are there.
    ///
    /// # Errors
    /// When an input is gone.
    pub(super) fn tell_all(&mut self) -> Result<(), TaskError> {
        self.ctx.confirm_inputs(self.stage).map_err(self.storage())?;
        let Told { many, untold, last, .. } = &mut self.told;
        if *many && !untold.is_empty() {
            self.watch.wrote(self.stage, self.task, std::mem::take(untold));
        }
        *last = Moment::now();
        Ok(())
    }

    /// As [`Run::tell_all`], but not if inputs would have to be looked for too often.
    fn tell(&mut self) -> Result<(), TaskError> {
        if self.ctx.doubts_inputs(self.stage) {
            if self.told.looked.is_some_and(|t| t.elapsed() < LOOKED) {
                return Ok(());
            }
            self.told.looked = Some(Moment::now());
        }
        self.tell_all()
    }

    /// Waits for what is on its way to object stores.
    pub(super) fn finish(&mut self) -> Result<(), TaskError> {
        let rest = self.uploads.finish().map_err(self.storage())?;
        self.told.stored(rest);
        Ok(())
    }

    /// Writes the whole chunks of every output, in the order of the grid; to object stores they may still be on their way.
    pub(super) fn write(&mut self, stage: &Stage, regions: &[Region], blocks: Vec<Block>) -> Result<Vec<WrittenChunk>, TaskError> {
        let mut written = Vec::new();
        for ((output, region), block) in stage.outputs.iter().zip(regions).zip(blocks) {
            let grid = &self.ctx.plan.arrays[&output.array].grid;
            let touched = grid.touched(region);
            let shares = self.ctx.array(&output.array).shares();
            let (block, sole) = match shares {
                true => block.sole().map_or_else(|block| (block, false), |block| (block, true)),
                false => (block, false),
            };
            let mut gathered = VecDeque::new();
            for index in touched.indices() {
                self.check()?;
                let had = self.watch.have(&output.array, &index);
                if let (None, true, Some(data)) = (&had, gathered.is_empty(), block.as_bytes()) {
                    gathered = side_by_side(grid, &touched, &index, region, data, block.dtype().size());
                }
                let own: Option<Vec<u8>> = gathered.pop_front();
                if let Some(chunk) = had {
                    written.push(chunk);
                    continue;
                }
                let chunk = grid.region(&index);
                let inside = chunk.relative_to(region);
                // A view keeps all of its buffer, so it is copied.
                let piece = match block.as_bytes() {
                    None => Some(block.slice(&inside).contiguous()),
                    Some(_) => sole.then(|| block.slice(&inside)),
                };
                if shares
                    && let Some(piece) = &piece
                    && let Some(done) = self.share(output, &index, piece)?
                {
                    written.push(done);
                    continue;
                }
                let done = match (&own, block.as_bytes(), &piece) {
                    (Some(own), ..) => self.put(output, &touched, &index, Elements::whole(own, &chunk.shape)),
                    (None, None, Some(piece)) => {
                        self.put(output, &touched, &index, Elements::whole(piece.as_bytes().unwrap_or_default(), &chunk.shape))
                    }
                    (None, data, _) => {
                        let elements = Elements { data: data.unwrap_or_default(), shape: &region.shape, start: &inside.start };
                        self.put(output, &touched, &index, elements)
                    }
                };
                written.push(done?);
            }
        }
        Ok(written)
    }

    /// Stores a chunk in memory without a copy, if it can be.
    fn share(&mut self, output: &StageOutput, index: &[u64], block: &Block) -> Result<Option<WrittenChunk>, TaskError> {
        let Some(data) = block.shared_bytes() else { return Ok(None) };
        let owner: Owner = Arc::new(block.clone());
        let report = |done: &ChunkWritten| reported(output, index, done);
        let written = self.uploads.share(self.ctx.array(&output.array), index, (&data, &owner), report).map_err(self.storage())?;
        self.wrote()?;
        Ok(written)
    }

    /// Writes a chunk, or sends it on its way, and tells the executor now and then. It is one of those in `touched`, in C order; small ones of a
    /// row of the grid are files of one folder, which appear together.
    pub(super) fn put(
        &mut self,
        output: &StageOutput,
        touched: &Region,
        index: &[u64],
        elements: Elements<'_>,
    ) -> Result<WrittenChunk, TaskError> {
        let array = &self.ctx.plan.arrays[&output.array];
        let last = index.len().saturating_sub(1);
        let row = array.grid.0.get(last).map_or(0, AxisChunks::count);
        let bytes = volume(&array.grid.stored_shape()).saturating_mul(array.dtype.size());
        let folder = (IN_FOLDER..=FOLDER_BYTES / bytes.max(1)).contains(&row) && touched.start[last] == 0 && touched.shape[last] == row;
        if folder && index[last] == 0 {
            self.uploads.begin(self.ctx.array(&output.array), index).map_err(self.storage())?;
        }
        let report = |done: &ChunkWritten| reported(output, index, done);
        let written = self.uploads.send(self.ctx.array(&output.array), index, elements, report).map_err(self.storage())?;
        if folder && index[last] + 1 == row {
            self.uploads.end().map_err(self.storage())?;
        }
        self.wrote()?;
        Ok(written)
    }

    /// Notes the chunks that are stored by now, and tells the executor now and then.
    fn wrote(&mut self) -> Result<(), TaskError> {
        let stored = self.uploads.written().map_err(self.storage())?;
        self.told.stored(stored);
        if self.told.untold.len() >= TOGETHER || self.told.last.elapsed() >= WITHIN {
            self.tell()?;
        }
        Ok(())
    }
}

/// A chunk as the executor is told of it.
fn reported(output: &StageOutput, index: &[u64], done: &ChunkWritten) -> WrittenChunk {
    WrittenChunk { array: output.array.clone(), chunk: index.to_vec(), bytes: done.bytes, xxh3: format!("{:016x}", done.xxh3), etag: None }
}

/// Copies of the chunk at `index` and of some after it in its row, where their runs in the block of a region are short: one chunk after the
/// other would bring every line of memory to the caches several times. Empty where that would not help.
fn side_by_side(grid: &ChunkGrid, touched: &Region, index: &[u64], region: &Region, data: &[u8], item: u64) -> VecDeque<Vec<u8>> {
    let first = grid.region(index);
    let Some(axis) = index.len().checked_sub(1).filter(|&axis| first.shape[axis] < region.shape[axis]) else { return VecDeque::new() };
    let fit = memory::GATHERED / (first.volume() * item).max(1);
    let count = fit.min(RUN.div_ceil((first.shape[axis] * item).max(1))).min(touched.end(axis) - index[axis]);
    if count < 2 {
        return VecDeque::new();
    }
    let width = |k: u64| {
        let mut index = index.to_vec();
        index[axis] += k;
        grid.region(&index).shape[axis]
    };
    let widths: Vec<u64> = (0..count).map(width).collect();
    let elements = Elements { data, shape: &region.shape, start: &first.relative_to(region).start };
    elements.side_by_side(&first.shape, &widths, item as usize).into()
}

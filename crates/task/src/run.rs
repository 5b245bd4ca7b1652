//! The task function.

mod scatter;
mod write;

use crate::evaluate::{Known, Prepared};
use crate::tiles::{Cursors, Fault, Shift, Tiles};
use crate::{TaskContext, TaskError, Watch};
use chunkwise_kernels::{Block, Fold, KernelError, Node, Part};
use chunkwise_plan::bands::Bands;
use chunkwise_plan::demand::Demands;
use chunkwise_plan::schedule::{Phase, Schedule};
use chunkwise_plan::{Program, Requests, Stage, StageOutput, Step, TaskReport, WrittenChunk, memory};
use chunkwise_storage::{ReadStats, Reader, StorageError, Uploads};
use chunkwise_types::Region;
use scatter::Scatter;
use std::collections::HashMap;
use write::Told;

/// Bytes that this task needs, known before it reads anything.
pub fn task_need(ctx: &TaskContext, stage: usize, task: u64) -> u64 {
    let s = &ctx.plan.stages[stage];
    memory::need(&ctx.plan.arrays, s, &s.task_regions(task)).total
}

/// Runs one task: reads, evaluates, writes whole chunks, and says what it wrote.
///
/// # Errors
/// See [`TaskError`]; [`TaskError::class`] says whether trying again can help. A failed task leaves only whole, correct chunks.
pub fn run_task(ctx: &TaskContext, stage: usize, task: u64, watch: &dyn Watch) -> Result<TaskReport, TaskError> {
    // A panic would take the executor's thread with it and leave the run waiting. Nothing of a task outlives it, so none of its state
    // can be seen half-changed.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(ctx, stage, task, watch))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(TaskError::Bug { stage, task, detail: text.unwrap_or("a panic").into() })
    })
}

fn run(ctx: &TaskContext, stage: usize, task: u64, watch: &dyn Watch) -> Result<TaskReport, TaskError> {
    let started = std::time::Instant::now();
    let Some(s) = ctx.plan.stages.get(stage).filter(|s| task < s.tasks()) else {
        return Err(TaskError::NoSuchTask { stage, task });
    };
    let regions = s.task_regions(task);
    let need = memory::need(&ctx.plan.arrays, s, &regions).total;
    if need > ctx.plan.spec.task_budget() {
        return Err(TaskError::Memory { stage, task, need, budget: ctx.plan.spec.task_budget() });
    }
    let chunks = |(o, r): (&StageOutput, &Region)| ctx.plan.arrays[&o.array].grid.touched(r).volume();
    let many = s.outputs.iter().zip(&regions).map(chunks).fold(0, u64::saturating_add) > 1;
    let in_flight = s.outputs.iter().map(|o| ctx.plan.arrays[&o.array].in_flight).max().unwrap_or(0);
    let uploads = Uploads::new(in_flight);
    let leaf = |(k, step): (usize, &Step)| Some((k, ctx.array(step.read.as_deref()?).reader()?));
    let readers = s.program.steps.iter().enumerate().filter_map(leaf).collect();
    let (requests, cursors, progress) = (Requests::default(), Cursors::new(), Progress::default());
    let order = memory::load_order(&ctx.plan.arrays, &s.program);
    let (program, told) = (&s.program, Told::new(many));
    let mut run = Run { ctx, stage, task, program, watch, told, bytes_read: 0, requests, readers, uploads, order, cursors, progress };
    let written = run.evaluate(s, &regions).and_then(|written| run.finish().map(|()| written));
    let told = run.tell_all();
    let mut written = written?;
    told?;
    run.told.tag(&mut written);
    let requests = Requests { puts: run.uploads.puts(), ..run.requests };
    let seconds = started.elapsed().as_secs_f64();
    Ok(TaskReport { stage, task, written, bytes_read: run.bytes_read, requests, seconds, projected_mem: need })
}

struct Run<'a> {
    ctx: &'a TaskContext,
    stage: usize,
    task: u64,
    program: &'a Program,
    watch: &'a dyn Watch,
    told: Told,
    bytes_read: u64,
    requests: Requests,
    /// Of the leaves in object stores, by step: they ask for what comes next.
    readers: HashMap<usize, Reader>,
    /// Chunks that are being written while the next ones are computed.
    uploads: Uploads<WrittenChunk>,
    /// The leaves in the order in which they are loaded.
    order: Vec<usize>,
    /// By step, where leaves that are read in bands are open.
    cursors: Cursors,
    progress: Progress,
}

/// How many of the windows and pieces of a task are done.
#[derive(Default)]
struct Progress {
    done: usize,
    all: usize,
    /// The share of the next one that is done, as what it needs is loaded.
    begun: f64,
}

impl Progress {
    /// The share of the task that is done with such a share of what is left of a window or piece.
    fn share(&self, within: f64) -> f64 {
        (self.done as f64 + self.begun + (1.0 - self.begun) * within) / self.all.max(1) as f64
    }
}

/// The share of a window or piece that loading what it needs is taken for.
const LOADING: f64 = 0.5;

/// Windows of a fold that are announced before they are read, at most.
const LOOK_AHEAD: usize = 256;

fn storage(stage: usize, task: u64) -> impl FnOnce(StorageError) -> TaskError {
    move |source| TaskError::Storage { stage, task, source }
}

impl Run<'_> {
    fn kernel(&self, step: usize) -> impl FnOnce(KernelError) -> TaskError + '_ {
        move |source| TaskError::Kernel { stage: self.stage, task: self.task, step, source }
    }

    fn storage(&self) -> impl FnOnce(StorageError) -> TaskError + use<> {
        storage(self.stage, self.task)
    }

    /// Announces what the windows after one will read, as long as it is asked for at once. `until` is the last window that was announced, and
    /// what it needs.
    fn look_ahead(&mut self, schedule: &Schedule, phase: &Phase, window: usize, until: &mut (usize, Demands)) -> Result<(), TaskError> {
        if self.readers.is_empty() {
            return Ok(());
        }
        let arrays = &self.ctx.plan.arrays;
        let last = (window + LOOK_AHEAD).min(phase.windows.len().saturating_sub(1));
        while until.0 < last && self.readers.values().any(Reader::has_room) {
            let Some(next) = phase.windows.get(until.0 + 1) else { break };
            let demands = schedule.step_pass(self.program, phase, &next).demands;
            for (&k, reader) in &mut self.readers {
                // What is kept is not read again: see `load`.
                let kept = demands[k] == until.1[k] && self.program.steps[k].read.as_ref().is_some_and(|n| memory::keeps(&arrays[n]));
                if !kept {
                    reader.announce(&demands[k]).map_err(storage(self.stage, self.task))?;
                }
            }
            *until = (until.0 + 1, demands);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TaskError> {
        if self.watch.cancelled() { Err(TaskError::Cancelled) } else { Ok(()) }
    }

    /// One more window or piece is done.
    fn advance(&mut self) {
        (self.progress.done, self.progress.begun) = (self.progress.done + 1, 0.0);
        self.watch.did(self.progress.share(0.0));
    }

    /// Counts what was read.
    fn count(&mut self, read: ReadStats) {
        self.bytes_read += read.bytes_read;
        self.requests.gets += read.gets;
        self.requests.heads += read.heads;
    }

    /// Asks object stores for what a pass reads, if that is not done yet; gives the leaves that are read, in order.
    fn ask(&mut self, demands: &Demands, bands: &Bands, banded: bool, known: &Known) -> Result<Vec<usize>, TaskError> {
        let kept = |k: usize| known[k].iter().map(|p| &p.region).eq(&demands[k]);
        let arrays = &self.ctx.plan.arrays;
        let leaves = self.order.iter().copied();
        let reads: Vec<usize> = leaves
            .filter(|&k| bands.banded[k] == banded)
            .filter(|&k| !kept(k) || !self.program.steps[k].read.as_ref().is_some_and(|name| memory::keeps(&arrays[name])))
            .collect();
        for k in &reads {
            if let Some(reader) = self.readers.get_mut(k) {
                reader.next(&demands[*k]).map_err(storage(self.stage, self.task))?;
            }
        }
        Ok(reads)
    }

    /// Loads the leaves of a whole piece, or those that are loaded once, at the regions where they are demanded.
    fn load(&mut self, demands: &Demands, bands: &Bands, banded: bool, known: &mut Known) -> Result<(), TaskError> {
        // What was there and is not needed goes first, its memory to the reads; a region that both need is not read again.
        let reads = self.ask(demands, bands, banded, known)?;
        let mut freed: Vec<Vec<Part>> = reads.iter().map(|&k| std::mem::take(&mut known[k])).collect();
        // One buffer of a leaf is used again; those of others would stay beside it.
        freed.iter_mut().zip(&reads).for_each(|(parts, &k)| parts.truncate(usize::from(demands[k].len() == 1)));
        // Of all that is read, also in bands later: what is loaded here may be a small part.
        let (all, mut loaded) = (memory::read_bytes(self.program, demands), 0);
        for (k, mut freed) in reads.into_iter().zip(freed) {
            let step = &self.program.steps[k];
            let Some(name) = &step.read else { continue };
            for region in &demands[k] {
                self.check()?;
                let mut read = ReadStats::default();
                let block = match self.ctx.in_place(name, region).map_err(storage(self.stage, self.task))? {
                    Some((block, stats)) => {
                        read = stats;
                        block
                    }
                    None => Block::refilled(freed.pop().map(|p| p.block), step.ty.dtype, &region.shape, |bytes| {
                        read = match self.readers.get_mut(&k) {
                            Some(reader) => reader.read_region(region, bytes)?,
                            None => crate::read::read_region(self.ctx, name, region, bytes)?,
                        };
                        Ok(())
                    })
                    .map_err(storage(self.stage, self.task))?,
                };
                self.count(read);
                loaded += block.bytes();
                known[k].push(Part { region: region.clone(), block });
                self.progress.begun = self.progress.begun.max(LOADING * loaded as f64 / all.max(1) as f64);
                self.watch.did(self.progress.share(0.0));
            }
        }
        Ok(())
    }

    /// See [`Tiles::each`].
    fn each_tile<'t>(
        &mut self,
        tiles: &Tiles<'t>,
        shift: Shift<'t>,
        prepared: &mut Prepared<'_>,
        known: &mut Known,
        take: impl FnMut(&Region, Vec<Block>) -> Result<(), TaskError> + Send,
    ) -> Result<(), TaskError> {
        let (watch, progress, all) = (self.watch, &self.progress, shift.elements().max(1));
        let (mut take, mut taken) = (take, 0);
        let take = |tile: &Region, blocks: Vec<Block>| {
            take(tile, blocks)?;
            taken += tile.volume();
            watch.did(progress.share(taken as f64 / all as f64));
            Ok(())
        };
        let (read, done) = tiles.each(shift, prepared, known, &mut self.cursors, &|| watch.cancelled(), take);
        self.count(read);
        done.map_err(|fault| match fault {
            Fault::Read(source) => self.storage()(source),
            Fault::Step(step, source) => self.kernel(step)(source),
            Fault::Cancelled => TaskError::Cancelled,
            Fault::Taker(e) => e,
        })
    }

    fn evaluate(&mut self, stage: &Stage, regions: &[Region]) -> Result<Vec<WrittenChunk>, TaskError> {
        let all: Vec<(usize, Region)> = regions.iter().cloned().enumerate().collect();
        if let Some(there) = self.there(stage, &all) {
            return Ok(there);
        }
        if let Some(scatter) = Scatter::of(self.ctx, stage, regions) {
            return self.scatter(stage, &scatter);
        }
        let schedule = Schedule::new(stage, regions);
        let program = self.program;
        let mut known: Known = vec![Vec::new(); self.program.steps.len()];
        let pass = schedule.output_pass(self.program);
        // Chunk by chunk where the outputs share a grid, so that only one chunk of each is in memory.
        let grids: Vec<_> = stage.outputs.iter().map(|o| &self.ctx.plan.arrays[&o.array].grid).collect();
        let pieces = schedule.pieces(&pass, &grids);
        self.progress =
            Progress { all: schedule.phases.iter().map(|p| p.windows.len()).sum::<usize>() + pieces.len(), ..Progress::default() };
        for phase in &schedule.phases {
            let nodes: Vec<Node<'_>> = phase
                .folds
                .iter()
                .filter_map(|(k, _)| {
                    let step = &self.program.steps[*k];
                    Some(Node { kernel: step.kernel.as_ref()?, inputs: &schedule.types[*k], output: &step.ty })
                })
                .collect();
            let mut folds: Vec<Box<dyn Fold>> = Vec::new();
            for (node, (k, region)) in nodes.iter().zip(&phase.folds) {
                folds.push(node.start_fold(region).map_err(self.kernel(*k))?);
            }
            let (stage, task) = (self.stage, self.task);
            let mut fold = |parts: &mut dyn Iterator<Item = Part>| -> Result<(), TaskError> {
                for (fold, (k, _)) in folds.iter_mut().zip(&phase.folds) {
                    let own: Vec<Part> = parts.take(program.steps[*k].inputs.len()).collect();
                    fold.fold(&own).map_err(|source| TaskError::Kernel { stage, task, step: *k, source })?;
                }
                Ok(())
            };
            let mut announced = None;
            for (w, window) in phase.windows.iter().enumerate() {
                let pass = schedule.step_pass(self.program, phase, &window);
                let pieces: Vec<Region> = pass.wants.first().map(|(_, r)| r.clone()).into_iter().collect();
                let tiles = Tiles::new(self.ctx, program, &schedule, &pass, (&pieces, true), &self.order);
                let mut prepared = tiles.prepare().map_err(|(k, e)| self.kernel(k)(e))?;
                // A last, smaller window may load whole what the others read in bands: the chunk that a cursor holds is not counted there.
                self.cursors.retain(|&k, _| tiles.in_bands() && tiles.bands.banded[k]);
                // What comes later is under way while this is waited for.
                self.ask(&pass.demands, &tiles.bands, false, &known)?;
                self.look_ahead(&schedule, phase, w, announced.get_or_insert_with(|| (w, pass.demands.clone())))?;
                self.load(&pass.demands, &tiles.bands, false, &mut known)?;
                if pass.tiles.len() == 1 {
                    self.check()?;
                    let wants: Vec<Region> = pass.wants.iter().map(|(_, r)| r.clone()).collect();
                    let blocks = prepared.evaluate(&known, &wants, false).map_err(|(k, e)| self.kernel(k)(e))?;
                    fold(&mut wants.into_iter().zip(blocks).map(|(region, block)| Part { region, block }))?;
                } else {
                    self.each_tile(&tiles, tiles.shift(&pass.wants[0].1), &mut prepared, &mut known, |tile, blocks| {
                        fold(&mut blocks.into_iter().map(|block| Part { region: tile.clone(), block }))
                    })?;
                }
                self.advance();
            }
            self.cursors.clear();
            for (fold, (k, region)) in folds.into_iter().zip(&phase.folds) {
                let block = fold.finish().map_err(self.kernel(*k))?;
                known[*k].push(Part { region: region.clone(), block });
            }
        }
        let tiles = Tiles::new(self.ctx, program, &schedule, &pass, (&pieces, false), &self.order);
        let mut prepared = tiles.prepare().map_err(|(k, e)| self.kernel(k)(e))?;
        self.load(&pass.demands, &tiles.bands, false, &mut known)?;
        if pass.tiles.len() <= 1 {
            let wants: Vec<Region> = pass.wants.iter().map(|(_, r)| r.clone()).collect();
            let blocks = prepared.evaluate(&known, &wants, true).map_err(|(k, e)| self.kernel(k)(e))?;
            return self.write(stage, regions, blocks);
        }
        let mut written = Vec::new();
        for piece in pieces {
            let whole: Vec<(usize, Region)> = pass.wants.iter().map(|(k, _)| (*k, piece.clone())).collect();
            if let Some(there) = self.there(stage, &whole) {
                written.extend(there);
                continue;
            }
            let at = vec![piece.clone(); whole.len()];
            if tiles.bands.whole_pieces {
                let demands = schedule.needs(self.program, &pass, &piece);
                self.load(&demands, &tiles.bands, true, &mut known)?;
            }
            let shift = tiles.shift(&piece);
            let out = if shift.alone() && !tiles.in_bands() && prepared.units.direct() && prepared.in_one_part(&known, &at) {
                // A fused program makes its own, smaller tiles: its outputs are the only blocks.
                prepared.evaluate(&known, &at, true).map_err(|(k, e)| self.kernel(k)(e))?
            } else {
                let mut out: Vec<Block> = whole.iter().map(|(k, r)| Block::zeros(program.steps[*k].ty.dtype, &r.shape)).collect();
                self.each_tile(&tiles, shift, &mut prepared, &mut known, |tile, blocks| {
                    let place = tile.relative_to(&piece);
                    out.iter_mut().zip(&blocks).for_each(|(held, block)| held.assign(&place, block));
                    Ok(())
                })?;
                out
            };
            let regions: Vec<Region> = whole.into_iter().map(|(_, r)| r).collect();
            written.extend(self.write(stage, &regions, out)?);
            self.advance();
        }
        Ok(written)
    }

    /// The chunks of some regions, if every one of them was written before.
    fn there(&self, stage: &Stage, regions: &[(usize, Region)]) -> Option<Vec<WrittenChunk>> {
        let mut found = Vec::new();
        for (output, (_, region)) in stage.outputs.iter().zip(regions) {
            let touched = self.ctx.plan.arrays[&output.array].grid.touched(region);
            for index in touched.indices() {
                found.push(self.watch.have(&output.array, &index)?);
            }
        }
        Some(found)
    }
}

//! The tiles of a pass, band by band, on every core that is idle.
//!
//! While cores have no task of their own, other threads help: each takes the next band, reads and evaluates it, and hands over its values.
//! Bands that feed folds are handed over in their order, so that sums do not depend on who was first. A helper gives its core back after
//! the band on which a task wants it.

use crate::TaskContext;
use crate::evaluate::Known;
use crate::prepare::Prepared;
use chunkwise_kernels::{Block, Kernel, KernelError, Lent, Part, borrow};
use chunkwise_plan::bands::Bands;
use chunkwise_plan::demand::Demands;
use chunkwise_plan::schedule::{Pass, Schedule, Tiling};
use chunkwise_plan::{Program, memory};
use chunkwise_storage::{Cursor, ReadStats, Spare, StorageError};
use chunkwise_types::Region;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A thread is worth starting for so many bands.
const WORTHWHILE: usize = 4;
/// More helpers wait for each other.
const MOST: usize = 15;
/// The turn of nobody: a thread has failed.
const STOPPED: usize = usize::MAX;
/// Looks at whose turn it is before a thread goes to sleep: a turn is short.
const LOOKS: usize = 4096;

/// The leaves of a band, by step.
type Loaded = BTreeMap<usize, Vec<Part>>;

/// By step, where leaves that are read in bands are open.
pub(crate) type Cursors = BTreeMap<usize, Cursor>;

/// What went wrong with a tile.
pub(crate) enum Fault<E> {
    Read(StorageError),
    Step(usize, KernelError),
    Cancelled,
    Taker(E),
}

/// A pass, and how it is read.
#[derive(Clone, Copy)]
pub(crate) struct Tiles<'a> {
    pub ctx: &'a TaskContext,
    pub program: &'a Program,
    pub schedule: &'a Schedule,
    pub pass: &'a Pass,
    pub bands: &'a Bands,
    /// The leaves in the order in which they are loaded.
    pub order: &'a [usize],
    /// The values must be taken in the order of the tiles.
    pub ordered: bool,
}

/// What all threads share.
struct Shared<'a, F> {
    next: AtomicUsize,
    /// Held while a band is taken and its leaves are read, where that goes through a chunk in order.
    in_order: Option<Mutex<&'a mut Cursors>>,
    /// The band whose values are taken next.
    turn: AtomicUsize,
    turned: Condvar,
    take: Mutex<F>,
}

/// Ends the loops of all threads if it is dropped while this thread fails.
struct Failing<'a>(&'a dyn Fn(), bool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if self.1 {
            (self.0)();
        }
    }
}

impl Tiles<'_> {
    fn banded(&self) -> impl Iterator<Item = usize> {
        self.order.iter().copied().filter(|&k| self.bands.banded[k])
    }

    /// Reads what one band needs, into buffers that are not used any more.
    fn read(&self, band: &Region, cursors: &mut Cursors, mut freed: Loaded, stats: &mut ReadStats) -> Result<Loaded, StorageError> {
        let demands: Demands = self.bands.demands(self.program, self.schedule, self.pass, band);
        let mut loaded = Loaded::new();
        for k in self.banded() {
            let step = &self.program.steps[k];
            let Some(name) = &step.read else { continue };
            let mut old = freed.remove(&k).unwrap_or_default();
            // One buffer is used again; others would stay beside it.
            old.truncate(usize::from(demands[k].len() == 1));
            let cursor = cursors.entry(k).or_insert_with(|| Cursor::new(self.bands.shared[k]));
            let io = self.ctx.array(name);
            for region in &demands[k] {
                let block = Block::refilled(old.pop().map(|p| p.block), step.ty.dtype, &region.shape, |bytes| {
                    *stats = stats.plus(io.read_piece(region, cursor, bytes)?);
                    Ok(())
                })?;
                loaded.entry(k).or_default().push(Part { region: region.clone(), block });
            }
        }
        Ok(loaded)
    }

    /// Puts the leaves of a band where they are looked for, in place of those of the band before.
    fn swap(&self, known: &mut Known, mut loaded: Loaded) -> Loaded {
        self.banded().map(|k| (k, std::mem::replace(&mut known[k], loaded.remove(&k).unwrap_or_default()))).collect()
    }

    /// The tiles of a band. Values that are leaves are not computed, so their bands need no tiles.
    fn tiles(&self, band: &Region, prepared: &Prepared<'_>) -> Tiling {
        if prepared.units.is_empty() { Tiling::uncut(band.clone()) } else { self.pass.tiles_of(band) }
    }

    /// Idle cores and memory for other threads, if both are there and kernels have no better use of the cores.
    fn helpers(&self, bands: &Tiling) -> Vec<(Lent, Spare<'_>)> {
        let product = |kernel: &Kernel| matches!(kernel, Kernel::Contract(_) | Kernel::Qr(_));
        if bands.len() < WORTHWHILE || self.program.steps.iter().filter_map(|s| s.kernel.as_ref()).any(product) {
            return Vec::new();
        }
        let Some(memory) = self.ctx.memory() else { return Vec::new() };
        let bytes = |band: &Region| -> u64 {
            let demands = self.bands.demands(self.program, self.schedule, self.pass, band);
            let of = |k: usize| demands[k].iter().map(|r| r.volume().saturating_mul(self.program.steps[k].ty.dtype.size())).sum::<u64>();
            let leaves: u64 = self.banded().map(of).sum();
            // Its values wait for their turn.
            let item: u64 = self.pass.wants.iter().map(|(k, _)| self.program.steps[*k].ty.dtype.size()).sum();
            leaves.saturating_add(band.volume().saturating_mul(item))
        };
        let most = bands.samples().map(|band| bytes(&band)).max().unwrap_or(0);
        let through =
            self.banded().filter_map(|k| self.program.steps[k].read.as_ref()).map(|name| memory::reading(&self.ctx.plan.arrays[name]));
        let each =
            [through.max().unwrap_or(0), memory::tile(self.program, self.schedule, self.pass)].into_iter().fold(most, u64::saturating_add);
        let mut found = Vec::new();
        while found.len() < MOST.min(bands.len() / 2) {
            let lent = borrow(1);
            let Some(spare) = (lent.count > 0).then(|| memory.reserve_spare(each)).flatten() else { break };
            found.push((lent, spare));
        }
        found
    }

    /// Gives the values of every tile of a part of what the pass wants to `take`; says what was read. `cursors` are where leaves are open
    /// already.
    pub fn each<E: Send>(
        &self,
        part: &Region,
        prepared: &mut Prepared<'_>,
        known: &mut Known,
        cursors: &mut Cursors,
        cancelled: &(dyn Fn() -> bool + Sync),
        mut take: impl FnMut(&Region, Vec<Block>) -> Result<(), E> + Send,
    ) -> Result<ReadStats, (ReadStats, Fault<E>)> {
        let reads = !self.bands.whole_pieces && self.banded().next().is_some();
        let bands = if reads { self.bands.cut(self.pass, part) } else { self.pass.tiles_of(part) };
        let wants = |tile: &Region| vec![tile.clone(); self.pass.wants.len()];
        let helpers = self.helpers(&bands);
        let mut stats = ReadStats::default();
        if helpers.is_empty() {
            let mut each = |band: &Region| -> Result<(), Fault<E>> {
                if reads {
                    let freed = self.swap(known, Loaded::new());
                    let loaded = self.read(band, cursors, freed, &mut stats).map_err(Fault::Read)?;
                    self.swap(known, loaded);
                }
                for tile in self.tiles(band, prepared).iter() {
                    if cancelled() {
                        return Err(Fault::Cancelled);
                    }
                    let values = prepared.evaluate(known, &wants(&tile), false).map_err(|(k, e)| Fault::Step(k, e))?;
                    take(&tile, values).map_err(Fault::Taker)?;
                }
                Ok(())
            };
            let done = bands.iter().try_for_each(|band| each(&band));
            return done.map(|()| stats).map_err(|fault| (stats, fault));
        }
        // Byte ranges can be read by everybody; what is decoded in the order of its chunk, by one at a time.
        let apart = self.banded().filter_map(|k| self.program.steps[k].read.as_ref()).all(|name| self.ctx.plan.arrays[name].raw);
        let mut none = Cursors::new();
        let (mine, in_order) = if apart { (cursors, None) } else { (&mut none, Some(Mutex::new(cursors))) };
        let shared =
            Shared { next: AtomicUsize::new(0), in_order, turn: AtomicUsize::new(0), turned: Condvar::new(), take: Mutex::new(take) };
        let stop = || {
            // Under the lock, or a thread that is about to sleep would miss it.
            let _taker = shared.take.lock();
            shared.turn.store(STOPPED, Ordering::Release);
            shared.turned.notify_all();
        };
        let work = |prepared: &mut Prepared<'_>,
                    known: &mut Known,
                    own: &mut Cursors,
                    lent: Option<&Lent>,
                    stats: &mut ReadStats|
         -> Result<(), Fault<E>> {
            let mut failing = Failing(&stop, true);
            while lent.is_none_or(|lent| !lent.wanted()) {
                let freed = if reads { self.swap(known, Loaded::new()) } else { Loaded::new() };
                let in_order = shared.in_order.as_ref().map(Mutex::lock);
                let i = shared.next.fetch_add(1, Ordering::Relaxed);
                let Some(band) = &bands.get(i) else { break };
                if reads {
                    let loaded = match in_order {
                        Some(mut cursors) => self.read(band, &mut cursors, freed, stats),
                        None => self.read(band, own, freed, stats),
                    };
                    self.swap(known, loaded.map_err(Fault::Read)?);
                }
                let mut values = Vec::new();
                for tile in self.tiles(band, prepared).iter() {
                    if cancelled() || shared.turn.load(Ordering::Relaxed) == STOPPED {
                        return Err(Fault::Cancelled);
                    }
                    let blocks = prepared.evaluate(known, &wants(&tile), false).map_err(|(k, e)| Fault::Step(k, e))?;
                    if self.ordered {
                        values.push((tile, blocks));
                    } else {
                        (shared.take.lock())(&tile, blocks).map_err(Fault::Taker)?;
                    }
                }
                if !self.ordered {
                    continue;
                }
                let mut looks = 0;
                while shared.turn.load(Ordering::Acquire) != i && looks < LOOKS {
                    std::hint::spin_loop();
                    looks += 1;
                }
                let mut take = shared.take.lock();
                loop {
                    match shared.turn.load(Ordering::Acquire) {
                        STOPPED => return Err(Fault::Cancelled),
                        turn if turn == i => break,
                        _ => shared.turned.wait(&mut take),
                    }
                }
                for (tile, blocks) in values {
                    take(&tile, blocks).map_err(Fault::Taker)?;
                }
                shared.turn.store(i + 1, Ordering::Release);
                shared.turned.notify_all();
            }
            failing.1 = false;
            Ok(())
        };
        let all: Vec<(ReadStats, Result<(), Fault<E>>)> = std::thread::scope(|scope| {
            let own = |known: &Known| -> Known {
                let banded = |k: usize| reads && self.bands.banded[k];
                known.iter().enumerate().map(|(k, parts)| if banded(k) { Vec::new() } else { parts.clone() }).collect()
            };
            let others: Vec<_> = helpers
                .into_iter()
                .map(|(lent, spare)| {
                    let mut known = own(known);
                    let work = &work;
                    scope.spawn(move || {
                        let _spare = spare;
                        let mut stats = ReadStats::default();
                        let prepared = Prepared::new(self.program, &self.schedule.types, &self.pass.wants, self.pass.tiles.len() > 1);
                        let done = match prepared {
                            Ok(mut prepared) => work(&mut prepared, &mut known, &mut Cursors::new(), Some(&lent), &mut stats),
                            // The thread that was helped prepared the same before.
                            Err((k, e)) => Err(Fault::Step(k, e)),
                        };
                        (stats, done)
                    })
                })
                .collect();
            let mut stats = ReadStats::default();
            let done = work(prepared, known, mine, None, &mut stats);
            let mut all = vec![(stats, done)];
            all.extend(others.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
            all
        });
        let mut failed: Option<Fault<E>> = None;
        for (read, done) in all {
            stats = stats.plus(read);
            // Those that a failure stopped say that they were cancelled.
            if let Err(fault) = done
                && failed.as_ref().is_none_or(|f| matches!(f, Fault::Cancelled))
            {
                failed = Some(fault);
            }
        }
        match failed {
            None => Ok(stats),
            Some(fault) => Err((stats, fault)),
        }
    }
}

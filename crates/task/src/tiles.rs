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
use parking_lot::{Condvar, Mutex, MutexGuard};
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

/// Whose turn it is to have values taken.
struct Turns<F> {
    /// The band whose values are taken next.
    turn: AtomicUsize,
    turned: Condvar,
    take: Mutex<F>,
}

impl<F> Turns<F> {
    fn new(take: F) -> Turns<F> {
        Turns { turn: AtomicUsize::new(0), turned: Condvar::new(), take: Mutex::new(take) }
    }

    fn stopped(&self) -> bool {
        self.turn.load(Ordering::Relaxed) == STOPPED
    }

    fn set(&self, turn: usize, _taker: MutexGuard<'_, F>) {
        // Under the lock, or a thread that is about to sleep would miss it.
        self.turn.store(turn, Ordering::Release);
        self.turned.notify_all();
    }

    /// Waits until it is the turn of a band; `None` if that never comes.
    fn wait(&self, band: usize) -> Option<MutexGuard<'_, F>> {
        for _ in 0..LOOKS {
            if self.turn.load(Ordering::Acquire) == band {
                break;
            }
            std::hint::spin_loop();
        }
        let mut taker = self.take.lock();
        loop {
            match self.turn.load(Ordering::Acquire) {
                STOPPED => return None,
                turn if turn == band => return Some(taker),
                _ => self.turned.wait(&mut taker),
            }
        }
    }
}

/// Stops all threads if it is dropped by one that fails.
struct Failing<'t, F>(&'t Turns<F>);

impl<F> Drop for Failing<'_, F> {
    fn drop(&mut self) {
        self.0.set(STOPPED, self.0.take.lock());
    }
}

/// What a thread has for itself.
struct Worker<'w, 's> {
    prepared: &'w mut Prepared<'s>,
    known: &'w mut Known,
    cursors: &'w mut Cursors,
    stats: ReadStats,
}

/// What all threads that work on a part share.
struct Shared<'w, F> {
    bands: Tiling,
    next: AtomicUsize,
    /// Held while a band is taken and its leaves are read, where that goes through a chunk in order.
    in_order: Option<Mutex<&'w mut Cursors>>,
    turns: Turns<F>,
    cancelled: &'w (dyn Fn() -> bool + Sync),
}

impl<'a> Tiles<'a> {
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
    fn helpers(&self, bands: &Tiling) -> Vec<(Lent, Spare<'a>)> {
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
        take: impl FnMut(&Region, Vec<Block>) -> Result<(), E> + Send,
    ) -> (ReadStats, Result<(), Fault<E>>) {
        let bands = if self.reads() { self.bands.cut(self.pass, part) } else { self.pass.tiles_of(part) };
        let helpers = self.helpers(&bands);
        if helpers.is_empty() {
            let mut worker = Worker { prepared, known, cursors, stats: ReadStats::default() };
            let done = self.alone(&bands, &mut worker, cancelled, take);
            return (worker.stats, done);
        }
        // Byte ranges can be read by everybody; what is decoded in the order of its chunk, by one at a time.
        let apart = self.banded().filter_map(|k| self.program.steps[k].read.as_ref()).all(|name| self.ctx.plan.arrays[name].raw);
        let mut none = Cursors::new();
        let (mine, in_order) = if apart { (cursors, None) } else { (&mut none, Some(Mutex::new(cursors))) };
        let shared = Shared { bands, next: AtomicUsize::new(0), in_order, turns: Turns::new(take), cancelled };
        let (shared, blank) = (&shared, self.without_leaves(known));
        let results: Vec<(ReadStats, Result<(), Fault<E>>)> = std::thread::scope(|scope| {
            let help = |helper: (Lent, Spare<'a>)| {
                let ((lent, spare), mut known) = (helper, blank.clone());
                scope.spawn(move || {
                    let _spare = spare;
                    let prepared = Prepared::new(self.program, &self.schedule.types, &self.pass.wants, self.pass.tiles.len() > 1);
                    match prepared {
                        Ok(mut prepared) => {
                            let cursors = &mut Cursors::new();
                            let worker = Worker { prepared: &mut prepared, known: &mut known, cursors, stats: ReadStats::default() };
                            self.work(worker, shared, Some(&lent))
                        }
                        // The thread that is helped prepared the same before.
                        Err((k, e)) => (ReadStats::default(), Err(Fault::Step(k, e))),
                    }
                })
            };
            let others: Vec<_> = helpers.into_iter().map(help).collect();
            let worker = Worker { prepared, known, cursors: mine, stats: ReadStats::default() };
            let own = self.work(worker, shared, None);
            let joined = others.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(own).chain(joined).collect()
        });
        // Those that a failure stopped say that they were cancelled: the failure itself counts.
        let real = |done: &Result<(), Fault<E>>| matches!(done, Err(fault) if !matches!(fault, Fault::Cancelled));
        results.into_iter().fold((ReadStats::default(), Ok(())), |(sum, all), (stats, done)| {
            (sum.plus(stats), if real(&all) || done.is_ok() { all } else { done })
        })
    }

    /// True if leaves are read for each band.
    fn reads(&self) -> bool {
        !self.bands.whole_pieces && self.banded().next().is_some()
    }

    /// What is known but for the leaves that are read for each band.
    fn without_leaves(&self, known: &Known) -> Known {
        let reads = self.reads();
        let blank = |(k, parts): (usize, &Vec<Part>)| if reads && self.bands.banded[k] { Vec::new() } else { parts.clone() };
        known.iter().enumerate().map(blank).collect()
    }

    fn alone<E>(
        &self,
        bands: &Tiling,
        worker: &mut Worker<'_, '_>,
        cancelled: &dyn Fn() -> bool,
        mut take: impl FnMut(&Region, Vec<Block>) -> Result<(), E>,
    ) -> Result<(), Fault<E>> {
        let Worker { prepared, known, cursors, stats } = worker;
        for band in bands.iter() {
            if self.reads() {
                let freed = self.swap(known, Loaded::new());
                let loaded = self.read(&band, cursors, freed, stats).map_err(Fault::Read)?;
                self.swap(known, loaded);
            }
            for tile in self.tiles(&band, prepared).iter() {
                if cancelled() {
                    return Err(Fault::Cancelled);
                }
                take(&tile, self.values(&tile, prepared, known)?).map_err(Fault::Taker)?;
            }
        }
        Ok(())
    }

    fn values<E>(&self, tile: &Region, prepared: &mut Prepared<'_>, known: &Known) -> Result<Vec<Block>, Fault<E>> {
        let wants = vec![tile.clone(); self.pass.wants.len()];
        prepared.evaluate(known, &wants, false).map_err(|(k, e)| Fault::Step(k, e))
    }

    /// One of several threads: takes bands until there are none, or until its core is wanted.
    fn work<E, F>(&self, mut worker: Worker<'_, '_>, shared: &Shared<'_, F>, lent: Option<&Lent>) -> (ReadStats, Result<(), Fault<E>>)
    where
        F: FnMut(&Region, Vec<Block>) -> Result<(), E>,
    {
        let failing = Failing(&shared.turns);
        let mut done = Ok(true);
        while let Ok(true) = done
            && lent.is_none_or(|lent| !lent.wanted())
        {
            done = self.next_band(&mut worker, shared);
        }
        if done.is_ok() {
            std::mem::forget(failing);
        }
        (worker.stats, done.map(|_| ()))
    }

    /// Takes the next band, if there is one.
    fn next_band<E, F>(&self, worker: &mut Worker<'_, '_>, shared: &Shared<'_, F>) -> Result<bool, Fault<E>>
    where
        F: FnMut(&Region, Vec<Block>) -> Result<(), E>,
    {
        let Worker { prepared, known, cursors, stats } = worker;
        let turns = &shared.turns;
        let in_order = shared.in_order.as_ref().map(Mutex::lock);
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(band) = shared.bands.get(number) else { return Ok(false) };
        if self.reads() {
            let freed = self.swap(known, Loaded::new());
            let loaded = match in_order {
                Some(mut cursors) => self.read(&band, &mut cursors, freed, stats),
                None => self.read(&band, cursors, freed, stats),
            };
            self.swap(known, loaded.map_err(Fault::Read)?);
        }
        let mut waiting = Vec::new();
        for tile in self.tiles(&band, prepared).iter() {
            if (shared.cancelled)() || turns.stopped() {
                return Err(Fault::Cancelled);
            }
            let values = self.values(&tile, prepared, known)?;
            if self.ordered {
                waiting.push((tile, values));
            } else {
                (turns.take.lock())(&tile, values).map_err(Fault::Taker)?;
            }
        }
        if self.ordered {
            let mut take = turns.wait(number).ok_or(Fault::Cancelled)?;
            for (tile, values) in waiting {
                take(&tile, values).map_err(Fault::Taker)?;
            }
            turns.set(number + 1, take);
        }
        Ok(true)
    }
}

//! The tiles of a pass, band by band, on every core that is idle.
//!
//! While cores have no task of their own, other threads help. A helper takes the next band, or the next few bands where they are decoded from
//! blocks. It reads and evaluates them, and hands over their values. Bands that feed folds are handed over in their order, so that sums do not
//! depend on which thread was first. When a task wants the core and the memory of a helper, the helper finishes the bands that it has taken, and
//! then gives both back.

use crate::TaskContext;
use crate::evaluate::{Known, Prepared};
use chunkwise_kernels::{Block, KernelError, Lent, Part, borrow};
use chunkwise_plan::bands::Bands;
use chunkwise_plan::demand::Demands;
use chunkwise_plan::schedule::{Pass, Schedule, Tiling};
use chunkwise_plan::{PlanArray, Program, memory};
use chunkwise_storage::{Cursor, MemoryTier, ReadStats, Spare, StorageError};
use chunkwise_types::{ArrayAccess, Region};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The fewest bands that a thread is worth starting for.
const WORTHWHILE: usize = 4;
/// Helpers at most: more would wait for each other.
const MAX_HELPERS: usize = 15;
/// Bands until memory is asked for again after it was refused.
const BANDS_UNTIL_RETRY: usize = 16;
/// The value of `turn` after a thread has failed.
const STOPPED: usize = usize::MAX;
/// Checks of `turn` before a thread goes to sleep. A turn is short, so it is worth spinning first.
const SPINS: usize = 4096;

/// Bands of blocks that a thread takes together. The blocks at both ends are decoded twice, as the neighbours need a part of them, too.
const RUN: usize = 12;

/// By step, where leaves that are read in bands are open.
pub(crate) type Cursors = BTreeMap<usize, Cursor>;

/// What went wrong with a tile.
pub(crate) enum Fault<E> {
    Read(StorageError),
    Step(usize, KernelError),
    Cancelled,
    Taker(E),
}

/// How threads read the leaves of a pass together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// Each its byte ranges.
    Ranges,
    /// Each the blocks of a few bands.
    Blocks,
    /// One after another: what is decoded in the order of its chunk, or as a whole.
    InOrder,
}

/// A pass, and how it is read.
pub(crate) struct Tiles<'a> {
    ctx: &'a TaskContext,
    program: &'a Program,
    schedule: &'a Schedule,
    pass: &'a Pass,
    pub bands: Bands,
    /// The leaves that are read for each band, in the order in which they are loaded.
    leaves: Vec<usize>,
    /// How they can be read together, if there are bands enough.
    sharing: Sharing,
    /// The values must be taken in the order of the tiles.
    ordered: bool,
}

/// An idle core, with memory for a thread on it.
type Helper<'a> = (Lent, Spare<'a>);

/// The bands of a part of a pass, and the helpers that share them.
pub(crate) struct Shift<'a> {
    bands: Tiling,
    helpers: Vec<Helper<'a>>,
    sharing: Sharing,
    /// Where helpers get their memory; none if they are not worth it.
    memory: Option<&'a MemoryTier>,
    /// The band from which on it is asked.
    from: usize,
    /// Bytes that each needs, once that is known.
    need: Option<u64>,
}

impl Shift<'_> {
    /// True if there are no helpers.
    pub fn alone(&self) -> bool {
        self.helpers.is_empty()
    }

    /// The elements of the part.
    pub fn elements(&self) -> u64 {
        self.bands.whole().volume()
    }

    /// The bands that a thread takes together.
    fn run(&self) -> usize {
        if self.sharing == Sharing::Blocks { RUN } else { 1 }
    }
}

/// Hands over values band by band: the turn says which band is next.
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

    fn at(&self, band: usize) -> bool {
        self.turn.load(Ordering::Acquire) == band
    }

    fn set(&self, turn: usize, _taker: MutexGuard<'_, F>) {
        // Under the lock, or a thread that is about to sleep would miss it.
        self.turn.store(turn, Ordering::Release);
        self.turned.notify_all();
    }

    /// Waits until it is the turn of a band; `None` if that never comes.
    fn wait(&self, band: usize) -> Option<MutexGuard<'_, F>> {
        for _ in 0..SPINS {
            if self.at(band) {
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
    spent: Spent,
}

impl<'w, 's> Worker<'w, 's> {
    fn new(prepared: &'w mut Prepared<'s>, known: &'w mut Known, cursors: &'w mut Cursors) -> Worker<'w, 's> {
        Worker { prepared, known, cursors, stats: ReadStats::default(), spent: Spent::default() }
    }
}

/// How long a thread has read lately, and evaluated what it had read.
#[derive(Default)]
struct Spent {
    reading: Duration,
    evaluating: Duration,
}

impl Spent {
    /// True if one more thread than `others` and this one would do more than wait for what only one of them can read at a time.
    fn helped(&self, others: usize) -> bool {
        self.evaluating * 4 > self.reading * (1 + others as u32)
    }

    /// Counts one more band. What was before counts half as much: the first band may have decoded a whole chunk.
    fn add(&mut self, reading: Duration, evaluating: Duration) {
        self.reading = self.reading / 2 + reading;
        self.evaluating = self.evaluating / 2 + evaluating;
    }
}

/// What all threads that work on a part share.
struct Shared<'w, F> {
    bands: Tiling,
    /// Bands that are taken together.
    run: usize,
    next: AtomicUsize,
    /// Held while a band is taken and its leaves are read, where that goes through a chunk in order.
    in_order: Option<Mutex<&'w mut Cursors>>,
    turns: Turns<F>,
    cancelled: &'w (dyn Fn() -> bool + Sync),
}

impl<'a> Tiles<'a> {
    /// A pass whose results are taken in these pieces. `order` is the one in which the leaves of the program are loaded.
    pub fn new(
        ctx: &'a TaskContext,
        program: &'a Program,
        schedule: &'a Schedule,
        pass: &'a Pass,
        (pieces, ordered): (&[Region], bool),
        order: &[usize],
    ) -> Tiles<'a> {
        let bands = Bands::of(&ctx.plan.arrays, program, schedule, pass, pieces);
        let leaves: Vec<usize> = order.iter().copied().filter(|&k| bands.banded[k] && !bands.whole_pieces).collect();
        let all = |of: &dyn Fn(&PlanArray) -> bool| {
            leaves.iter().all(|&k| program.steps[k].read.as_ref().is_none_or(|name| of(&ctx.plan.arrays[name])))
        };
        let sharing = match () {
            () if all(&|a| a.access == ArrayAccess::Raw) => Sharing::Ranges,
            () if all(&memory::divisible) => Sharing::Blocks,
            () => Sharing::InOrder,
        };
        Tiles { ctx, program, schedule, pass, bands, leaves, sharing, ordered }
    }

    /// Finds out once how a tile is evaluated; every thread needs its own.
    pub fn prepare(&self) -> Result<Prepared<'a>, (usize, KernelError)> {
        self.schedule.units(self.program, self.pass).map(Prepared::new)
    }

    /// Leaves are read for each band.
    pub fn in_bands(&self) -> bool {
        !self.leaves.is_empty()
    }

    /// Takes the bands of a part of what the pass wants, and helpers, if cores and memory are idle and kernels have no better use of them.
    pub fn shift(&self, part: &Region) -> Shift<'a> {
        let bands = if self.in_bands() { self.bands.cut(self.pass, part) } else { self.pass.tiles_of(part) };
        let worthwhile = !self.program.steps.iter().filter_map(|s| s.kernel.as_ref()).any(|kernel| kernel.traits().whole);
        let memory = self.ctx.memory().filter(|_| worthwhile);
        let few = self.sharing == Sharing::Blocks && bands.len() < (WORTHWHILE + 1) * RUN;
        let sharing = if few { Sharing::InOrder } else { self.sharing };
        let mut shift = Shift { bands, helpers: Vec::new(), sharing, memory, from: 0, need: None };
        // Blocks have to be found in the chunk first; and what is read in order may keep a single thread busy.
        while sharing == Sharing::Ranges
            && let Some(helper) = self.helper(&mut shift, 0, 0)
        {
            shift.helpers.push(helper);
        }
        shift
    }

    /// One more helper, where so many bands are taken and so many others are at work, if it is worth it.
    fn helper(&self, shift: &mut Shift<'a>, taken: usize, others: usize) -> Option<Helper<'a>> {
        let left = shift.bands.len().saturating_sub(taken) / shift.run();
        let others = others + shift.helpers.len();
        let memory = shift.memory.filter(|_| left >= WORTHWHILE && others < MAX_HELPERS.min(left / 2) && taken >= shift.from)?;
        let lent = borrow(1);
        if lent.count == 0 {
            return None;
        }
        let need = shift.need.unwrap_or_else(|| self.helper_need(shift));
        shift.need = Some(need);
        let Some(spare) = memory.reserve_spare(need) else {
            // A task that has just ended may give its core back before its memory.
            shift.from = taken + BANDS_UNTIL_RETRY;
            return None;
        };
        Some((lent, spare))
    }

    /// Bytes that one more thread needs.
    fn helper_need(&self, shift: &Shift<'_>) -> u64 {
        let bytes = |k: usize, regions: &[Region]| memory::bytes_of(self.program, k, regions);
        let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0, u64::saturating_add);
        let band = |band: Region| {
            let demands = self.schedule.needs(self.program, self.pass, &band);
            let leaves = sum(&mut self.leaves.iter().map(|&k| bytes(k, &demands[k])));
            let values = sum(&mut self.pass.wants.iter().map(|(k, _)| bytes(*k, std::slice::from_ref(&band))));
            // Values wait for their turn: its own, and now those of the thread that it helps as well. Some are views of their leaves.
            let waiting = if self.ordered { 2 * shift.run() as u64 } else { 0 };
            leaves.saturating_add(values).saturating_mul(1 + waiting)
        };
        let read = self.leaves.iter().filter_map(|&k| self.program.steps[k].read.as_ref());
        let reading = match shift.sharing {
            Sharing::Ranges => read.map(|name| memory::reading(&self.ctx.plan.arrays[name])).max().unwrap_or(0),
            Sharing::Blocks => memory::BLOCKS.saturating_mul(self.leaves.len() as u64),
            // Through what is open already.
            Sharing::InOrder => 0,
        };
        let tile = memory::tile(self.program, self.schedule, self.pass);
        sum(&mut [shift.bands.samples().map(band).max().unwrap_or(0), reading, tile].into_iter())
    }

    /// Gives the values of every tile of a shift to `take`; says what was read. `cursors` are where leaves are open already.
    pub fn each<E: Send>(
        &self,
        mut shift: Shift<'a>,
        prepared: &mut Prepared<'_>,
        known: &mut Known,
        cursors: &mut Cursors,
        cancelled: &(dyn Fn() -> bool + Sync),
        take: impl FnMut(&Region, Vec<Block>) -> Result<(), E> + Send,
    ) -> (ReadStats, Result<(), Fault<E>>) {
        let mut none = Cursors::new();
        let (mine, in_order) = if shift.sharing == Sharing::InOrder { (&mut none, Some(Mutex::new(cursors))) } else { (cursors, None) };
        let shared = &Shared {
            bands: shift.bands.clone(),
            run: shift.run(),
            next: AtomicUsize::new(0),
            in_order,
            turns: Turns::new(take),
            cancelled,
        };
        let results: Vec<(ReadStats, Result<(), Fault<E>>)> = std::thread::scope(|scope| {
            let start = |(lent, spare): Helper<'a>, known: &Known| {
                let mut known = self.without_leaves(known);
                scope.spawn(move || {
                    match self.prepare() {
                        Ok(mut prepared) => {
                            let cursors = &mut Cursors::new();
                            self.work(Worker::new(&mut prepared, &mut known, cursors), shared, |_| !lent.wanted() && !spare.wanted())
                        }
                        // The thread that is helped prepared the same before.
                        Err((k, e)) => (ReadStats::default(), Err(Fault::Step(k, e))),
                    }
                })
            };
            let mut others: Vec<_> = std::mem::take(&mut shift.helpers).into_iter().map(|helper| start(helper, known)).collect();
            let own = self.work(Worker::new(prepared, known, mine), shared, |worker| {
                let taken = shared.next.load(Ordering::Relaxed);
                let found = |k: &usize| worker.cursors.get(k).is_some_and(Cursor::in_parts);
                if shift.sharing == Sharing::Blocks && (taken == 0 || !self.leaves.iter().all(found)) {
                    return true;
                }
                // Cores may have become idle meanwhile.
                let mut at_work = others.iter().filter(|t| !t.is_finished()).count();
                while (shift.sharing != Sharing::InOrder || worker.spent.helped(at_work))
                    && let Some(helper) = self.helper(&mut shift, taken, at_work)
                {
                    others.push(start(helper, worker.known));
                    at_work += 1;
                }
                true
            });
            let joined = others.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            std::iter::once(own).chain(joined).collect()
        });
        // Those that a failure stopped say that they were cancelled: the failure itself counts.
        let real = |done: &Result<(), Fault<E>>| matches!(done, Err(fault) if !matches!(fault, Fault::Cancelled));
        results.into_iter().fold((ReadStats::default(), Ok(())), |(sum, all), (stats, done)| {
            (sum.plus(stats), if real(&all) || done.is_ok() { all } else { done })
        })
    }

    /// What is known but for the leaves that are read for each band.
    fn without_leaves(&self, known: &Known) -> Known {
        known.iter().enumerate().map(|(k, parts)| if self.leaves.contains(&k) { Vec::new() } else { parts.clone() }).collect()
    }

    /// Reads what one band needs in place of what the one before needed.
    fn read(&self, band: &Region, cursors: &mut Cursors, known: &mut Known, stats: &mut ReadStats) -> Result<(), StorageError> {
        let demands: Demands = self.schedule.needs(self.program, self.pass, band);
        for &k in &self.leaves {
            let step = &self.program.steps[k];
            let Some(name) = &step.read else { continue };
            let mut old = std::mem::take(&mut known[k]);
            // One buffer is used again; others would stay beside it.
            old.truncate(usize::from(demands[k].len() == 1));
            let (shared, streamed) = (self.bands.shared[k], self.bands.streamed[k]);
            let cursor = cursors.entry(k).or_default();
            // An earlier pass may have gone through the chunks in another way.
            if !cursor.reads(shared, streamed) {
                *cursor = Cursor::new(shared, streamed);
            }
            let io = self.ctx.array(name);
            for region in &demands[k] {
                if let Some((block, read)) = self.ctx.in_place(name, region)? {
                    *stats = stats.plus(read);
                    known[k].push(Part { region: region.clone(), block });
                    continue;
                }
                let block = Block::refilled(old.pop().map(|p| p.block), step.ty.dtype, &region.shape, |bytes| {
                    *stats = stats.plus(io.read_piece(region, cursor, bytes)?);
                    Ok(())
                })?;
                known[k].push(Part { region: region.clone(), block });
            }
        }
        Ok(())
    }

    /// The tiles of a band. Values that are leaves are not computed, so their bands need no tiles.
    fn tiles(&self, band: &Region, prepared: &Prepared<'_>) -> Tiling {
        if prepared.units.list.is_empty() { Tiling::uncut(band.clone()) } else { self.pass.tiles_of(band) }
    }

    /// One thread of a shift: takes bands until there are none, or until it should not go on, which is asked each time.
    fn work<E, F>(
        &self,
        mut worker: Worker<'_, '_>,
        shared: &Shared<'_, F>,
        mut go_on: impl FnMut(&Worker<'_, '_>) -> bool,
    ) -> (ReadStats, Result<(), Fault<E>>)
    where
        F: FnMut(&Region, Vec<Block>) -> Result<(), E>,
    {
        let failing = Failing(&shared.turns);
        let mut done = Ok(true);
        while let Ok(true) = done
            && go_on(&worker)
        {
            done = self.next_run(&mut worker, shared);
        }
        if done.is_ok() {
            std::mem::forget(failing);
        }
        (worker.stats, done.map(|_| ()))
    }

    /// Reads, evaluates and hands over the next bands, if there are any.
    fn next_run<E, F>(&self, worker: &mut Worker<'_, '_>, shared: &Shared<'_, F>) -> Result<bool, Fault<E>>
    where
        F: FnMut(&Region, Vec<Block>) -> Result<(), E>,
    {
        let Worker { prepared, known, cursors, stats, spent } = worker;
        let turns = &shared.turns;
        let mut in_order = shared.in_order.as_ref().map(Mutex::lock);
        let first = shared.next.fetch_add(shared.run, Ordering::Relaxed);
        let mut waiting = Vec::new();
        let hand_over = |take: &mut F, waiting: &mut Vec<(Region, Vec<Block>)>| {
            waiting.drain(..).try_for_each(|(tile, values)| take(&tile, values)).map_err(Fault::Taker)
        };
        let bands = (first..first.saturating_add(shared.run)).map_while(|number| shared.bands.get(number));
        for band in bands {
            let begun = Instant::now();
            match in_order.take() {
                Some(mut cursors) => self.read(&band, &mut cursors, known, stats),
                None => self.read(&band, cursors, known, stats),
            }
            .map_err(Fault::Read)?;
            let read = Instant::now();
            for tile in self.tiles(&band, prepared).iter() {
                if (shared.cancelled)() || turns.at(STOPPED) {
                    return Err(Fault::Cancelled);
                }
                let wants = vec![tile.clone(); self.pass.wants.len()];
                let values = prepared.evaluate(known, &wants, false).map_err(|(k, e)| Fault::Step(k, e))?;
                waiting.push((tile, values));
                if !self.ordered || turns.at(first) {
                    hand_over(&mut turns.take.lock(), &mut waiting)?;
                }
            }
            spent.add(read - begun, read.elapsed());
        }
        if first >= shared.bands.len() {
            return Ok(false);
        }
        if self.ordered {
            let mut take = turns.wait(first).ok_or(Fault::Cancelled)?;
            hand_over(&mut take, &mut waiting)?;
            turns.set(first + shared.run, take);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether one more thread is wanted beside so many others after bands that took so long to read and to evaluate.
    fn helped(bands: &[(u64, u64)], others: usize) -> bool {
        let mut spent = Spent::default();
        bands.iter().for_each(|&(reading, evaluating)| spent.add(Duration::from_micros(reading), Duration::from_micros(evaluating)));
        spent.helped(others)
    }

    #[test]
    fn readers_in_order_are_helped_where_evaluating_takes_long_enough() {
        assert!(!helped(&[], 0), "nothing is known yet");
        assert!(!helped(&[(100, 10)], 0), "reading is the limit: a second thread would wait for the first");
        assert!(helped(&[(100, 30)], 0));
        assert!(helped(&[(100, 400)], 3) && !helped(&[(100, 40)], 3), "the more there are, the sooner they wait for each other");
    }

    #[test]
    fn the_first_band_is_soon_forgotten() {
        // It has decoded a whole chunk, the others copy from it.
        let bands: Vec<(u64, u64)> = std::iter::once((100_000, 100)).chain(std::iter::repeat_n((50, 100), 20)).collect();
        assert!(!helped(&bands[..2], 0) && helped(&bands, 0));
    }
}

//! Reading the bands of a pass, one band ahead of the evaluation where a core is idle.

use crate::TaskContext;
use crate::evaluate::Known;
use chunkwise_kernels::{Block, Kernel, Lent, Part, borrow};
use chunkwise_plan::Program;
use chunkwise_plan::bands::Bands;
use chunkwise_plan::demand::Demands;
use chunkwise_plan::memory;
use chunkwise_storage::{Cursor, ReadStats, Spare, StorageError};
use std::collections::BTreeMap;
use std::sync::mpsc::{channel, sync_channel};

/// Fewer bands than this are not worth a thread.
const FEW: usize = 4;

/// The leaves of a band, by step.
type Loaded = BTreeMap<usize, Vec<Part>>;

/// Reads leaves band by band.
pub(crate) struct BandReader<'a> {
    ctx: &'a TaskContext,
    program: &'a Program,
    bands: &'a Bands,
    /// By step, where the leaves are open.
    cursors: &'a mut BTreeMap<usize, Cursor>,
    /// The leaves that are read in bands, in the order in which they are read.
    order: Vec<usize>,
    pub stats: ReadStats,
}

impl<'a> BandReader<'a> {
    /// A reader of those of the `leaves`, in their order, that are banded. It goes on where the cursors are.
    pub fn new(
        ctx: &'a TaskContext,
        program: &'a Program,
        bands: &'a Bands,
        leaves: &[usize],
        cursors: &'a mut BTreeMap<usize, Cursor>,
    ) -> BandReader<'a> {
        let order = leaves.iter().copied().filter(|&k| bands.banded[k]).collect();
        BandReader { ctx, program, bands, cursors, order, stats: ReadStats::default() }
    }

    /// Reads what one band needs, into buffers that are not used any more.
    fn read(&mut self, demands: &Demands, mut freed: Loaded) -> Result<Loaded, StorageError> {
        let mut loaded = Loaded::new();
        for &k in &self.order {
            let step = &self.program.steps[k];
            let Some(name) = &step.read else { continue };
            let mut old = freed.remove(&k).unwrap_or_default();
            // One buffer is used again; others would stay beside it.
            old.truncate(usize::from(demands[k].len() == 1));
            let cursor = self.cursors.entry(k).or_insert_with(|| Cursor::new(self.bands.shared[k]));
            let (io, stats) = (self.ctx.array(name), &mut self.stats);
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

    /// An idle core and memory for a second band, if both are there and kernels have no better use of the core.
    fn second(&self, demands: &[Demands]) -> Option<(Lent, Spare<'a>)> {
        let product = |kernel: &Kernel| matches!(kernel, Kernel::Contract(_) | Kernel::Qr(_));
        if demands.len() < FEW || self.program.steps.iter().filter_map(|s| s.kernel.as_ref()).any(product) {
            return None;
        }
        let memory = self.ctx.memory()?;
        let bytes = |d: &Demands| -> u64 {
            let of = |k: usize| d[k].iter().map(|r| r.volume().saturating_mul(self.program.steps[k].ty.dtype.size())).sum::<u64>();
            (0..d.len()).filter(|&k| self.bands.banded[k]).map(of).sum()
        };
        let most = demands.iter().map(bytes).max()?;
        // What is read through is in use while a tile is computed, of which the projection counts only the larger one.
        let arrays = &self.ctx.plan.arrays;
        let leaves = self.order.iter().filter_map(|&k| self.program.steps[k].read.as_ref());
        let through = leaves.map(|name| memory::reading(&arrays[name])).max()?;
        let lent = borrow(1);
        (lent.count > 0).then(|| memory.reserve_spare(most.saturating_add(through))).flatten().map(|spare| (lent, spare))
    }

    /// Calls `then` with the number of each band when its leaves are known.
    pub fn each<E>(
        &mut self,
        demands: &[Demands],
        known: &mut Known,
        fault: impl Fn(StorageError) -> E,
        mut then: impl FnMut(usize, &mut Known) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(_second) = self.second(demands) else {
            for (i, demands) in demands.iter().enumerate() {
                let freed = swap(self.bands, known, Loaded::new());
                let loaded = self.read(demands, freed).map_err(&fault)?;
                swap(self.bands, known, loaded);
                then(i, known)?;
            }
            return Ok(());
        };
        let first = swap(self.bands, known, Loaded::new());
        let bands = self.bands;
        std::thread::scope(|scope| {
            // Without room in between: one band is evaluated while another is read or waits.
            let (send, receive) = sync_channel(0);
            let (give, returned) = channel::<Loaded>();
            let reader = scope.spawn(move || {
                let mut first = Some(first);
                for (i, demands) in demands.iter().enumerate() {
                    let freed = if i < 2 { Ok(first.take().unwrap_or_default()) } else { returned.recv() };
                    // Nobody returns buffers any more where the evaluation has failed.
                    let Ok(freed) = freed else { break };
                    let read = self.read(demands, freed);
                    let failed = read.is_err();
                    // Nor does anybody receive then.
                    if send.send(read).is_err() || failed {
                        break;
                    }
                }
            });
            for i in 0..demands.len() {
                let Ok(loaded) = receive.recv() else {
                    // Without a sender the thread has panicked.
                    reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    return Ok(());
                };
                let old = swap(bands, known, loaded.map_err(&fault)?);
                if i > 0 {
                    let _ = give.send(old);
                }
                then(i, known)?;
            }
            Ok(())
        })
    }
}

/// Puts the leaves of a band where they are looked for, in place of those of the band before.
fn swap(bands: &Bands, known: &mut Known, mut loaded: Loaded) -> Loaded {
    let banded = (0..known.len()).filter(|&k| bands.banded[k]);
    banded.map(|k| (k, std::mem::replace(&mut known[k], loaded.remove(&k).unwrap_or_default()))).collect()
}

//! Checksums that travel with an array.
//!
//! When a run is whole, the checksums that its tasks reported are put beside the chunks of each output, in an object that readers of Zarr
//! ignore. So an array can be verified when the folder of the run is long gone, or after the array was copied elsewhere. A line is
//! `XXH3_<16 hexadecimal digits>  <key of the chunk>`, which `xxhsum --check` can read, too.

use crate::RunError;
use crate::log::each_report;
use chunkwise_plan::{ArrayRole, Plan, PlanArray, WrittenChunk};
use chunkwise_storage::{Location, ObjectWriter, StorageError, Store, Stores, at_once};
use chunkwise_task::TaskContext;
use chunkwise_types::{ravel, unravel};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The name of the object, below the array.
pub const CHECKSUMS: &str = "chunkwise.xxh3";

/// The checksums of a run may take this fraction of the memory of its tasks (one divided by this number),
const SHARE: u64 = 16;
/// but always at least the memory for this many chunks.
const LEAST: u64 = 4096;
/// The number of lines that are written at once.
const LINES: usize = 4096;

/// The largest number of chunks whose checksums are in memory at once.
fn most(plan: &Plan) -> u64 {
    (plan.spec.task_budget() / SHARE / size_of::<Option<u64>>() as u64).max(LEAST)
}

/// Writes the checksums of an array: keys and hashes in the order of the grid. If there are no chunks, nothing is written.
///
/// # Errors
/// When storage fails.
pub fn write<K: AsRef<str>, H: AsRef<str>>(
    stores: &Stores,
    at: &Location,
    chunks: impl Iterator<Item = (K, H)>,
) -> Result<(), StorageError> {
    let mut out = Lines { store: stores.open(at)?, text: String::new(), held: 0, object: None };
    for (key, hash) in chunks {
        out.add(key.as_ref(), hash.as_ref())?;
    }
    out.finish()
}

/// The object with the checksums of an array, line by line.
struct Lines {
    store: Store,
    text: String,
    held: usize,
    object: Option<ObjectWriter>,
}

impl Lines {
    fn add(&mut self, key: &str, hash: &str) -> Result<(), StorageError> {
        let _ = writeln!(self.text, "XXH3_{hash}  {key}");
        self.held += 1;
        if self.held >= LINES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.held = 0;
        let object = match &mut self.object {
            Some(object) => object,
            None => self.object.insert(self.store.writer(CHECKSUMS)?),
        };
        object.write(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), StorageError> {
        if self.object.is_none() {
            // A few lines are written as one object.
            return if self.text.is_empty() { Ok(()) } else { self.store.put(CHECKSUMS, self.text.into_bytes()) };
        }
        self.flush()?;
        self.object.map_or(Ok(()), ObjectWriter::finish)
    }
}

fn outputs(plan: &Plan) -> impl Iterator<Item = (&String, &PlanArray)> {
    plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Output)
}

/// The position of a reported chunk in the order of the grid; `None` if the array has no such chunk.
fn place_of(array: &PlanArray, w: &WrittenChunk) -> Option<u64> {
    let counts = array.grid.counts();
    let exists = w.chunk.len() == counts.len() && w.chunk.iter().zip(&counts).all(|(i, n)| i < n);
    exists.then(|| ravel(&w.chunk, &counts))
}

/// The checksums of the outputs of a run, as its tasks report them: those of each array in the order of its grid.
#[derive(Clone, Default)]
pub(crate) struct Sums(BTreeMap<String, Vec<Option<u64>>>);

impl Sums {
    /// An empty collection. If there are so many chunks that their checksums would not fit into the memory of a run, none are kept. Then
    /// they are read from the reports at the end, piece by piece.
    pub fn new(plan: &Plan) -> Sums {
        if outputs(plan).map(|(_, a)| a.grid.count()).fold(0, u64::saturating_add) > most(plan) {
            return Sums::default();
        }
        Sums(outputs(plan).map(|(name, array)| (name.clone(), vec![None; array.grid.count() as usize])).collect())
    }

    /// Takes the checksum of a reported chunk. Chunks that do not belong to an output are ignored.
    pub fn add(&mut self, plan: &Plan, w: &WrittenChunk) {
        let (Some(sums), Some(array)) = (self.0.get_mut(&w.array), plan.arrays.get(&w.array)) else { return };
        if let Some(sum) = place_of(array, w).and_then(|k| sums.get_mut(k as usize)) {
            *sum = u64::from_str_radix(&w.xxh3, 16).ok();
        }
    }

    /// True if some checksums are missing.
    fn lacking(&self) -> bool {
        self.0.values().flatten().any(Option::is_none)
    }
}

/// Writes the checksums of all outputs of a run whose tasks are done. Checksums that did not reach this process are in the run's reports.
pub(crate) fn write_outputs(context: &TaskContext, sums: &Sums) -> Result<(), RunError> {
    let plan = &context.plan;
    if sums.0.is_empty() {
        // One after the other, because each of them takes memory.
        return outputs(plan).try_for_each(|(name, array)| Ok(write_in_pieces(context, name, array)?));
    }
    let mut all = None;
    if sums.lacking() {
        let sums: &mut Sums = all.insert(sums.clone());
        each_report(context.stores(), &context.run_dir, &mut |w| sums.add(plan, &w))?;
    }
    let sums = all.as_ref().unwrap_or(sums);
    let written = at_once(&outputs(plan).collect::<Vec<_>>(), |(name, array)| {
        let (io, counts) = (context.array(name), array.grid.counts());
        let sums = sums.0.get(*name).into_iter().flatten().enumerate();
        let lines = sums.filter_map(|(k, sum)| Some((io.chunk_key(&unravel(k as u64, &counts)), format!("{:016x}", (*sum)?))));
        write(context.stores(), context.array_location(name), lines)
    });
    Ok(written.into_iter().collect::<Result<(), StorageError>>()?)
}

/// Writes the checksums of an output with more chunks than fit into memory. It goes through the reports once for each piece of the grid.
fn write_in_pieces(context: &TaskContext, name: &str, array: &PlanArray) -> Result<(), StorageError> {
    let (io, counts, total, most) = (context.array(name), array.grid.counts(), array.grid.count(), most(&context.plan));
    let mut out = Lines { store: context.stores().open(context.array_location(name))?, text: String::new(), held: 0, object: None };
    let mut start = 0;
    while start < total {
        let mut sums = vec![None; most.min(total - start) as usize];
        each_report(context.stores(), &context.run_dir, &mut |w| {
            let place = place_of(array, &w).filter(|_| w.array == name).and_then(|k| k.checked_sub(start));
            if let Some(sum) = place.and_then(|k| sums.get_mut(k as usize)) {
                *sum = u64::from_str_radix(&w.xxh3, 16).ok();
            }
        })?;
        for (k, sum) in (start..).zip(&sums) {
            if let Some(sum) = sum {
                out.add(&io.chunk_key(&unravel(k, &counts)), &format!("{sum:016x}"))?;
            }
        }
        start += sums.len() as u64;
    }
    out.finish()
}

/// The checksums that lie beside an array, by key; `None` if there are none. Invalid lines are ignored, so that their chunks count as
/// chunks without a checksum.
///
/// # Errors
/// When storage fails.
pub fn read(stores: &Stores, at: &Location) -> Result<Option<HashMap<String, u64>>, StorageError> {
    let Some(data) = stores.open(at)?.get(CHECKSUMS)? else { return Ok(None) };
    let line = |l: &str| {
        let (hash, key) = l.strip_prefix("XXH3_")?.split_once("  ")?;
        Some((key.to_string(), u64::from_str_radix(hash, 16).ok()?))
    };
    Ok(Some(String::from_utf8_lossy(&data).lines().filter_map(line).collect()))
}

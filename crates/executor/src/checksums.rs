//! Checksums that travel with an array.
//!
//! When a run is whole, the checksums that its tasks reported are put beside the chunks of each output, in an object that readers of
//! Zarr do not look at. So an array can be verified when the folder of the run is long gone, and after it was copied elsewhere. A line
//! is `XXH3_<16 hexadecimal digits>  <key of the chunk>`, which is also what `xxhsum --check` reads.

use crate::RunError;
use crate::log::read_reports;
use chunkwise_plan::{ArrayRole, Plan, PlanArray, WrittenChunk};
use chunkwise_storage::{Location, StorageError, Store, at_once};
use chunkwise_task::TaskContext;
use chunkwise_types::{ravel, unravel};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The name of the object, below the array.
pub const CHECKSUMS: &str = "chunkwise.xxh3";

/// Bytes of memory that collecting the checksums takes for each chunk, at most.
const EACH: u64 = 1024;

/// Writes the checksums of an array: keys and hashes in the order of the grid.
///
/// # Errors
/// When storage fails.
pub fn write<K: AsRef<str>, H: AsRef<str>>(at: &Location, chunks: impl Iterator<Item = (K, H)>) -> Result<(), StorageError> {
    let mut text = String::new();
    for (key, hash) in chunks {
        let _ = writeln!(text, "XXH3_{}  {}", hash.as_ref(), key.as_ref());
    }
    if !text.is_empty() {
        Store::open(at)?.put(CHECKSUMS, text.into_bytes())?;
    }
    Ok(())
}

fn outputs(plan: &Plan) -> impl Iterator<Item = (&String, &PlanArray)> {
    plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Output)
}

/// The checksums of the outputs of a run, as its tasks report them: those of each array in the order of its grid.
#[derive(Clone, Default)]
pub(crate) struct Sums(BTreeMap<String, Vec<Option<u64>>>);

impl Sums {
    /// Of none of the chunks so far. Of so many chunks that they would not fit into the memory of a run, none are kept.
    pub fn new(plan: &Plan) -> Sums {
        let chunks = plan.arrays.values().filter(|a| a.role != ArrayRole::Input).map(|a| a.grid.count()).fold(0, u64::saturating_add);
        if chunks.saturating_mul(EACH) > plan.spec.task_budget() {
            return Sums::default();
        }
        Sums(outputs(plan).map(|(name, array)| (name.clone(), vec![None; array.grid.count() as usize])).collect())
    }

    /// Takes what was reported of a chunk; what no chunk of an output can be is left out.
    pub fn add(&mut self, plan: &Plan, w: &WrittenChunk) {
        let (Some(sums), Some(array)) = (self.0.get_mut(&w.array), plan.arrays.get(&w.array)) else { return };
        let counts = array.grid.counts();
        if w.chunk.len() == counts.len()
            && w.chunk.iter().zip(&counts).all(|(i, n)| i < n)
            && let Some(sum) = sums.get_mut(ravel(&w.chunk, &counts) as usize)
        {
            *sum = u64::from_str_radix(&w.xxh3, 16).ok();
        }
    }

    /// True if the tasks of a run have not reported all of them.
    fn lacking(&self) -> bool {
        self.0.values().flatten().any(Option::is_none)
    }
}

/// Writes the checksums of all outputs of a run whose tasks are done: what has not come to this process is in the run's reports.
pub(crate) fn write_outputs(context: &TaskContext, sums: &Sums) -> Result<(), RunError> {
    let plan = &context.plan;
    let mut all = None;
    if sums.lacking() {
        let sums: &mut Sums = all.insert(sums.clone());
        read_reports(&context.run_dir)?.values().for_each(|w| sums.add(plan, w));
    }
    let sums = all.as_ref().unwrap_or(sums);
    let written = at_once(&outputs(plan).collect::<Vec<_>>(), |(name, array)| {
        let (io, counts) = (context.array(name), array.grid.counts());
        let sums = sums.0.get(*name).into_iter().flatten().enumerate();
        let lines = sums.filter_map(|(k, sum)| Some((io.chunk_key(&unravel(k as u64, &counts)), format!("{:016x}", (*sum)?))));
        write(context.array_location(name), lines)
    });
    Ok(written.into_iter().collect::<Result<(), StorageError>>()?)
}

/// The checksums that lie beside an array, by key; `None` if there are none. A line that is none is left out, so that its chunk counts
/// as one without a checksum.
///
/// # Errors
/// When storage fails.
pub fn read(at: &Location) -> Result<Option<HashMap<String, u64>>, StorageError> {
    let Some(data) = Store::open(at)?.get(CHECKSUMS)? else { return Ok(None) };
    let line = |l: &str| {
        let (hash, key) = l.strip_prefix("XXH3_")?.split_once("  ")?;
        Some((key.to_string(), u64::from_str_radix(hash, 16).ok()?))
    };
    Ok(Some(String::from_utf8_lossy(&data).lines().filter_map(line).collect()))
}

//! Checksums that travel with an array.
//!
//! When a run is whole, the checksums that its tasks reported are put beside the chunks of each output, in an object that readers of
//! Zarr do not look at. So an array can be verified when the folder of the run is long gone, and after it was copied elsewhere. A line
//! is `XXH3_<16 hexadecimal digits>  <key of the chunk>`, which is also what `xxhsum --check` reads.

use crate::RunError;
use crate::log::read_reports;
use chunkwise_plan::ArrayRole;
use chunkwise_storage::{Location, StorageError, Store, at_once};
use chunkwise_task::TaskContext;
use chunkwise_types::unravel;
use std::collections::HashMap;
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

/// Writes the checksums of all outputs of a run whose tasks are done. A run of so many chunks that this would not fit into its memory has none.
pub(crate) fn write_outputs(context: &TaskContext) -> Result<(), RunError> {
    let plan = &context.plan;
    let chunks = plan.arrays.values().filter(|a| a.role != ArrayRole::Input).map(|a| a.grid.count()).fold(0, u64::saturating_add);
    if chunks.saturating_mul(EACH) > plan.spec.task_budget() {
        return Ok(());
    }
    let reports = read_reports(&context.run_dir)?;
    let outputs: Vec<_> = plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Output).collect();
    let written = at_once(&outputs, |(name, array)| {
        let (io, counts) = (context.array(name), array.grid.counts());
        let lines = (0..array.grid.count()).filter_map(|k| {
            let index = unravel(k, &counts);
            let key = io.chunk_key(&index);
            reports.get(&((*name).clone(), index)).map(|w| (key, w.xxh3.as_str()))
        });
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

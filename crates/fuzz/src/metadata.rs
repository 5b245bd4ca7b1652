//! Metadata of arrays: what `info` and a pipeline do with it, until there is a plan that reads the array.

use crate::place::{Scratch, at, runtime, stores};
use crate::plan::examine;
use chunkwise::storage::{ArrayIo, ArrayMeta, Location, open_array};
use chunkwise::{Error, PlannerError, decode_cf};
use std::time::Duration;

/// Decoded bytes of a chunk that is read, at most.
const MAX_CHUNK_BYTES: u64 = 1 << 18;
/// Seconds of planning, at most.
const PLANNING: Duration = Duration::from_secs(5);

/// A `zarr.json`.
///
/// # Panics
/// When a promise is broken.
pub fn metadata(data: &[u8]) {
    let scratch = Scratch::new();
    scratch.store.put("a/zarr.json", data).unwrap();
    array(&scratch);
}

/// A `.zarray`, and behind a NUL byte a `.zattrs`.
///
/// # Panics
/// When a promise is broken.
pub fn metadata_v2(data: &[u8]) {
    let scratch = Scratch::new();
    let mut parts = data.splitn(2, |b| *b == 0);
    scratch.store.put("a/.zarray", parts.next().unwrap_or_default()).unwrap();
    if let Some(attributes) = parts.next() {
        scratch.store.put("a/.zattrs", attributes).unwrap();
    }
    array(&scratch);
}

fn array(scratch: &Scratch) {
    let at = scratch.at.join("a");
    let meta = match open_array(stores(), &at) {
        Ok(meta) => meta,
        Err(e) => return drop(e.to_string()),
    };
    // As it is in a plan.
    let kept: ArrayMeta = serde_json::from_value(serde_json::to_value(&meta).unwrap()).unwrap();
    assert!(kept == meta, "it is another one after it was in a plan");
    assert!(meta.grid.check(&meta.shape).is_ok() && meta.grid.count() >= 1 - u64::from(meta.shape.contains(&0)));
    chunks(scratch, &at, &meta);
    plans(&at);
}

/// Keys and chunks.
fn chunks(scratch: &Scratch, at: &Location, meta: &ArrayMeta) {
    let io = match ArrayIo::new(stores(), at, meta) {
        Ok(io) => io,
        Err(e) => return drop(e.to_string()),
    };
    assert!(io.stored_chunks().unwrap().is_empty());
    let counts = meta.grid.counts();
    if counts.contains(&0) {
        return;
    }
    let last: Vec<u64> = counts.iter().map(|n| n - 1).collect();
    let first = io.chunk_key(&vec![0; counts.len()]);
    assert!((io.chunk_key(&last) == first) == (meta.grid.count() == 1), "two chunks have the key {first}");
    let bytes = meta.grid.stored_shape().iter().fold(meta.dtype.size(), |n, c| n.saturating_mul(*c));
    if bytes > MAX_CHUNK_BYTES {
        return;
    }
    // A key may be none that a store takes.
    let store = io.store().clone();
    for stored in [vec![], vec![0; 16], vec![0; bytes as usize], vec![1; bytes as usize + 20]] {
        if store.put(&first, &stored[..]).is_ok() {
            crate::chunk::decode(at, &store, meta, &stored);
        }
    }
    let _ = &scratch;
}

/// Makes a plan that reads the array.
fn plans(array: &Location) {
    let opened = runtime().array(array.as_str(), None).and_then(|stored| decode_cf(&stored));
    let array = match opened {
        Ok(array) => array,
        Err(e) => return drop(e.to_string()),
    };
    let session = runtime().session(500_000_000, 2, at("work").as_str()).unwrap().with_planning_limit(PLANNING);
    let request = session.request(at("out").as_str(), &array).unwrap();
    planned(session.plan(&[request]));
}

/// A plan can be stored and run; if there is none, it is the user's fault and not the planner's.
pub(crate) fn planned(made: Result<chunkwise::plan::Plan, Error>) {
    match made {
        Ok(plan) => examine(&plan),
        Err(Error::Planner(e @ PlannerError::Internal(_))) => panic!("{e}"),
        Err(e) => drop(e.to_string()),
    }
}

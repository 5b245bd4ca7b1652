//! Encoded chunks and shards. The first three bytes of an input choose the array, the rest is what is stored of a chunk.

use crate::arrays::Kind;
use crate::place::{Scratch, stores};
use chunkwise::storage::{ArrayIo, ArrayMeta, Cursor, Location, StorageError, Store, Values, open_array, read_small};
use chunkwise::types::{Region, volume};
use std::cell::RefCell;
use std::collections::HashMap;

/// Bytes of an array of texts, at most.
const MOST_TEXT: u64 = 1 << 20;

thread_local! {
    /// By the first bytes of inputs; `None` if there are no such arrays.
    static KNOWN: RefCell<HashMap<[u8; 3], Option<ArrayMeta>>> = RefCell::default();
}

/// Decodes a chunk as a whole, in boxes, row by row, and as `verify` does.
///
/// # Panics
/// When the results differ, or a decoder panics.
pub fn chunk(data: &[u8]) {
    let [form, dtype, shape, stored @ ..] = data else { return };
    let kind = Kind::of([*form, *dtype, *shape]);
    let scratch = Scratch::new();
    if kind.text {
        texts(&scratch, &kind, stored);
        return;
    }
    let meta = KNOWN.with_borrow_mut(|known| {
        let read = || {
            scratch.store.put(kind.key, serde_json::to_vec(&kind.document).unwrap()).unwrap();
            open_array(stores(), &scratch.at).ok().filter(|m| ArrayIo::new(stores(), &scratch.at, m).is_ok())
        };
        known.entry(kind.prefix).or_insert_with(read).clone()
    });
    if let Some(meta) = meta {
        decode(&scratch.at, &scratch.store, &meta, stored);
    }
}

fn texts(scratch: &Scratch, kind: &Kind, stored: &[u8]) {
    scratch.store.put(kind.key, serde_json::to_vec(&kind.document).unwrap()).unwrap();
    let shape: Vec<u64> = kind.document["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let numbers = vec!["0"; shape.len()];
    let key = match (kind.key, numbers.is_empty()) {
        ("zarr.json", true) => "c".into(),
        ("zarr.json", false) => format!("c/{}", numbers.join("/")),
        (_, true) => "0".into(),
        (_, false) => numbers.join("."),
    };
    scratch.store.put(&key, stored).unwrap();
    match read_small(stores(), &scratch.at, MOST_TEXT) {
        Ok(Some(found)) => {
            let Values::Text(list) = found.values else { panic!("{}: these are no texts", kind.name) };
            assert_eq!((list.len() as u64, found.shape), (volume(&shape), shape), "{}", kind.name);
        }
        Ok(None) => {}
        Err(e) => drop(e.to_string()),
    }
}

type Read = Result<Vec<u8>, String>;

/// Reads a region into a buffer of its own.
fn read(meta: &ArrayMeta, region: &Region, f: impl FnOnce(&mut [u8]) -> Result<(), StorageError>) -> Read {
    let mut out = vec![0xAB; (region.volume() * meta.dtype.size()) as usize];
    f(&mut out).map(|()| out).map_err(|e| e.to_string())
}

/// The bytes of a box of a block.
fn part(block: &[u8], of: &Region, part: &Region, item: usize) -> Vec<u8> {
    let inside = part.relative_to(of);
    let mut out = Vec::new();
    for index in inside.indices() {
        let at = index.iter().zip(&of.shape).fold(0, |at, (i, n)| at * n + i) as usize * item;
        out.extend_from_slice(&block[at..at + item]);
    }
    out
}

/// Pieces of a region along its first axis, at most eight.
fn rows(region: &Region) -> Vec<Region> {
    let Some(&n) = region.shape.first() else { return vec![region.clone()] };
    let step = n.div_ceil(8).max(1);
    let cut = |from: u64| {
        let (mut start, mut shape) = (region.start.clone(), region.shape.clone());
        start[0] += from;
        shape[0] = step.min(n - from);
        Region::new(start, shape)
    };
    (0..n).step_by(step as usize).map(cut).collect()
}

/// Reads what is stored of the first and the last chunk in every way.
pub(crate) fn decode(at: &Location, store: &Store, meta: &ArrayMeta, stored: &[u8]) {
    let Ok(io) = ArrayIo::new(stores(), at, meta) else { return };
    let item = meta.dtype.size() as usize;
    let counts = meta.grid.counts();
    let last: Vec<u64> = counts.iter().map(|n| n.saturating_sub(1)).collect();
    for index in [vec![0; counts.len()], last] {
        let region = meta.grid.region(&index);
        if region.is_empty() {
            continue;
        }
        store.put(&io.chunk_key(&index), stored).unwrap();
        let whole = read(meta, &region, |out| io.read_region(&region, out).map(drop));
        let verified = io.verify_chunk(&index).map_err(|e| e.to_string());
        // What is decoded of a large chunk block by block may be refused where decoding all of it is not.
        assert!(verified.is_err() || whole.is_ok() || meta.access().in_place(), "verified, but not read: {whole:?}");
        let pieces = rows(&region);
        let middle = Region::new(
            region.start.iter().zip(&region.shape).map(|(s, n)| s + n / 4).collect::<Vec<_>>(),
            region.shape.iter().map(|n| (n / 2).max(1).min(n - n / 4)).collect::<Vec<_>>(),
        );
        for piece in pieces.iter().chain([&middle]) {
            let found = read(meta, piece, |out| io.read_region(piece, out).map(drop));
            match (&whole, &found) {
                (Ok(whole), Ok(found)) => assert!(part(whole, &region, piece, item) == *found, "{piece} is another one than in the whole"),
                (Ok(_), Err(e)) => panic!("{piece} cannot be read, but the whole can: {e}"),
                // The rest of it may be damaged.
                (Err(_), _) => {}
            }
        }
        for streamed in [true, false] {
            let mut cursor = Cursor::new(false, streamed);
            for piece in &pieces {
                let Ok(found) = read(meta, piece, |out| io.read_piece(piece, &mut cursor, out).map(drop)) else { break };
                if let Ok(whole) = &whole {
                    assert!(part(whole, &region, piece, item) == found, "{piece} is another one by a cursor (streamed: {streamed})");
                }
            }
        }
    }
}

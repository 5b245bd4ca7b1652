//! What it takes to read the chunks of an array, by the way in which they can be read.

use crate::PlanArray;
use chunkwise_types::{ArrayAccess, BLOSC_LARGEST, BLOSC_MOST, LARGE_CHUNK, Region};

/// Bytes of short runs, or of encoded inner chunks, that are read together.
pub const READ_BUFFER: u64 = 8 << 20;
/// The same of inner chunks in a file.
pub const SHARD_BUFFER: u64 = 2 << 20;

/// A worst-case encoded size: compressors may grow incompressible data slightly.
pub(crate) fn encoded(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 100).saturating_add(4096)
}

/// Bytes of a stored chunk of a grid. Edge chunks are stored at full size, so a chunk may be larger than the array.
pub(crate) fn chunk_bytes(array: &PlanArray, grid: &chunkwise_types::ChunkGrid) -> u64 {
    chunkwise_types::volume(&grid.stored_shape()).saturating_mul(array.dtype.size())
}

/// Bytes of an array that are under way from an object store, whatever is read of it right now: what comes next is asked for early.
pub(crate) fn under_way(array: &PlanArray) -> u64 {
    let all = encoded(chunk_bytes(array, &array.grid)).saturating_mul(array.grid.count());
    array.in_flight.min(all)
}

/// What the decoder of a chunk takes beside it.
fn scratch(array: &PlanArray, chunk: u64) -> u64 {
    array.access.scratch().max(array.encoding.as_ref().map_or(0, |e| e.codec.decoder_scratch(chunk)))
}

pub(crate) fn is_raw(array: &PlanArray) -> bool {
    array.access == ArrayAccess::Raw
}

/// Bytes that a reader of parts of chunks takes for blocks of them: a decoded and an encoded one, two more in its decoder, and the list of where
/// each block is. The storage layer refuses buffers that need more.
pub const BLOCKS: u64 = 16 << 20;
const _: () = assert!(4 * BLOSC_LARGEST < BLOCKS && 16 * BLOSC_MOST < BLOCKS);

/// Decoded bytes of the blocks of a chunk, where a task that needs a part of the chunk reads and decodes only the blocks that
/// the part is in.
pub fn blocks(array: &PlanArray) -> Option<u64> {
    match array.access {
        ArrayAccess::Blocks { block } if array.is_file() => Some(block),
        _ => None,
    }
}

/// True if threads can read a chunk of this array together, each its own byte ranges or blocks.
pub fn divisible(array: &PlanArray) -> bool {
    is_raw(array) || blocks(array).is_some()
}

/// Bytes beside the destination while a region of an array is read: chunks are decoded one after another. The chunk may be larger than
/// what can be under way.
pub fn reading(array: &PlanArray) -> u64 {
    if is_raw(array) {
        // Long runs are read into place, short ones through a buffer, with a list of where they go.
        let chunk = chunk_bytes(array, &array.grid);
        return READ_BUFFER.min(chunk).saturating_add((1 << 20).min(chunk.saturating_mul(24)));
    }
    if let Some(kept) = large_stream(array) {
        return kept;
    }
    let chunk = chunk_bytes(array, &array.read_grid());
    let one = encoded(chunk).saturating_add(chunk).saturating_add(scratch(array, chunk));
    if blocks(array).is_some() {
        return one.min(BLOCKS);
    }
    if array.inner_chunk.is_none() {
        return one;
    }
    // The index of a shard twice (as bytes and as entries), the list of what is wanted, and inner chunks that lie together.
    let inner = chunk_bytes(array, &array.grid) / chunk.max(1);
    let buffer = if array.is_remote() { READ_BUFFER } else { SHARD_BUFFER };
    one.saturating_add(buffer.min(chunk_bytes(array, &array.grid)))
        .saturating_add(inner.saturating_mul(32 + 40 + 8 * array.shape.len() as u64))
}

/// As [`reading`], of some regions that are read into blocks of their own.
pub(crate) fn reading_of(array: &PlanArray, regions: &[Region]) -> u64 {
    if !array.access.in_place()
        || blocks(array).is_some()
        || large_stream(array).is_some()
        || !regions.iter().all(|r| whole_in_place(r, &array.grid.stored_shape()))
    {
        return reading(array);
    }
    let chunk = chunk_bytes(array, &array.grid);
    encoded(chunk).saturating_add(scratch(array, chunk))
}

/// Buffers of this size or more are given back to the system when they are free: `limit_allocator` sees to that in programs. Smaller ones
/// leave holes.
const GIVEN_BACK: u64 = 4 << 20;

/// Bytes of [`reading_of`] that may still be taken when they are free: what is loaded afterwards may not fit into their places.
pub(crate) fn holes(array: &PlanArray, reading: u64) -> u64 {
    let grid = if is_raw(array) { &array.grid } else { &array.read_grid() };
    if encoded(chunk_bytes(array, grid)) < GIVEN_BACK { reading.min(3 * GIVEN_BACK) } else { 0 }
}

/// True if a region consists of whole chunks, each of which is one run of the region's elements.
fn whole_in_place(region: &Region, chunk: &[u64]) -> bool {
    let whole = region.start.iter().chain(&region.shape).zip(chunk.iter().chain(chunk)).all(|(n, c)| n % c.max(&1) == 0);
    let cut = chunk.iter().position(|&c| c != 1).unwrap_or(chunk.len());
    whole && region.shape.iter().zip(chunk).skip(cut + 1).all(|(n, c)| n == c)
}

/// Bytes that the reader of a banded, encoded leaf keeps: some blocks of its chunk, or the chunk, encoded with some decoded blocks or decoded
/// as a whole.
pub(crate) fn cursor(array: &PlanArray) -> u64 {
    if blocks(array).is_some() {
        return reading(array);
    }
    let chunk = chunk_bytes(array, &array.grid);
    encoded(chunk).saturating_add((8 << 20).min(chunk.saturating_mul(3)))
}

/// Bytes that the reader of a banded leaf keeps, if its chunks can be decoded from their beginning on.
pub(crate) fn streaming(array: &PlanArray) -> Option<u64> {
    match array.access {
        ArrayAccess::Stream { kept } if array.is_file() => Some(kept),
        _ => None,
    }
}

/// Bytes that a reader keeps of chunks so large that they are never held as a whole: whatever is wanted of them, they are decoded from their
/// beginning on.
fn large_stream(array: &PlanArray) -> Option<u64> {
    streaming(array).filter(|_| chunk_bytes(array, &array.grid) > LARGE_CHUNK)
}

/// True if chunks are so large that they are never held as a whole, but decoded from their beginning on.
pub fn is_large_stream(array: &PlanArray) -> bool {
    large_stream(array).is_some()
}

/// Arrays up to this size stay in memory between the steps of a fold, if the steps need the same region.
const KEEP: u64 = 32 << 20;

/// True if a region of this array may be kept from one step of a fold to the next.
pub fn keeps(array: &PlanArray) -> bool {
    chunkwise_types::volume(&array.shape).saturating_mul(array.dtype.size()) <= KEEP
}

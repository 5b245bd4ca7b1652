//! Reading regions and writing whole chunks.

use crate::{ArrayMeta, Location, StorageError, Store};
use bytes::Bytes;
use chunkwise_types::{Region, ravel, unravel};
use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;
use zarrs::array::{
    Array, ArrayBytes, ArrayBytesRaw, ArrayMetadata, ArraySubset, ArrayToBytesCodecTraits, BytesPartialDecoderTraits, CodecError,
    CodecOptions,
};
use zarrs::storage::byte_range::{ByteRange, ByteRangeIterator};

/// The chunks of one array. Cheap to clone.
#[derive(Clone)]
pub struct ArrayIo(Arc<Inner>);

struct Inner {
    array: Array<()>,
    meta: ArrayMeta,
    store: Store,
    url: String,
    chunk: Vec<NonZeroU64>,
    options: CodecOptions,
}

/// What a read moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Encoded bytes.
    pub bytes_read: u64,
    /// Chunks.
    pub chunks: u64,
}

/// A chunk that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkWritten {
    /// Its key below the array.
    pub key: String,
    /// Stored bytes.
    pub bytes: u64,
    /// XXH3-64 of the stored bytes.
    pub xxh3: u64,
}

/// Byte ranges of one object, for the partial decoding of shards.
struct Ranges {
    store: Store,
    key: String,
    size: u64,
    read: std::sync::atomic::AtomicU64,
}

impl BytesPartialDecoderTraits for Ranges {
    fn exists(&self) -> Result<bool, zarrs::storage::StorageError> {
        Ok(true)
    }
    fn size_held(&self) -> usize {
        0
    }
    fn supports_partial_decode(&self) -> bool {
        true
    }
    fn partial_decode_many(&self, ranges: ByteRangeIterator<'_>, _: &CodecOptions) -> Result<Option<Vec<ArrayBytesRaw<'_>>>, CodecError> {
        let wanted: Vec<std::ops::Range<u64>> = ranges
            .map(|r| match r {
                ByteRange::FromStart(start, len) => start..len.map_or(self.size, |l| start + l),
                ByteRange::Suffix(len) => self.size.saturating_sub(len)..self.size,
            })
            .collect();
        if wanted.iter().any(|r| r.end > self.size || r.start > r.end) {
            return Err(CodecError::Other(format!("a byte range lies outside the object of {} bytes", self.size)));
        }
        let data = self.store.get_ranges(&self.key, &wanted).map_err(|e| CodecError::Other(e.to_string()))?;
        self.read.fetch_add(data.iter().map(|b| b.len() as u64).sum(), std::sync::atomic::Ordering::Relaxed);
        Ok(Some(data.into_iter().map(|b| Cow::Owned(b.to_vec())).collect()))
    }
}

/// Copies the box `from` of a C-order buffer into the box `to` of another; both boxes have the same shape.
#[allow(clippy::too_many_arguments)] // Two boxes are four vectors each; a struct for one call site pair says no more.
fn copy_box(
    source: &[u8],
    source_shape: &[u64],
    from: &[u64],
    target: &mut [u8],
    target_shape: &[u64],
    to: &[u64],
    shape: &[u64],
    item: usize,
) {
    let rank = shape.len();
    // Trailing axes that are whole in both move as one run.
    let mut split = rank;
    let mut run = item;
    while split > 0 {
        split -= 1;
        run *= shape[split] as usize;
        if shape[split] != source_shape[split] || shape[split] != target_shape[split] {
            break;
        }
    }
    let outer = &shape[..split];
    for k in 0..chunkwise_types::volume(outer) {
        let at = unravel(k, outer);
        let place = |start: &[u64], whole: &[u64]| {
            let index: Vec<u64> = start.iter().enumerate().map(|(i, s)| s + at.get(i).copied().unwrap_or(0)).collect();
            ravel(&index, whole) as usize * item
        };
        let (s, t) = (place(from, source_shape), place(to, target_shape));
        target[t..t + run].copy_from_slice(&source[s..s + run]);
    }
}

impl ArrayIo {
    /// Opens the chunks of an array whose metadata is known.
    pub fn new(location: &Location, meta: &ArrayMeta) -> Result<ArrayIo, StorageError> {
        let url = location.to_string();
        let bad = |detail: String| StorageError::Metadata { url: url.clone(), detail };
        let parsed: ArrayMetadata = serde_json::from_value(meta.metadata.clone()).map_err(|e| bad(e.to_string()))?;
        let array = Array::new_with_metadata(Arc::new(()), "/", parsed).map_err(|e| bad(e.to_string()))?;
        let chunk = meta
            .grid
            .0
            .iter()
            .map(|a| match a {
                chunkwise_types::AxisChunks::Regular { size, .. } => {
                    NonZeroU64::new(*size).ok_or_else(|| bad("a chunk has length 0".into()))
                }
                _ => Err(bad("the chunk grid is not regular".into())),
            })
            .collect::<Result<Vec<_>, _>>()?;
        // One thread a task: the executor decides how many tasks run.
        let options = CodecOptions::default().with_concurrent_target(1).with_chunk_concurrent_minimum(1).with_store_empty_chunks(true);
        let store = Store::open(location)?;
        Ok(ArrayIo(Arc::new(Inner { array, meta: meta.clone(), store, url, chunk, options })))
    }

    /// The key of a chunk, relative to the array.
    pub fn chunk_key(&self, index: &[u64]) -> String {
        self.0.array.chunk_key(index).as_str().to_string()
    }

    fn corrupt(&self, key: &str, detail: String) -> StorageError {
        StorageError::Corrupt { array: self.0.url.clone(), key: key.into(), detail }
    }

    fn stored_shape(&self) -> Vec<u64> {
        self.0.chunk.iter().map(|n| n.get()).collect()
    }

    fn decode(&self, key: &str, data: Bytes) -> Result<Vec<u8>, StorageError> {
        let a = &self.0.array;
        let expected = (chunkwise_types::volume(&self.stored_shape()) * self.0.meta.dtype.size()) as usize;
        let decoded = a
            .codecs()
            .decode(Cow::Owned(data.into()), &self.0.chunk, a.data_type(), a.fill_value(), &self.0.options)
            .map_err(|e| self.corrupt(key, e.to_string()))?
            .into_fixed()
            .map_err(|e| self.corrupt(key, e.to_string()))?;
        if decoded.len() != expected {
            return Err(self.corrupt(key, format!("it decodes to {} bytes instead of {expected}", decoded.len())));
        }
        Ok(decoded.into_owned())
    }

    /// Reads a region into `out`: C order, dense, native endian, `region.volume() * dtype.size()` bytes. Chunks that are not stored
    /// read as the fill value.
    pub fn read_region(&self, region: &Region, out: &mut [u8]) -> Result<ReadStats, StorageError> {
        let mut stats = ReadStats::default();
        if region.is_empty() {
            return Ok(stats);
        }
        let inner = &*self.0;
        let item = inner.meta.dtype.size() as usize;
        let touched = inner.meta.grid.touched(region);
        let shape = self.stored_shape();
        for k in 0..touched.volume() {
            let index: Vec<u64> = unravel(k, &touched.shape).iter().zip(&touched.start).map(|(a, b)| a + b).collect();
            let chunk = inner.meta.grid.region(&index);
            let Some(common) = chunk.intersect(region) else { continue };
            let (from, to) = (common.relative_to(&chunk), common.relative_to(region));
            let key = self.chunk_key(&index);
            stats.chunks += 1;
            if inner.meta.inner_chunk.is_some() {
                match self.read_shard_part(&key, &from)? {
                    Some((data, read)) => {
                        stats.bytes_read += read;
                        copy_box(&data, &from.shape, &vec![0; from.rank()], out, &region.shape, &to.start, &common.shape, item);
                    }
                    None => self.fill(out, region, &to, item),
                }
                continue;
            }
            match inner.store.get(&key)? {
                Some(data) => {
                    stats.bytes_read += data.len() as u64;
                    let decoded = self.decode(&key, data)?;
                    copy_box(&decoded, &shape, &from.start, out, &region.shape, &to.start, &common.shape, item);
                }
                None => self.fill(out, region, &to, item),
            }
        }
        Ok(stats)
    }

    /// Reads part of a shard through its index; `None` if it is not stored.
    fn read_shard_part(&self, key: &str, part: &Region) -> Result<Option<(Vec<u8>, u64)>, StorageError> {
        let Some(size) = self.0.store.size(key)? else { return Ok(None) };
        let a = &self.0.array;
        let ranges = Arc::new(Ranges { store: self.0.store.clone(), key: key.into(), size, read: Default::default() });
        let subset =
            ArraySubset::new_with_start_shape(part.start.clone(), part.shape.clone()).map_err(|e| self.corrupt(key, e.to_string()))?;
        let decoded = a
            .codecs()
            .partial_decoder(ranges.clone(), &self.0.chunk, a.data_type(), a.fill_value(), &self.0.options)
            .and_then(|d| d.partial_decode(&subset, &self.0.options).map(ArrayBytes::into_owned))
            .map_err(|e| self.corrupt(key, e.to_string()))?
            .into_fixed()
            .map_err(|e| self.corrupt(key, e.to_string()))?;
        let expected = part.volume() * self.0.meta.dtype.size();
        if decoded.len() as u64 != expected {
            return Err(self.corrupt(key, format!("it decodes to {} bytes instead of {expected}", decoded.len())));
        }
        Ok(Some((decoded.into_owned(), ranges.read.load(std::sync::atomic::Ordering::Relaxed))))
    }

    fn fill(&self, out: &mut [u8], region: &Region, to: &Region, item: usize) {
        let value = self.0.array.fill_value().as_ne_bytes();
        if value.len() != item {
            return;
        }
        let data = value.repeat(to.volume() as usize);
        copy_box(&data, &to.shape, &vec![0; to.rank()], out, &region.shape, &to.start, &to.shape, item);
    }

    /// Writes one stored chunk (a shard, if the array is sharded) from the elements of its region, clipped to the array. Whole or not
    /// at all, and always stored, also if every element is the fill value.
    pub fn write_chunk(&self, index: &[u64], elements: &[u8]) -> Result<ChunkWritten, StorageError> {
        let inner = &*self.0;
        let key = self.chunk_key(index);
        let region = inner.meta.grid.region(index);
        let shape = self.stored_shape();
        let item = inner.meta.dtype.size() as usize;
        if elements.len() as u64 != region.volume() * item as u64 {
            return Err(self.corrupt(&key, format!("{} bytes were to be written for {region}", elements.len())));
        }
        let data: Cow<'_, [u8]> = if region.shape == shape {
            Cow::Borrowed(elements)
        } else {
            let value = inner.array.fill_value().as_ne_bytes();
            let mut padded = value.repeat(chunkwise_types::volume(&shape) as usize);
            copy_box(elements, &region.shape, &vec![0; region.rank()], &mut padded, &shape, &vec![0; region.rank()], &region.shape, item);
            Cow::Owned(padded)
        };
        let a = &inner.array;
        let encoded = a
            .codecs()
            .encode(ArrayBytes::new_flen(data), &inner.chunk, a.data_type(), a.fill_value(), &inner.options)
            .map_err(|e| self.corrupt(&key, format!("it cannot be encoded: {e}")))?
            .into_owned();
        let (bytes, xxh3) = (encoded.len() as u64, xxh3_64(&encoded));
        inner.store.put(&key, encoded.into())?;
        Ok(ChunkWritten { key, bytes, xxh3 })
    }

    /// Every stored chunk with its size, by one listing.
    pub fn stored_chunks(&self) -> Result<HashMap<Vec<u64>, u64>, StorageError> {
        let counts = self.0.meta.grid.counts();
        let mut sizes: HashMap<String, u64> = self.0.store.list("")?.into_iter().collect();
        let mut found = HashMap::new();
        if counts.is_empty() {
            if let Some(size) = sizes.remove(&self.chunk_key(&[])) {
                found.insert(Vec::new(), size);
            }
            return Ok(found);
        }
        // Keys end in the chunk's numbers, whatever stands before and between them.
        for (key, size) in sizes {
            let numbers: Vec<u64> = key.rsplit(['/', '.']).map_while(|p| p.parse().ok()).take(counts.len()).collect();
            let index: Vec<u64> = numbers.into_iter().rev().collect();
            if index.len() == counts.len() && index.iter().zip(&counts).all(|(i, n)| i < n) && self.chunk_key(&index) == key {
                found.insert(index, size);
            }
        }
        Ok(found)
    }

    /// Reads and decodes a whole chunk, and gives its size and checksum; `None` if it is not stored.
    pub fn verify_chunk(&self, index: &[u64]) -> Result<Option<(u64, u64)>, StorageError> {
        let key = self.chunk_key(index);
        let Some(data) = self.0.store.get(&key)? else { return Ok(None) };
        let found = (data.len() as u64, xxh3_64(&data));
        self.decode(&key, data)?;
        Ok(Some(found))
    }

    /// The metadata.
    pub fn meta(&self) -> &ArrayMeta {
        &self.0.meta
    }
}

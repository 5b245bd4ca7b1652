//! Shards: many chunks in one object, located by an index at one end of it.
//!
//! Format: Zarr v3 codec `sharding_indexed` (ZEP 2). The index has two `u64` for each inner chunk, offset and length. Both have all bits
//! set if the chunk is not stored. The index is little-endian unless it says otherwise, and usually has a CRC-32C. zarrs reads shards with
//! other index codecs.

use crate::boxes;
use crate::codec::ChunkCodec;
use crate::object::Object;
use crate::{ArrayMeta, StorageError, Store};
use bytes::Bytes;
use chunkwise_types::{unravel, volume};
use object_store::GetRange;
use serde_json::Value;

/// Where an inner chunk lies in its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub offset: u64,
    pub len: u64,
}

impl Entry {
    pub const MISSING: Entry = Entry { offset: u64::MAX, len: u64::MAX };
}

/// Some entries of an index, and the number of bytes that were read for them.
pub(crate) struct Entries {
    pub entries: Vec<Entry>,
    pub bytes: u64,
}

/// Why the index of a shard cannot be read.
pub(crate) enum ShardError {
    /// It exists, but is wrong.
    Damaged(String),
    /// The store failed.
    Storage(StorageError),
}

impl From<StorageError> for ShardError {
    fn from(e: StorageError) -> Self {
        ShardError::Storage(e)
    }
}

/// An index with more bytes than this may be read in part.
const LARGE_INDEX: u64 = 16 << 10;

/// How the shards of an array are laid out.
pub(crate) struct ShardLayout {
    /// The codec of an inner chunk.
    pub codec: ChunkCodec,
    /// Inner chunks along each axis of a shard.
    pub counts: Vec<u64>,
    form: IndexForm,
    /// Bytes of an element in memory.
    item: usize,
}

/// True for the codec of shards whose inner chunks are read one by one.
pub(crate) fn is_usual(codec: &Value) -> bool {
    codec.get("name").and_then(Value::as_str) == Some("sharding_indexed")
        && codec.get("configuration").is_some_and(|c| IndexForm::of(c).is_some())
}

/// How the index of a shard is stored.
#[derive(Debug, Clone, Copy)]
struct IndexForm {
    at_end: bool,
    little: bool,
    checked: bool,
}

impl IndexForm {
    fn of(configuration: &Value) -> Option<IndexForm> {
        let codecs = configuration.get("index_codecs").and_then(Value::as_array)?;
        let named = |c: &Value, name: &str| c.get("name").and_then(Value::as_str).or(c.as_str()) == Some(name);
        let (bytes, checked) = match codecs.as_slice() {
            [bytes] => (bytes, false),
            [bytes, crc] if named(crc, "crc32c") => (bytes, true),
            _ => return None,
        };
        let endian = bytes.pointer("/configuration/endian").and_then(Value::as_str).filter(|_| named(bytes, "bytes"))?;
        let at_end = configuration.get("index_location").is_none_or(|v| v == "end");
        Some(IndexForm { at_end, little: endian == "little", checked })
    }

    fn number(self, b: &[u8]) -> u64 {
        let add = |a: u64, x: &u8| a << 8 | u64::from(*x);
        if self.little { b.iter().rev().fold(0, add) } else { b.iter().fold(0, add) }
    }

    fn bytes(self, n: u64) -> [u8; 8] {
        if self.little { n.to_le_bytes() } else { n.to_be_bytes() }
    }
}

impl ShardLayout {
    /// The layout, if the array has shards of the usual kind. An error if their inner codecs are not supported.
    pub fn of(meta: &ArrayMeta) -> Result<Option<ShardLayout>, String> {
        let codecs = meta.metadata.get("codecs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let ([codec], true) = (codecs, meta.inner_chunk.is_some()) else { return Ok(None) };
        Self::of_codec((&meta.metadata, meta.zarr_format, meta.dtype.size()), &meta.grid.stored_shape(), codec)
    }

    /// The layout of shards of this shape in an array. `array` is its metadata, its version and the bytes of an element.
    pub fn of_codec(array: (&Value, u8, u64), shard: &[u64], codec: &Value) -> Result<Option<ShardLayout>, String> {
        let Some(configuration) = codec.get("configuration") else { return Ok(None) };
        let lengths = configuration.get("chunk_shape").and_then(Value::as_array);
        let inner: Option<Vec<u64>> = lengths.and_then(|l| l.iter().map(Value::as_u64).collect());
        let Some(inner) = inner.filter(|i| i.len() == shard.len()) else { return Ok(None) };
        let (Some(form), Some(inner_codecs), true) =
            (IndexForm::of(configuration), configuration.get("codecs"), shard.iter().zip(&inner).all(|(s, c)| *c > 0 && s % c == 0))
        else {
            return Ok(None);
        };
        let codec = ChunkCodec::inner(array, &inner, inner_codecs)?;
        let counts = shard.iter().zip(&inner).map(|(s, c)| s / c).collect();
        Ok(Some(ShardLayout { codec, counts, form, item: array.2 as usize }))
    }

    /// Decodes a whole shard that is in memory.
    pub fn decode(&self, data: &[u8]) -> Result<Vec<u8>, String> {
        let n = volume(&self.counts);
        let failed = |e| match e {
            ShardError::Damaged(detail) => detail,
            ShardError::Storage(e) => e.to_string(),
        };
        let size = data.len() as u64;
        let start = self.index_start(size).map_err(failed)? as usize;
        let index = data.get(start..start + self.index_bytes() as usize).unwrap_or_default().to_vec();
        let found = self.entries_of(index, 0, true, size, &(0..n).collect::<Vec<u64>>()).map_err(failed)?;
        let whole: Vec<u64> = self.counts.iter().zip(&self.codec.shape).map(|(n, c)| n * c).collect();
        let mut out = self.codec.fill().repeat(volume(&whole) as usize);
        let origin = vec![0; whole.len()];
        for (k, e) in found.entries.into_iter().enumerate().filter(|(_, e)| *e != Entry::MISSING) {
            let at: Vec<u64> = unravel(k as u64, &self.counts).iter().zip(&self.codec.shape).map(|(i, c)| i * c).collect();
            let part = data.get(e.offset as usize..(e.offset + e.len) as usize).unwrap_or_default();
            let inner = self.codec.decode(Bytes::copy_from_slice(part)).map_err(|e| format!("its inner chunk {at:?}: {e}"))?;
            boxes::copy(&inner, (&self.codec.shape, &origin), &mut out, (&whole, &at), &self.codec.shape, self.item);
        }
        Ok(out)
    }

    /// Bytes of a whole index.
    pub fn index_bytes(&self) -> u64 {
        volume(&self.counts) * 16 + if self.form.checked { 4 } else { 0 }
    }

    /// Reads the index entries of some inner chunks of a shard.
    ///
    /// A small index is read whole and its checksum is compared. If only a small part of a large index is wanted, only that range is read:
    /// otherwise a reader that takes a thin slice of thousands of shards would read more index than data. Entries are always checked
    /// against the size of the object, and a chunk must decode to its own size.
    pub fn read_entries(&self, object: &Object, store: &Store, key: &str, wanted: &[u64]) -> Result<Entries, ShardError> {
        let size = object.len();
        let n = self.index_bytes();
        let start = self.index_start(size)?;
        let (first, last) = (wanted.iter().min().copied().unwrap_or(0), wanted.iter().max().copied().unwrap_or(0));
        let part = n > LARGE_INDEX && (last + 1 - first) * 16 <= n / 2;
        let (from, range) = if part { (first, start + first * 16..start + (last + 1) * 16) } else { (0, start..start + n) };
        let mut data = vec![0u8; (range.end - range.start) as usize];
        object.read(store, key, range.start, &mut data)?;
        self.entries_of(data, from, !part, size, wanted)
    }

    /// The position of the index in an object of this size.
    pub fn index_start(&self, size: u64) -> Result<u64, ShardError> {
        let n = self.index_bytes();
        if size < n {
            return Err(ShardError::Damaged(format!("it has {size} bytes, fewer than the index of a shard")));
        }
        Ok(if self.form.at_end { size - n } else { 0 })
    }

    /// The range of a whole index. One request can ask for it without knowing the size of the object.
    pub fn index_range(&self) -> GetRange {
        let n = self.index_bytes();
        if self.form.at_end { GetRange::Suffix(n) } else { GetRange::Bounded(0..n) }
    }

    /// The index entries of some inner chunks, from the bytes of an index, which are all of it or start with entry `from`.
    pub fn entries_of(&self, mut data: Vec<u8>, from: u64, whole: bool, size: u64, wanted: &[u64]) -> Result<Entries, ShardError> {
        let bytes = data.len() as u64;
        if whole && bytes != self.index_bytes() {
            return Err(ShardError::Damaged(format!("it has {size} bytes, fewer than the index of a shard")));
        }
        if whole && self.form.checked {
            let crc = data.split_off(data.len() - 4);
            if crc32c::crc32c(&data).to_le_bytes() != *crc {
                return Err(ShardError::Damaged("the checksum of its index is wrong".into()));
            }
        }
        let entries: Vec<Entry> = wanted
            .iter()
            .map(|k| &data[((k - from) * 16) as usize..][..16])
            .map(|e| Entry { offset: self.form.number(&e[..8]), len: self.form.number(&e[8..]) })
            .collect();
        let most = self.codec.most();
        let outside = |e: &&Entry| **e != Entry::MISSING && (e.len > most || e.offset.checked_add(e.len).is_none_or(|end| end > size));
        match entries.iter().find(outside) {
            Some(e) if e.offset.checked_add(e.len).is_some_and(|end| end <= size) => {
                Err(ShardError::Damaged(format!("an inner chunk has {} bytes, where at most {most} can be right", e.len)))
            }
            Some(e) => Err(ShardError::Damaged(format!("its index names bytes {}+{} of an object of {size}", e.offset, e.len))),
            None => Ok(Entries { bytes, entries }),
        }
    }

    /// An empty shard to which chunks are appended in C order.
    pub fn builder(&self, elements: usize) -> ShardBuilder {
        // Incompressible chunks grow by a header. With room for that, the buffer of a whole shard is rarely moved.
        let headers = 32 * volume(&self.counts) as usize + self.index_bytes() as usize;
        let mut data = Vec::with_capacity(elements + elements / 128 + headers);
        if !self.form.at_end {
            data.resize(self.index_bytes() as usize, 0);
        }
        ShardBuilder { data, entries: Vec::with_capacity(volume(&self.counts) as usize), form: self.form }
    }
}

/// A shard that is being assembled.
pub(crate) struct ShardBuilder {
    data: Vec<u8>,
    entries: Vec<Entry>,
    form: IndexForm,
}

impl ShardBuilder {
    /// Appends the next inner chunk.
    pub fn push(&mut self, encoded: &[u8]) {
        self.entries.push(Entry { offset: self.data.len() as u64, len: encoded.len() as u64 });
        self.data.reserve_exact(encoded.len());
        self.data.extend_from_slice(encoded);
    }

    /// Leaves out the next inner chunk, which lies outside the array.
    pub fn skip(&mut self) {
        self.entries.push(Entry::MISSING);
    }

    /// The finished object.
    pub fn finish(mut self) -> Vec<u8> {
        let numbers = self.entries.iter().flat_map(|e| [e.offset, e.len]);
        let mut index: Vec<u8> = numbers.flat_map(|n| self.form.bytes(n)).collect();
        if self.form.checked {
            index.extend(crc32c::crc32c(&index).to_le_bytes());
        }
        if self.form.at_end {
            self.data.extend(index);
        } else {
            self.data[..index.len()].copy_from_slice(&index);
        }
        self.data
    }
}

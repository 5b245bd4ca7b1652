//! Reads one array piece by piece, and keeps open files and decoded data from one piece for the next.

use crate::StorageError;
use crate::blosc::Frame;
use crate::boxes;
use crate::chunks::ArrayIo;
use crate::object::Object;
use crate::read::ReadStats;
use crate::stream::{Decode, Stream};
use bytes::Bytes;
use chunkwise_types::Region;
use std::ops::Range;

/// What a reader keeps of the current chunk.
///
/// For uncompressed chunks: the open file. For Blosc: the open file and the last block. For zstd, gzip and zlib: the open file and the
/// window of the stream, if pieces come in its order. For other codecs: the decoded chunk. If pieces go through a chunk from its first to
/// its last element, every part of it is decoded once.
#[derive(Default)]
pub struct Cursor {
    chunk: Option<Open>,
    /// Encoded bytes of a block.
    scratch: Vec<u8>,
    /// A decoded block, and its range in the chunk.
    held: (Range<usize>, Vec<u8>),
    /// Other readers may want other parts of the chunks.
    shared: bool,
    /// Pieces come in the order of the chunk.
    streamed: bool,
}

impl Cursor {
    /// A cursor without a current chunk. If other readers want other parts of the same chunks (`shared`), decoded chunks are kept for them.
    /// If pieces come in the order of the elements in their chunk (`streamed`), a chunk is decoded gradually, if its codec can do that.
    pub fn new(shared: bool, streamed: bool) -> Cursor {
        Cursor { shared, streamed, ..Cursor::default() }
    }

    /// True if it was made with these arguments.
    pub fn reads(&self, shared: bool, streamed: bool) -> bool {
        (self.shared, self.streamed) == (shared, streamed)
    }

    /// True if a chunk is open, and other cursors could read other parts of it without decoding all of it.
    pub fn in_parts(&self) -> bool {
        let opened = self.chunk.as_ref().map(|open| &open.opened);
        matches!(opened, Some(Opened::Raw(_) | Opened::Blosc(..) | Opened::Missing))
    }
}

/// The current chunk.
struct Open {
    key: String,
    /// The region of its elements in the array.
    region: Region,
    opened: Opened,
}

enum Opened {
    Missing,
    Raw(Object),
    Blosc(Object, Frame),
    Stream(Object, Box<Stream>),
    /// As stored. The whole chunk was wanted, and is decoded directly into its destination.
    Encoded(Bytes),
    Whole(Bytes),
}

/// An error of storage, or what is wrong with a chunk.
enum Fault {
    Storage(StorageError),
    Damaged(String),
}

impl From<String> for Fault {
    fn from(detail: String) -> Self {
        Fault::Damaged(detail)
    }
}

impl From<StorageError> for Fault {
    fn from(e: StorageError) -> Self {
        Fault::Storage(e)
    }
}

impl ArrayIo {
    /// True if a part of a chunk can be read at little more cost than that of its bytes.
    pub fn divisible(&self) -> bool {
        let local = self.0.store.is_local();
        local && self.0.shard.is_none() && (self.0.raw || self.0.codec.in_blocks())
    }

    /// As [`ArrayIo::read_region`], with the data that the cursor keeps. Always use a cursor with the same array.
    ///
    /// # Errors
    /// When the store fails, or a chunk is damaged.
    pub fn read_piece(&self, region: &Region, cursor: &mut Cursor, out: &mut [u8]) -> Result<ReadStats, StorageError> {
        let inner = &*self.0;
        let item = inner.meta.dtype.size();
        if inner.shard.is_some() {
            return self.read_region(region, out);
        }
        if out.len() as u64 != region.volume() * item {
            return Err(self.corrupt("", format!("{} bytes cannot hold {region}", out.len())));
        }
        let mut stats = ReadStats::default();
        if region.is_empty() {
            return Ok(stats);
        }
        // Usually the next piece is in the same chunk.
        if let Some(open) = cursor.chunk.as_ref().filter(|open| open.region.contains(region)) {
            let from = region.relative_to(&open.region);
            self.read_box(cursor, &from, out, (&region.shape, &vec![0; region.rank()]), &mut stats)?;
            return Ok(stats);
        }
        for index in inner.meta.grid.touched(region).indices() {
            let chunk = inner.meta.grid.region(&index);
            let Some(common) = chunk.intersect(region) else { continue };
            let (from, to) = (common.relative_to(&chunk), common.relative_to(region));
            if cursor.chunk.as_ref().is_none_or(|open| open.region != chunk) {
                self.open(cursor, &index, chunk, from.shape[..] == inner.codec.shape[..], &mut stats)?;
            }
            self.read_box(cursor, &from, out, (&region.shape, &to.start), &mut stats)?;
        }
        Ok(stats)
    }

    /// Opens another chunk. The caller wants a part of it, or `all` of it.
    fn open(&self, cursor: &mut Cursor, index: &[u64], region: Region, all: bool, stats: &mut ReadStats) -> Result<(), StorageError> {
        // This frees memory before the next chunk takes some.
        cursor.chunk = None;
        cursor.held.0 = 0..0;
        let key = self.chunk_key(index);
        let opened = self.open_chunk(&key, (cursor.shared, cursor.streamed), all, stats).map_err(|fault| self.said(fault, &key))?;
        cursor.chunk = Some(Open { key, region, opened });
        Ok(())
    }

    fn said(&self, fault: Fault, key: &str) -> StorageError {
        match fault {
            Fault::Storage(e) => e,
            Fault::Damaged(detail) => self.corrupt(key, detail),
        }
    }

    /// Reads a region of the current chunk.
    fn read_box(
        &self,
        cursor: &mut Cursor,
        from: &Region,
        out: &mut [u8],
        to: (&[u64], &[u64]),
        stats: &mut ReadStats,
    ) -> Result<(), StorageError> {
        stats.chunks += 1;
        let Cursor { chunk: Some(open), scratch, held, .. } = cursor else { return Ok(()) };
        self.read_open(open, (scratch, held), from, out, to, stats).map_err(|fault| self.said(fault, &open.key))
    }

    fn read_open(
        &self,
        Open { key, region, opened }: &mut Open,
        (scratch, held): (&mut Vec<u8>, &mut (Range<usize>, Vec<u8>)),
        from: &Region,
        out: &mut [u8],
        to: (&[u64], &[u64]),
        stats: &mut ReadStats,
    ) -> Result<(), Fault> {
        let inner = &*self.0;
        let item = inner.meta.dtype.size() as usize;
        let shape = &inner.codec.shape;
        match opened {
            Opened::Missing => {
                self.may_be_absent(key)?;
                self.fill(out, to, &from.shape);
            }
            Opened::Encoded(data) => inner.codec.decode_box(data.clone(), &from.start, &from.shape, out, to)?,
            Opened::Whole(data) => boxes::copy(data, (shape, &from.start), out, to, &from.shape, item),
            Opened::Raw(object) => stats.bytes_read += self.read_raw(object, key, from, out, to)?,
            Opened::Stream(object, stream) => {
                stats.bytes_read += self.read_stream((object, stream), key, (from, &region.shape), out, to)?;
            }
            Opened::Blosc(object, frame) => {
                let mut fetch = self.fetch(object, key, stats);
                boxes::runs(&from.shape, item, (shape, &from.start), to, |s, t, n| match frame.plain() {
                    Some(start) => fetch(start + s as u64, &mut out[t..t + n]),
                    None => blocks(frame, scratch, held, s, &mut out[t..t + n], &mut fetch),
                })?;
            }
        }
        Ok(())
    }

    /// Decodes a region of a chunk from its beginning, and returns how many encoded bytes that took; `None` if the chunk is not stored.
    /// `shape` is the shape of the part of the chunk that lies in the array.
    pub(crate) fn read_through(
        &self,
        key: &str,
        decoder: Box<dyn Decode>,
        (from, shape): (&Region, &[u64]),
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<Option<u64>, StorageError> {
        let Some(object) = self.0.store.open_object(key)? else { return Ok(None) };
        let mut stream = Stream::new(object.len(), self.0.codec.bytes, decoder);
        self.read_stream((&object, &mut stream), key, (from, shape), out, to).map(Some).map_err(|fault| self.said(fault, key))
    }

    /// Decodes a region of a chunk from the current position of a stream, or from the beginning, and returns how many encoded bytes that
    /// took.
    fn read_stream(
        &self,
        (object, stream): (&Object, &mut Stream),
        key: &str,
        (from, shape): (&Region, &[u64]),
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<u64, Fault> {
        let codec = &self.0.codec;
        let mut stats = ReadStats::default();
        let mut fetch = self.fetch(object, key, &mut stats);
        boxes::runs(&from.shape, self.0.meta.dtype.size() as usize, (&codec.shape, &from.start), to, |s, t, n| {
            stream.seek(s, &mut fetch)?;
            stream.read(&mut out[t..t + n], &mut fetch)
        })?;
        // The rest beyond the end of the array is decoded, too, because a checksum may follow it.
        let end = from.start.iter().zip(&from.shape).map(|(s, n)| s + n);
        if end.eq(shape.iter().copied()) {
            stream.seek(codec.bytes, &mut fetch)?;
        }
        drop(fetch);
        Ok(stats.bytes_read)
    }

    /// Reads encoded bytes of a chunk from a position.
    fn fetch<'f>(
        &'f self,
        object: &'f Object,
        key: &'f str,
        stats: &'f mut ReadStats,
    ) -> impl FnMut(u64, &mut [u8]) -> Result<(), Fault> + use<'f> {
        |at, out| {
            stats.bytes_read += object.read(&self.0.store, key, at, out)?;
            Ok(())
        }
    }

    /// Opens a chunk of which the caller wants a part, or all.
    fn open_chunk(&self, key: &str, (shared, streamed): (bool, bool), all: bool, stats: &mut ReadStats) -> Result<Opened, Fault> {
        let inner = &*self.0;
        let shared = inner.cache.as_ref().filter(|_| shared && !inner.raw);
        if let Some(data) = shared.and_then(|cache| cache.cached(&inner.store.url(key))) {
            return Ok(Opened::Whole(data));
        }
        stats.gets += 1;
        let Some(object) = inner.store.open_object(key)? else { return Ok(Opened::Missing) };
        if inner.raw {
            return Ok(Opened::Raw(object));
        }
        if inner.codec.is_blosc() {
            let planned = self.divisible();
            let frame = Frame::open(object.len(), inner.codec.bytes, planned, self.fetch(&object, key, stats))?;
            if let Some(frame) = frame {
                return Ok(Opened::Blosc(object, frame));
            }
        }
        if streamed && let Some(decoder) = inner.codec.decoder()? {
            let stream = Stream::new(object.len(), inner.codec.bytes, decoder);
            return Ok(Opened::Stream(object, stream.into()));
        }
        let data = match object {
            Object::Memory(data) => {
                stats.bytes_read += data.len() as u64;
                data
            }
            Object::File { .. } | Object::Remote(_) => {
                if object.len() > inner.codec.most() {
                    let (size, most) = (object.len(), inner.codec.most());
                    return Err(format!("it has {size} bytes, where at most {most} can be right").into());
                }
                let mut data = vec![0u8; object.len() as usize];
                self.fetch(&object, key, stats)(0, &mut data)?;
                data.into()
            }
        };
        if all {
            return Ok(Opened::Encoded(data));
        }
        let data = Bytes::from(inner.codec.decode(data)?);
        if let Some(cache) = shared {
            cache.cache(inner.store.url(key), data.clone());
        }
        Ok(Opened::Whole(data))
    }
}

/// Decodes `out.len()` bytes of a chunk, from byte `s`. Whole blocks are decoded in place.
fn blocks(
    frame: &Frame,
    scratch: &mut Vec<u8>,
    held: &mut (Range<usize>, Vec<u8>),
    mut s: usize,
    mut out: &mut [u8],
    fetch: &mut impl FnMut(u64, &mut [u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    while !out.is_empty() {
        let mut span = frame.block(s);
        if held.0.contains(&s) {
            span = held.0.clone();
        } else if span.start == s && span.len() <= out.len() {
            let (now, rest) = out.split_at_mut(span.len());
            frame.decode(&span, now, scratch, &mut *fetch)?;
            (s, out) = (span.end, rest);
            continue;
        } else {
            held.0 = 0..0;
            held.1.resize(span.len(), 0);
            frame.decode(&span, &mut held.1, scratch, &mut *fetch)?;
            held.0 = span.clone();
        }
        let n = (span.end - s).min(out.len());
        let (now, rest) = out.split_at_mut(n);
        now.copy_from_slice(&held.1[s - span.start..][..n]);
        (s, out) = (s + n, rest);
    }
    Ok(())
}

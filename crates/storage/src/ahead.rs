//! Reading from object stores: while a chunk is decoded, those that come next are under way.
//!
//! A region is cut into pieces, each one request: an encoded chunk; a range of a raw chunk; inner chunks of a shard that lie together.
//! Pieces are asked for in order, as many as the array's budget of bytes allows, and placed in order. No request only asks for a size:
//! answers say how large the whole object is, and the index of a shard is a range that counts from the end.

use crate::boxes;
use crate::chunks::ArrayIo;
use crate::read::{READ_BUFFER, READ_GAP, ReadStats};
use crate::remote::Fetched;
use crate::shard::{Entry, ShardError, ShardLayout};
use crate::store::Pending;
use crate::StorageError;
use bytes::Bytes;
use chunkwise_types::{ChunkGrid, Region, ravel};
use object_store::GetRange;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests at once at most, however small they are.
const MOST: usize = 256;
/// Larger indices of shards are read in part, after a request for the size.
const WHOLE_INDEX: u64 = 256 << 10;

/// What one request is for.
struct Piece {
    index: Vec<u64>,
    what: What,
    /// More bytes than it can have.
    bound: u64,
}

enum What {
    /// A chunk whose object is in memory: no request.
    Plain,
    /// An encoded chunk.
    Chunk,
    /// A range of a raw chunk, and the numbers of the runs in it.
    Runs { range: Range<u64>, numbers: Range<u64> },
    /// A range of a shard with some inner chunks.
    Inner { range: Range<u64>, chunks: Vec<(Entry, Vec<u64>)> },
    /// An inner chunk that is not stored.
    Missing { chunk: Vec<u64> },
    /// A shard that is not stored.
    Nothing,
}

struct Asked {
    /// How many requests were made before this one.
    number: u64,
    piece: Piece,
    answer: Option<Pending<Option<Fetched>>>,
    length: Arc<AtomicU64>,
}

/// The index of a shard that was asked for.
struct Index {
    index: Vec<u64>,
    from: u64,
    whole: bool,
    size: Option<u64>,
    wanted: Vec<Vec<u64>>,
    number: u64,
    answer: Pending<Option<Fetched>>,
}

/// A region that is being read.
struct Ahead<'a> {
    io: &'a ArrayIo,
    region: &'a Region,
    chunks: Box<dyn Iterator<Item = Vec<u64>> + 'a>,
    indices: VecDeque<Index>,
    located: VecDeque<Piece>,
    asked: VecDeque<Asked>,
    stats: ReadStats,
}

impl ArrayIo {
    pub(crate) fn read_ahead(&self, region: &Region, out: &mut [u8]) -> Result<ReadStats, StorageError> {
        let touched = self.0.meta.grid.touched(region);
        let mut ahead = Ahead {
            io: self,
            region,
            chunks: Box::new(boxes::indices(&touched)),
            indices: VecDeque::new(),
            located: VecDeque::new(),
            asked: VecDeque::new(),
            stats: ReadStats { chunks: touched.volume(), ..ReadStats::default() },
        };
        loop {
            ahead.ask()?;
            let Some(next) = ahead.asked.pop_front() else { break };
            ahead.place(next, out)?;
        }
        Ok(ahead.stats)
    }
}

impl Ahead<'_> {
    /// The part of a chunk that is read: as a region of the chunk, and where it starts in the destination.
    fn part(&self, index: &[u64]) -> Option<(Region, Vec<u64>)> {
        let chunk = self.io.0.meta.grid.region(index);
        let common = chunk.intersect(self.region)?;
        Some((common.relative_to(&chunk), common.relative_to(self.region).start))
    }

    /// Asks for as many pieces as there is room for.
    fn ask(&mut self) -> Result<(), StorageError> {
        loop {
            if self.located.is_empty() && !self.locate()? {
                return Ok(());
            }
            let Some(next) = self.located.front() else { continue };
            let held: u64 = self.asked.iter().map(|a| a.length.load(Ordering::Relaxed)).sum();
            if !self.asked.is_empty() && (held + next.bound > self.io.0.in_flight || self.asked.len() >= MOST) {
                return Ok(());
            }
            let Some(piece) = self.located.pop_front() else { return Ok(()) };
            let length = Arc::new(AtomicU64::new(piece.bound));
            let range = match &piece.what {
                What::Chunk => None,
                What::Runs { range, .. } | What::Inner { range, .. } => Some(GetRange::Bounded(range.clone())),
                What::Plain | What::Missing { .. } | What::Nothing => {
                    self.asked.push_back(Asked { number: self.stats.gets, piece, answer: None, length });
                    continue;
                }
            };
            let key = self.io.chunk_key(&piece.index);
            // Codecs may be worse than the bound says; something much larger is not a chunk of this array.
            let most = piece.bound.saturating_mul(2).saturating_add(1 << 20);
            let answer = Some(self.io.0.store.start_get(&key, range, most, length.clone())?);
            self.stats.gets += 1;
            self.asked.push_back(Asked { number: self.stats.gets, piece, answer, length });
        }
    }

    /// Finds the pieces of the next chunk. False if there is none, or if it would have to be waited for while pieces can be placed.
    fn locate(&mut self) -> Result<bool, StorageError> {
        let inner = &*self.io.0;
        if let Some(layout) = &inner.shard {
            return self.locate_shard(layout);
        }
        let Some(index) = self.chunks.next() else { return Ok(false) };
        let Some((from, to)) = self.part(&index) else { return Ok(true) };
        let bytes = inner.codec.bytes as u64;
        if inner.store.held(&self.io.chunk_key(&index)).is_some() {
            self.located.push_back(Piece { index, what: What::Plain, bound: 0 });
        } else if inner.raw {
            let mut pieces = Vec::new();
            cut_runs(&from, &inner.codec.shape, (&self.region.shape, &to), inner.meta.dtype.size() as usize, &mut |range, numbers| {
                let bound = range.end - range.start;
                pieces.push(Piece { index: index.clone(), what: What::Runs { range, numbers }, bound });
            });
            self.located.extend(pieces);
        } else {
            self.located.push_back(Piece { index, what: What::Chunk, bound: bytes + bytes / 100 + 4096 });
        }
        Ok(true)
    }

    fn locate_shard(&mut self, layout: &ShardLayout) -> Result<bool, StorageError> {
        let inner = &*self.io.0;
        let grid = ChunkGrid::regular(&inner.meta.grid.stored_shape(), &layout.codec.shape);
        // Indices are small: a quarter of the budget for them, as bytes and as entries.
        let most = (inner.in_flight / 4 / (3 * layout.index_bytes()).max(1)).clamp(1, 32) as usize;
        while self.indices.len() < most {
            let Some(index) = self.chunks.next() else { break };
            let Some((from, _)) = self.part(&index) else { continue };
            let key = self.io.chunk_key(&index);
            if inner.store.held(&key).is_some() {
                // Not in the order of the others, which does not matter.
                self.located.push_back(Piece { index, what: What::Plain, bound: 0 });
                return Ok(true);
            }
            let wanted: Vec<Vec<u64>> = boxes::indices(&grid.touched(&from)).collect();
            let numbers = || wanted.iter().map(|i| ravel(i, &layout.counts));
            let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
            let n = layout.index_bytes();
            let part = n > WHOLE_INDEX && (last + 1 - first) * 16 <= n / 2;
            let length = Arc::new(AtomicU64::new(0));
            let (from, size, range) = if part || !inner.store.remote.suffix {
                let Some(size) = inner.store.size(&key)? else {
                    self.located.push_back(Piece { index, what: What::Nothing, bound: 0 });
                    return Ok(true);
                };
                self.stats.heads += 1;
                let start = layout.index_start(size).map_err(|e| self.damaged(&key, e))?;
                let (from, to) = if part { (first * 16, (last + 1) * 16) } else { (0, n) };
                (from / 16, Some(size), GetRange::Bounded(start + from..start + to))
            } else {
                (0, None, layout.index_range())
            };
            let answer = inner.store.start_get(&key, Some(range), n, length)?;
            self.stats.gets += 1;
            self.indices.push_back(Index { index, from, whole: !part, size, wanted, number: self.stats.gets, answer });
        }
        let Some(next) = self.indices.pop_front() else { return Ok(false) };
        // It comes before the piece that would be waited for otherwise if it was asked for before that.
        let first = self.asked.front().is_none_or(|a| next.number < a.number);
        if !first && !next.answer.is_done() {
            self.indices.push_front(next);
            return Ok(false);
        }
        let key = self.io.chunk_key(&next.index);
        let Some(found) = next.answer.wait()? else {
            self.located.push_back(Piece { index: next.index, what: What::Nothing, bound: 0 });
            return Ok(true);
        };
        let numbers: Vec<u64> = next.wanted.iter().map(|i| ravel(i, &layout.counts)).collect();
        let size = next.size.unwrap_or(found.size);
        let entries =
            layout.entries_of(found.data.into(), next.from, next.whole, size, &numbers).map_err(|e| self.damaged(&key, e))?;
        self.stats.bytes_read += entries.bytes;
        let mut wanted: Vec<(Entry, Vec<u64>)> = entries.entries.into_iter().zip(next.wanted).collect();
        wanted.sort_by_key(|(e, _)| e.offset);
        let mut together: Vec<(Entry, Vec<u64>)> = Vec::new();
        let mut end = 0;
        for (entry, chunk) in wanted {
            if entry == Entry::MISSING {
                self.located.push_back(Piece { index: next.index.clone(), what: What::Missing { chunk }, bound: 0 });
                continue;
            }
            if let Some((first, _)) = together.first()
                && (entry.offset > end + READ_GAP || entry.offset + entry.len > first.offset + READ_BUFFER)
            {
                self.push_inner(&next.index, std::mem::take(&mut together), end);
                end = 0;
            }
            end = end.max(entry.offset + entry.len);
            together.push((entry, chunk));
        }
        if !together.is_empty() {
            self.push_inner(&next.index, together, end);
        }
        Ok(true)
    }

    fn push_inner(&mut self, index: &[u64], chunks: Vec<(Entry, Vec<u64>)>, end: u64) {
        let start = chunks.first().map_or(end, |(e, _)| e.offset);
        self.located.push_back(Piece { index: index.to_vec(), what: What::Inner { range: start..end, chunks }, bound: end - start });
    }

    fn damaged(&self, key: &str, e: ShardError) -> StorageError {
        match e {
            ShardError::Damaged(detail) => self.io.corrupt(key, detail),
            ShardError::Storage(e) => e,
        }
    }

    /// Waits for a piece and puts its elements where they belong.
    fn place(&mut self, asked: Asked, out: &mut [u8]) -> Result<(), StorageError> {
        let inner = &*self.io.0;
        let Asked { piece: Piece { index, what, .. }, answer, length, .. } = asked;
        let Some((from, to)) = self.part(&index) else { return Ok(()) };
        let to = (&self.region.shape[..], &to[..]);
        let key = self.io.chunk_key(&index);
        let found = match answer {
            Some(pending) => pending.wait()?,
            None => None,
        };
        // It is in memory until it is placed.
        drop(length);
        self.stats.bytes_read += found.as_ref().map_or(0, |f| f.data.len() as u64);
        match (what, found) {
            (What::Plain, _) => {
                let mut plain = ReadStats::default();
                self.io.read_one(&index, self.region, out, &mut plain)?;
                self.stats.bytes_read += plain.bytes_read;
            }
            (What::Chunk, Some(f)) => {
                inner.codec.decode_box(f.data, &from.start, &from.shape, out, to).map_err(|e| self.io.corrupt(&key, e))?;
            }
            (What::Runs { range, numbers }, Some(f)) => {
                if f.size != inner.codec.bytes as u64 {
                    return Err(self.io.corrupt(&key, format!("it has {} bytes instead of {}", f.size, inner.codec.bytes)));
                }
                let item = inner.meta.dtype.size() as usize;
                place_runs(&f.data, range, numbers, (&from, &inner.codec.shape), out, to, item);
            }
            (What::Inner { range, chunks }, Some(f)) => {
                for (entry, chunk) in chunks {
                    let at = (entry.offset - range.start) as usize;
                    let data = f.data.slice(at..at + entry.len as usize);
                    self.place_inner(&key, &from, &chunk, Some(data), out, to)?;
                }
            }
            (What::Missing { chunk }, _) => self.place_inner(&key, &from, &chunk, None, out, to)?,
            (What::Nothing | What::Chunk | What::Runs { .. } | What::Inner { .. }, None) | (What::Nothing, Some(_)) => {
                self.io.fill(out, to, &from.shape);
            }
        }
        Ok(())
    }

    fn place_inner(
        &self,
        key: &str,
        from: &Region,
        chunk: &[u64],
        data: Option<Bytes>,
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<(), StorageError> {
        let Some(layout) = &self.io.0.shard else { return Ok(()) };
        let chunk = ChunkGrid::regular(&self.io.0.meta.grid.stored_shape(), &layout.codec.shape).region(chunk);
        let Some(common) = chunk.intersect(from) else { return Ok(()) };
        let inside = common.relative_to(&chunk);
        let at: Vec<u64> = common.relative_to(from).start.iter().zip(to.1).map(|(a, b)| a + b).collect();
        match data {
            Some(data) => layout
                .codec
                .decode_box(data, &inside.start, &inside.shape, out, (to.0, &at))
                .map_err(|e| self.io.corrupt(key, format!("its inner chunk {:?}: {e}", chunk.start))),
            None => {
                self.io.fill(out, (to.0, &at), &inside.shape);
                Ok(())
            }
        }
    }
}

/// Cuts the runs of a box of a raw chunk into ranges: runs that are near to each other together, long ones into several.
fn cut_runs(from: &Region, chunk: &[u64], to: (&[u64], &[u64]), item: usize, each: &mut dyn FnMut(Range<u64>, Range<u64>)) {
    let mut open: Option<(Range<u64>, Range<u64>)> = None;
    let mut number = 0u64;
    let _ = boxes::runs(&from.shape, item, (chunk, &from.start), to, |s, _, n| {
        let (mut s, end) = (s as u64, (s + n) as u64);
        match &mut open {
            Some((range, numbers)) if s - range.end <= READ_GAP && end - range.start <= READ_BUFFER => {
                (range.end, numbers.end) = (end, number + 1);
            }
            _ => {
                if let Some((range, numbers)) = open.take() {
                    each(range, numbers);
                }
                while end - s > READ_BUFFER {
                    each(s..s + READ_BUFFER, number..number + 1);
                    s += READ_BUFFER;
                }
                open = Some((s..end, number..number + 1));
            }
        }
        number += 1;
        Ok::<(), std::convert::Infallible>(())
    });
    if let Some((range, numbers)) = open {
        each(range, numbers);
    }
}

/// Puts the runs of a range of a raw chunk into place.
fn place_runs(
    data: &[u8],
    range: Range<u64>,
    numbers: Range<u64>,
    (from, chunk): (&Region, &[u64]),
    out: &mut [u8],
    to: (&[u64], &[u64]),
    item: usize,
) {
    let (start, end) = (range.start as usize, range.end as usize);
    let _ = boxes::runs_between(numbers, &from.shape, item, (chunk, &from.start), to, |s, t, n| {
        let (a, b) = (s.max(start), (s + n).min(end));
        if a < b {
            out[t + a - s..t + b - s].copy_from_slice(&data[a - start..b - start]);
        }
        Ok::<(), std::convert::Infallible>(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of a box arrives, whatever the ranges are cut like.
    #[test]
    fn ranges_hold_all_runs() {
        let chunk = [7u64, 300, 1100];
        let item = 8usize;
        let bytes: Vec<u8> = (0..7 * 300 * 1100 * 8u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8).collect();
        for (start, shape) in [
            ([0, 0, 0], [7, 300, 1100]),
            ([1, 0, 0], [4, 300, 1100]),
            ([0, 3, 5], [7, 200, 1000]),
            ([2, 10, 1099], [5, 280, 1]),
            ([6, 299, 1099], [1, 1, 1]),
        ] {
            let from = Region { start: start.to_vec(), shape: shape.to_vec() };
            let n = from.volume() as usize * item;
            let mut expected = vec![0u8; n];
            boxes::copy(&bytes, (&chunk, &start), &mut expected, (&shape, &[0, 0, 0]), &shape, item);
            let mut found = vec![0u8; n];
            let mut ranges = Vec::new();
            cut_runs(&from, &chunk, (&shape, &[0, 0, 0]), item, &mut |r, k| ranges.push((r, k)));
            for (r, k) in ranges {
                assert!(r.end - r.start <= READ_BUFFER);
                let data = &bytes[r.start as usize..r.end as usize];
                place_runs(data, r.clone(), k, (&from, &chunk), &mut found, (&shape, &[0, 0, 0]), item);
            }
            assert!(found == expected, "{start:?} {shape:?}");
        }
    }
}

//! Reading from object stores: while a chunk is decoded, requests for the next ones are in flight.
//!
//! A region is cut into pieces. Each piece is one request: an encoded chunk, a range of a raw chunk, or neighbouring inner chunks of a
//! shard. Pieces are requested in order, as many as the array's budget of bytes allows, and placed in order. If a reader knows which
//! regions come next, it requests their pieces as well. There are no requests for sizes alone: an answer contains the size of the whole
//! object, and the index of a shard is a range that counts from the end.

use crate::StorageError;
use crate::chunks::ArrayIo;
use crate::pending::Pending;
use crate::raw::{cut_runs, place_runs};
use crate::read::{READ_BUFFER, READ_GAP, ReadStats};
use crate::remote::Fetched;
use crate::shard::{Entry, ShardError, ShardLayout};
use chunkwise_types::{ChunkGrid, PerAxis, Region, ravel, unravel};
use object_store::GetRange;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number of requests at once, however small they are.
const MAX_REQUESTS: usize = 256;
/// Indices of shards that are larger than this are read in part, after a request for the size.
const WHOLE_INDEX: u64 = 256 << 10;

/// A region that is to be read.
struct Place {
    number: u64,
    region: Region,
    touched: Region,
}

/// What one request is for.
struct Piece {
    place: Arc<Place>,
    index: Vec<u64>,
    what: What,
    /// An upper bound of its bytes.
    bound: u64,
}

enum What {
    /// A chunk whose object is in memory, so there is no request.
    Plain,
    /// An encoded chunk.
    Chunk,
    /// A range of a raw chunk, and the numbers of its contiguous runs.
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

/// The index of a shard that was requested, or a shard that needs no index.
struct Index {
    place: Arc<Place>,
    index: Vec<u64>,
    number: u64,
    state: IndexState,
}

enum IndexState {
    Known(What),
    Asked { from: u64, whole: bool, size: Option<u64>, wanted: Vec<Vec<u64>>, answer: Pending<Option<Fetched>> },
}

/// Reads regions of one array one after another, and requests the next ones meanwhile.
pub struct Reader {
    io: ArrayIo,
    /// The regions that were announced and are not read yet, in order.
    expected: VecDeque<Arc<Place>>,
    /// The announced regions that have no pieces yet, and the next chunk of the first one.
    coming: VecDeque<Arc<Place>>,
    next: u64,
    numbers: u64,
    requests: u64,
    indices: VecDeque<Index>,
    located: VecDeque<Piece>,
    asked: VecDeque<Asked>,
    stats: ReadStats,
}

impl ArrayIo {
    /// A reader that requests the next regions while it reads; `None` for files and memory, where that gains nothing.
    pub fn reader(&self) -> Option<Reader> {
        (self.0.in_flight > 0).then(|| Reader {
            io: self.clone(),
            expected: VecDeque::new(),
            coming: VecDeque::new(),
            next: 0,
            numbers: 0,
            requests: 0,
            indices: VecDeque::new(),
            located: VecDeque::new(),
            asked: VecDeque::new(),
            stats: ReadStats::default(),
        })
    }
}

impl Reader {
    /// Announces regions that will be read after those that were announced before, in order, and requests as much of them as there is room
    /// for.
    ///
    /// # Errors
    /// When the store fails.
    pub fn announce(&mut self, regions: &[Region]) -> Result<(), StorageError> {
        for region in regions.iter().filter(|r| !r.is_empty()) {
            let touched = self.io.0.meta.grid.touched(region);
            let place = Arc::new(Place { number: self.numbers, region: region.clone(), touched });
            self.numbers += 1;
            self.expected.push_back(place.clone());
            self.coming.push_back(place);
        }
        self.ask()
    }

    /// As [`Reader::announce`], unless these regions have been announced already and come next.
    ///
    /// # Errors
    /// When the store fails.
    pub fn next(&mut self, regions: &[Region]) -> Result<(), StorageError> {
        let known = self.expected.iter().map(|p| &p.region);
        let wanted = || regions.iter().filter(|r| !r.is_empty());
        if self.expected.len() >= wanted().count() && known.zip(wanted()).all(|(a, b)| a == b) {
            return Ok(());
        }
        self.forget();
        self.announce(regions)
    }

    /// True if everything that was announced is requested, and there is room for more.
    pub fn has_room(&self) -> bool {
        self.coming.is_empty() && self.located.is_empty()
    }

    fn forget(&mut self) {
        (self.expected, self.coming, self.next) = (VecDeque::new(), VecDeque::new(), 0);
        (self.indices, self.located, self.asked) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    }

    /// As [`ArrayIo::read_region`]. Announced regions before this one are forgotten. The requests that it counts may be for regions that
    /// come later.
    ///
    /// # Errors
    /// When the store fails, or a chunk is damaged.
    pub fn read_region(&mut self, region: &Region, out: &mut [u8]) -> Result<ReadStats, StorageError> {
        if out.len() as u64 != region.volume() * self.io.0.meta.dtype.size() {
            return Err(self.io.corrupt("", format!("{} bytes cannot hold {region}", out.len())));
        }
        if region.is_empty() {
            return Ok(ReadStats::default());
        }
        self.next(std::slice::from_ref(region))?;
        let Some(place) = self.expected.front().cloned() else { return Ok(ReadStats::default()) };
        loop {
            self.ask()?;
            match self.asked.front() {
                Some(front) if front.piece.place.number <= place.number => {}
                _ => break,
            }
            if let Some(front) = self.asked.pop_front() {
                self.place(front, out)?;
            }
        }
        self.expected.pop_front();
        self.stats.chunks += place.touched.volume();
        Ok(std::mem::take(&mut self.stats))
    }

    /// The part of a chunk that is read: its region in the chunk, and where it starts in the destination.
    fn part(&self, place: &Place, index: &[u64]) -> Option<(Region, PerAxis)> {
        let chunk = self.io.0.meta.grid.region(index);
        let common = chunk.intersect(&place.region)?;
        Some((common.relative_to(&chunk), common.relative_to(&place.region).start))
    }

    /// The next chunk of the announced regions.
    fn chunk(&mut self) -> Option<(Arc<Place>, Vec<u64>)> {
        let place = self.coming.front()?.clone();
        let at = unravel(self.next, &place.touched.shape);
        let index = at.iter().zip(&place.touched.start).map(|(a, b)| a + b).collect();
        self.next += 1;
        if self.next >= place.touched.volume() {
            self.coming.pop_front();
            self.next = 0;
        }
        Some((place, index))
    }

    /// Requests as many pieces as there is room for.
    fn ask(&mut self) -> Result<(), StorageError> {
        loop {
            if self.located.is_empty() && !self.locate()? {
                return Ok(());
            }
            let Some(next) = self.located.front() else { continue };
            let held: u64 = self.asked.iter().map(|a| a.length.load(Ordering::Relaxed)).sum();
            if !self.asked.is_empty() && (held + next.bound > self.io.0.in_flight || self.asked.len() >= MAX_REQUESTS) {
                return Ok(());
            }
            let Some(piece) = self.located.pop_front() else { return Ok(()) };
            let length = Arc::new(AtomicU64::new(piece.bound));
            let range = match &piece.what {
                What::Chunk => None,
                // The whole object is requested without a range: some servers answer such a range as if there were none.
                What::Runs { range, .. } if *range == (0..self.io.0.codec.bytes as u64) => None,
                What::Runs { range, .. } | What::Inner { range, .. } => Some(GetRange::Bounded(range.clone())),
                What::Plain | What::Missing { .. } | What::Nothing => {
                    self.asked.push_back(Asked { number: self.requests, piece, answer: None, length });
                    continue;
                }
            };
            let key = self.io.chunk_key(&piece.index);
            // Codecs may exceed the bound a little. If an object is much larger, it is not a chunk of this array.
            let most = piece.bound.saturating_mul(2).saturating_add(1 << 20);
            let answer = Some(self.io.0.store.start_get(&key, range, most, length.clone())?);
            (self.stats.gets, self.requests) = (self.stats.gets + 1, self.requests + 1);
            self.asked.push_back(Asked { number: self.requests, piece, answer, length });
        }
    }

    /// Finds the pieces of the next chunk. False if there is no next chunk, or if this would have to wait while other pieces can be placed.
    fn locate(&mut self) -> Result<bool, StorageError> {
        let io = self.io.clone();
        let inner = &*io.0;
        if let Some(layout) = &inner.shard {
            return self.locate_shard(layout);
        }
        let Some((place, index)) = self.chunk() else { return Ok(false) };
        let Some((from, to)) = self.part(&place, &index) else { return Ok(true) };
        let bytes = inner.codec.bytes as u64;
        if inner.store.held(&io.chunk_key(&index)).is_some() {
            self.located.push_back(Piece { place, index, what: What::Plain, bound: 0 });
        } else if inner.raw {
            let item = inner.meta.dtype.size() as usize;
            cut_runs(&from, &inner.codec.shape, (&place.region.shape, &to), item, &mut |range, numbers| {
                let bound = range.end - range.start;
                let what = What::Runs { range, numbers };
                self.located.push_back(Piece { place: place.clone(), index: index.clone(), what, bound });
            });
        } else {
            self.located.push_back(Piece { place, index, what: What::Chunk, bound: bytes + bytes / 100 + 4096 });
        }
        Ok(true)
    }

    /// Requests the index of a shard, or finds that none is needed.
    fn ask_index(&mut self, layout: &ShardLayout, from: &Region, index: &[u64]) -> Result<IndexState, StorageError> {
        let io = self.io.clone();
        let inner = &*io.0;
        let grid = ChunkGrid::regular(&inner.meta.grid.stored_shape(), &layout.codec.shape);
        let key = io.chunk_key(index);
        if inner.store.held(&key).is_some() {
            return Ok(IndexState::Known(What::Plain));
        }
        let wanted: Vec<Vec<u64>> = grid.touched(from).indices().collect();
        let numbers = || wanted.iter().map(|i| ravel(i, &layout.counts));
        let (first, last) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
        let n = layout.index_bytes();
        let part = n > WHOLE_INDEX && (last + 1 - first) * 16 <= n / 2;
        let (from, size, range) = if part || !inner.store.remote.suffix {
            self.stats.heads += 1;
            let Some(size) = inner.store.size(&key)? else { return Ok(IndexState::Known(What::Nothing)) };
            let start = layout.index_start(size).map_err(|e| self.damaged(&key, e))?;
            let (from, to) = if part { (first * 16, (last + 1) * 16) } else { (0, n) };
            (from / 16, Some(size), GetRange::Bounded(start + from..start + to))
        } else {
            (0, None, layout.index_range())
        };
        let answer = inner.store.start_get(&key, Some(range), n, Arc::default())?;
        (self.stats.gets, self.requests) = (self.stats.gets + 1, self.requests + 1);
        Ok(IndexState::Asked { from, whole: !part, size, wanted, answer })
    }

    fn locate_shard(&mut self, layout: &ShardLayout) -> Result<bool, StorageError> {
        // Indices are small: they get a quarter of the budget, counted as bytes and as entries.
        let most = (self.io.0.in_flight / 4 / (3 * layout.index_bytes()).max(1)).clamp(1, 32) as usize;
        while self.indices.len() < most {
            let Some((place, index)) = self.chunk() else { break };
            let Some((from, _)) = self.part(&place, &index) else { continue };
            let number = self.requests;
            let state = self.ask_index(layout, &from, &index)?;
            self.indices.push_back(Index { place, index, number, state });
        }
        let Some(Index { place, index, number, state }) = self.indices.pop_front() else { return Ok(false) };
        let (from, whole, size, wanted, answer) = match state {
            IndexState::Known(what) => {
                self.located.push_back(Piece { place, index, what, bound: 0 });
                return Ok(true);
            }
            IndexState::Asked { from, whole, size, wanted, answer } => (from, whole, size, wanted, answer),
        };
        // The index is waited for first if it was requested before the next piece.
        let first = self.asked.front().is_none_or(|a| number < a.number);
        if !first && !answer.is_done() {
            let state = IndexState::Asked { from, whole, size, wanted, answer };
            self.indices.push_front(Index { place, index, number, state });
            return Ok(false);
        }
        let key = self.io.chunk_key(&index);
        let Some(found) = answer.wait()? else {
            self.located.push_back(Piece { place, index, what: What::Nothing, bound: 0 });
            return Ok(true);
        };
        self.io.0.store.seen(&key, || found.stamp.modified)?;
        let numbers: Vec<u64> = wanted.iter().map(|i| ravel(i, &layout.counts)).collect();
        let size = size.unwrap_or(found.size);
        let entries = layout.entries_of(found.data.into(), from, whole, size, &numbers).map_err(|e| self.damaged(&key, e))?;
        self.stats.bytes_read += entries.bytes;
        let mut wanted: Vec<(Entry, Vec<u64>)> = entries.entries.into_iter().zip(wanted).collect();
        wanted.sort_by_key(|(e, _)| e.offset);
        let mut together: Vec<(Entry, Vec<u64>)> = Vec::new();
        let mut end = 0;
        for (entry, chunk) in wanted {
            if entry == Entry::MISSING {
                let what = What::Missing { chunk };
                self.located.push_back(Piece { place: place.clone(), index: index.clone(), what, bound: 0 });
                continue;
            }
            if let Some((first, _)) = together.first()
                && (entry.offset > end + READ_GAP || entry.offset + entry.len > first.offset + READ_BUFFER)
            {
                self.push_inner(&place, &index, std::mem::take(&mut together), end);
                end = 0;
            }
            end = end.max(entry.offset + entry.len);
            together.push((entry, chunk));
        }
        if !together.is_empty() {
            self.push_inner(&place, &index, together, end);
        }
        Ok(true)
    }

    fn push_inner(&mut self, place: &Arc<Place>, index: &[u64], chunks: Vec<(Entry, Vec<u64>)>, end: u64) {
        let start = chunks.first().map_or(end, |(e, _)| e.offset);
        let what = What::Inner { range: start..end, chunks };
        self.located.push_back(Piece { place: place.clone(), index: index.to_vec(), what, bound: end - start });
    }

    fn damaged(&self, key: &str, e: ShardError) -> StorageError {
        match e {
            ShardError::Damaged(detail) => self.io.corrupt(key, detail),
            ShardError::Storage(e) => e,
        }
    }

    /// Waits for a piece and copies its elements to the destination.
    fn place(&mut self, asked: Asked, out: &mut [u8]) -> Result<(), StorageError> {
        let io = self.io.clone();
        let inner = &*io.0;
        let Asked { piece: Piece { place, index, what, .. }, answer, .. } = asked;
        let Some((from, to)) = self.part(&place, &index) else { return Ok(()) };
        let to = (&place.region.shape[..], &to[..]);
        let key = self.io.chunk_key(&index);
        let found = match answer {
            Some(pending) => pending.wait()?,
            None => None,
        };
        if let Some(found) = &found {
            inner.store.seen(&key, || found.stamp.modified)?;
            self.stats.bytes_read += found.data.len() as u64;
        }
        match (what, found) {
            (What::Plain, _) => {
                let mut plain = ReadStats::default();
                self.io.read_one(&index, &place.region, out, &mut plain)?;
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
                    io.place_inner(&key, &from, &chunk, Some(data), out, to)?;
                }
            }
            (What::Missing { chunk }, _) => io.place_inner(&key, &from, &chunk, None, out, to)?,
            (What::Nothing | What::Chunk | What::Runs { .. } | What::Inner { .. }, None) | (What::Nothing, Some(_)) => {
                self.io.may_be_absent(&key)?;
                self.io.fill(out, to, &from.shape);
            }
        }
        Ok(())
    }
}

//! Bands: parts of a pass that are read, evaluated and forgotten one after another, while they are in cache.
//!
//! A band of a leaf is read, or decoded, into a buffer that stays in cache, and goes through the whole chain of kernels from there. Chunks that are
//! stored as they are in memory, on this machine, can be read by byte ranges at no cost. Of any other chunk, a reader keeps what it needs to go on
//! where the last band ended, so all bands of a leaf must lie in one chunk. The other leaves of the pass are loaded for all of it.

use crate::access::{self, keeps};
use crate::demand::{Demands, bytes_of};
use crate::runs::fetched;
use crate::schedule::{CutOrder, Pass, Schedule, Tiling, cut};
use crate::{PlanArray, Program};
use chunkwise_types::{ArrayAccess, Region, ravel};
use std::collections::BTreeMap;

/// Bytes that are read for one band: half of a second-level cache.
const BAND_BYTES: u64 = 512 << 10;
/// The same where a band is many runs in its chunk, which are longer in a larger one.
const SCATTERED_BYTES: u64 = 2 << 20;

/// How a pass is cut into bands.
pub struct Bands {
    /// The steps that are read band by band.
    pub banded: Vec<bool>,
    /// Those of them that all bands together want only a part of a chunk of: other tasks may want the rest.
    pub shared: Vec<bool>,
    /// Those of them whose chunk is decoded from its beginning on, and never kept as a whole.
    pub streamed: Vec<bool>,
    /// A band is a whole piece of what the pass gives, such as a chunk of its outputs.
    pub whole_pieces: bool,
    target: u64,
    /// How bands are cut, if not as the tiles of the pass.
    order: Option<CutOrder>,
}

/// How parts of chunks can be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// Not better than all of them.
    No,
    /// Byte ranges cost no more than the bytes.
    Ranges,
    /// One after another, in the order of the chunk.
    InOrder,
}

fn parts(array: &PlanArray, demand: &[Region]) -> Parts {
    match (array.access == ArrayAccess::Raw, demand) {
        // What comes from object stores is asked for early and in large pieces instead.
        _ if keeps(array) || array.in_flight > 0 => Parts::No,
        (true, _) if array.is_file() => Parts::Ranges,
        (false, [region]) if array.inner_chunk.is_none() && array.grid.touched(region).volume() == 1 => Parts::InOrder,
        _ => Parts::No,
    }
}

/// The first and the last element of a region in the chunk that it lies in.
fn span(array: &PlanArray, region: &Region) -> (u64, u64) {
    let chunk = array.grid.stored_shape();
    let within = |at: &mut dyn Iterator<Item = u64>| ravel(&at.zip(&chunk).map(|(i, c)| i % c).collect::<Vec<_>>(), &chunk);
    let last = within(&mut region.start.iter().zip(&region.shape).map(|(s, n)| (s + n).saturating_sub(1)));
    (within(&mut region.start.iter().copied()), last)
}

impl Bands {
    /// The bands of a pass whose results are taken in these pieces; a piece is one band where bands are not worth it.
    pub fn of(arrays: &BTreeMap<String, PlanArray>, program: &Program, schedule: &Schedule, pass: &Pass, pieces: &[Region]) -> Bands {
        let n = program.steps.len();
        let (Some(piece), true) = (pieces.get(pieces.len() / 2), pass.tiles.len() > 1) else { return Bands::none(n) };
        let mut leaves = Leaves::new(arrays, program, schedule, pass, (piece, pieces.len()));
        // A large chunk is not held as a whole: it is a stream, or what is wanted of it is loaded at once.
        let whole = |found: &Bands| (0..n).any(|k| leaves.how[k] == Parts::InOrder && !found.streamed[k] && leaves.is_large(k));
        if let Some(found) = leaves.in_order(None).filter(|found| !whole(found)) {
            return found;
        }
        // Tiles of a fold go far along the axes that it reduces, which for a stream is back and forth. It saves more memory than it
        // takes to go through the accumulators more often.
        if leaves.how.contains(&Parts::InOrder)
            && let Some(found) = leaves.in_order(Some(CutOrder::in_memory(piece.rank())))
            && (0..n).all(|k| leaves.how[k] != Parts::InOrder || found.streamed[k])
        {
            return found;
        }
        leaves.how.iter_mut().filter(|how| **how == Parts::InOrder).for_each(|how| *how = Parts::No);
        // The order of the tiles, or that of the elements in a file; what is wanted may be transposed.
        let orders = [None, Some(CutOrder::in_memory(piece.rank())), Some(CutOrder::transposed(piece.rank()))];
        let scattered = |order| leaves.bands(SCATTERED_BYTES, order, &|_, _| true);
        orders.into_iter().find_map(scattered).unwrap_or_else(|| leaves.whole_pieces())
    }

    /// No bands of these many steps.
    fn none(steps: usize) -> Bands {
        let no = vec![false; steps];
        Bands { banded: no.clone(), shared: no.clone(), streamed: no, whole_pieces: false, target: u64::MAX, order: None }
    }

    /// The bands of a part of what the pass wants.
    pub fn cut(&self, pass: &Pass, part: &Region) -> Tiling {
        cut(part, self.target, self.order.as_ref().unwrap_or(&pass.order))
    }
}

/// What the bands of a pass are chosen by: its leaves, and how they are read for one of its pieces.
struct Leaves<'a> {
    arrays: &'a BTreeMap<String, PlanArray>,
    program: &'a Program,
    schedule: &'a Schedule,
    pass: &'a Pass,
    /// The piece in the middle, how many there are, and what it needs.
    piece: &'a Region,
    pieces: u64,
    wanted: Demands,
    /// By step, how parts of its chunks are read.
    how: Vec<Parts>,
}

impl<'a> Leaves<'a> {
    fn new(
        arrays: &'a BTreeMap<String, PlanArray>,
        program: &'a Program,
        schedule: &'a Schedule,
        pass: &'a Pass,
        (piece, pieces): (&'a Region, usize),
    ) -> Leaves<'a> {
        let wanted = if pieces > 1 { schedule.needs(program, pass, piece) } else { pass.demands.clone() };
        let mut leaves = Leaves { arrays, program, schedule, pass, piece, pieces: pieces as u64, wanted, how: Vec::new() };
        let how = |k: usize| match leaves.array(k).map_or(Parts::No, |array| parts(array, &leaves.wanted[k])) {
            Parts::InOrder if !leaves.own_chunks(k) => Parts::No,
            other => other,
        };
        leaves.how = (0..program.steps.len()).map(how).collect();
        leaves
    }

    /// The array that a step reads, if the pass needs it.
    fn array(&self, k: usize) -> Option<&'a PlanArray> {
        self.program.steps[k].read.as_ref().and_then(|name| self.arrays.get(name)).filter(|_| !self.pass.demands[k].is_empty())
    }

    /// Each chunk belongs to one piece, so that no piece reads what another one has read.
    fn own_chunks(&self, k: usize) -> bool {
        let chunks = |demands: &Demands| {
            let grid = self.array(k).map(PlanArray::read_grid);
            grid.map_or(0, |grid| demands[k].iter().map(|r| grid.touched(r).volume()).fold(0, u64::saturating_add))
        };
        self.pieces == 1 || chunks(&self.wanted).saturating_mul(16 * self.pieces) <= chunks(&self.pass.demands).saturating_mul(17)
    }

    /// The piece wants only a part of the chunk of a leaf.
    fn is_part(&self, k: usize) -> bool {
        let found = self.array(k).zip(self.wanted[k].first());
        found.is_some_and(|(array, region)| !array.grid.touched(region).indices().all(|chunk| region.contains(&array.grid.region(&chunk))))
    }

    /// Its chunks are never held as a whole.
    fn is_large(&self, k: usize) -> bool {
        self.array(k).is_some_and(access::is_large_stream)
    }

    /// A part of a leaf is most of what lies between its first and its last element, so parts have little in common.
    fn is_orderly(&self, k: usize, part: &[Region]) -> bool {
        let (Some(array), [region]) = (self.array(k), part) else { return part.is_empty() };
        let (first, last) = span(array, region);
        (last + 1).saturating_sub(first) <= 2 * region.volume()
    }

    /// Bytes of the leaves that are read in bands.
    fn bytes(&self, demands: &Demands) -> u64 {
        let banded = (0..demands.len()).filter(|&k| self.how[k] != Parts::No);
        banded.map(|k| bytes_of(self.program, k, &demands[k])).fold(0, u64::saturating_add)
    }

    /// Bytes that are fetched for the leaves that are read in bands.
    fn fetched(&self, demands: &Demands) -> f64 {
        let of = |k: usize| match (self.array(k), self.how[k]) {
            (Some(array), Parts::Ranges) => demands[k].iter().map(|region| fetched(array, region)).sum(),
            _ => bytes_of(self.program, k, &demands[k]) as f64,
        };
        (0..demands.len()).filter(|&k| self.how[k] != Parts::No).map(of).sum()
    }

    /// Bands of some bytes; `None` if they are not worth it, or what is needed for one is not `orderly`.
    fn bands(&self, size: u64, order: Option<CutOrder>, orderly: &dyn Fn(usize, &[Region]) -> bool) -> Option<Bands> {
        let all = self.bytes(&self.wanted);
        if all <= 2 * size {
            return None;
        }
        let target = (self.piece.volume() as f64 * size as f64 / all as f64).max(1.0) as u64;
        let banded = self.how.iter().map(|how| *how != Parts::No).collect();
        let bands = Bands { banded, target: target.max(self.pass.target), order, ..Bands::none(self.how.len()) };
        let cut = bands.cut(self.pass, self.piece);
        let part = cut.get(cut.len() / 2)?;
        let middle = self.schedule.needs(self.program, self.pass, &part);
        // Halos are read again by the next band, as is what lies between short runs, and some kernels need all of an axis for any part of
        // it. What comes in order cannot be read again.
        let limit = if self.how.contains(&Parts::InOrder) { 65.0 / 64.0 } else { 9.0 / 8.0 };
        let again = self.fetched(&middle) / part.volume().max(1) as f64 * self.piece.volume() as f64;
        let ordered = (0..self.how.len()).filter(|&k| bands.banded[k]).all(|k| orderly(k, &middle[k]));
        (ordered && again <= limit * self.fetched(&self.wanted)).then_some(bands)
    }

    /// Bands that go through chunks in their order, those of streams as they are decoded.
    fn in_order(&self, order: Option<CutOrder>) -> Option<Bands> {
        let mut bands = self.bands(BAND_BYTES, order, &|k, part| self.is_orderly(k, part))?;
        bands.shared = (0..self.how.len()).map(|k| self.how[k] == Parts::InOrder && self.is_part(k) && !self.is_large(k)).collect();
        let can_stream = |k: &usize| {
            let array = self.array(*k).filter(|_| self.how[*k] == Parts::InOrder && !bands.shared[*k]);
            array.is_some_and(|array| access::streaming(array).is_some())
        };
        let can_stream: Vec<usize> = (0..self.how.len()).filter(can_stream).collect();
        for k in self.onward(&bands, can_stream) {
            bands.streamed[k] = true;
        }
        Some(bands)
    }

    /// Those of some leaves through whose chunks bands go in one direction: a stream does not go back.
    fn onward(&self, bands: &Bands, mut leaves: Vec<usize>) -> Vec<usize> {
        let jumps = |k: usize| {
            let kernel = self.program.steps[k].kernel.as_ref();
            !self.wanted[k].is_empty() && kernel.is_some_and(|kernel| kernel.traits().jumps)
        };
        if leaves.is_empty() || (0..self.how.len()).any(jumps) {
            return Vec::new();
        }
        let cut = bands.cut(self.pass, self.piece);
        for i in cut.turns() {
            let needs = |i: usize| cut.get(i).map(|band| self.schedule.needs(self.program, self.pass, &band));
            let Some((one, next)) = needs(i).zip(needs(i + 1)) else { continue };
            leaves.retain(|&k| match (self.array(k), &one[k][..], &next[k][..]) {
                (Some(array), [one], [next]) => span(array, one).1 < span(array, next).0,
                _ => false,
            });
        }
        leaves
    }

    /// Whole pieces as bands, for leaves of whose chunks each belongs to one piece.
    fn whole_pieces(&self) -> Bands {
        let local = |array: &PlanArray| array.in_flight == 0 && !keeps(array);
        let banded: Vec<bool> =
            (0..self.how.len()).map(|k| self.pieces > 1 && self.array(k).is_some_and(local) && self.own_chunks(k)).collect();
        Bands { whole_pieces: banded.contains(&true), banded, ..Bands::none(self.how.len()) }
    }
}

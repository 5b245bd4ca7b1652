//! Bands: parts of a pass that are read, evaluated and forgotten one after another, while they are in cache.
//!
//! A band of a leaf is read, or decoded, into a buffer that stays in cache, and goes through the whole chain of kernels from there.
//! Chunks that are stored as they are in memory, on this machine, can be read by byte ranges at no cost. Of another chunk a reader keeps
//! what it needs to go on where the last band ended, so all bands of a leaf must lie in one chunk. The other leaves of the pass are loaded
//! for all of it.

use crate::demand::{Demands, demands};
use crate::memory::{self, bytes_of, keeps};
use crate::schedule::{CutOrder, Pass, Schedule, Tiling, cut};
use crate::{PlanArray, Program};
use chunkwise_types::{Region, ravel};
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
    match (array.raw, demand) {
        // What comes from object stores is asked for early and in large pieces instead.
        _ if keeps(array) || array.in_flight > 0 => Parts::No,
        (true, _) if array.is_local() => Parts::Ranges,
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
        let all = || vec![false; n];
        let none = Bands { banded: all(), shared: all(), streamed: all(), whole_pieces: false, target: u64::MAX, order: None };
        let (Some(piece), true) = (pieces.get(pieces.len() / 2), pass.tiles.len() > 1) else { return none };
        let leaf = |k: usize| program.steps[k].read.as_ref().and_then(|name| arrays.get(name)).filter(|_| !pass.demands[k].is_empty());
        let apart = pieces.len() > 1;
        let wanted = if apart { none.demands(program, schedule, pass, piece) } else { pass.demands.clone() };
        // Each chunk belongs to one piece, so that no piece reads what another one has read.
        let own = |k: usize| {
            let chunks = |demands: &Demands| {
                let grid = leaf(k).map(PlanArray::read_grid);
                grid.map_or(0, |grid| demands[k].iter().map(|r| grid.touched(r).volume()).fold(0, u64::saturating_add))
            };
            !apart || chunks(&wanted).saturating_mul(16 * pieces.len() as u64) <= chunks(&pass.demands).saturating_mul(17)
        };
        let how = |k: usize| match leaf(k).map_or(Parts::No, |a| parts(a, &wanted[k])) {
            Parts::InOrder if !own(k) => Parts::No,
            other => other,
        };
        let mut how: Vec<Parts> = (0..n).map(how).collect();
        let orderly = |k: usize, demands: &[Region]| {
            // A part is most of what lies between its first and its last element, so parts have little in common.
            let (Some(array), [region]) = (leaf(k), demands) else { return demands.is_empty() };
            let (first, last) = span(array, region);
            (last + 1).saturating_sub(first) <= 2 * region.volume()
        };
        let with = |how: &[Parts], size: u64, order: Option<CutOrder>, orderly: &dyn Fn(usize, &[Region]) -> bool| {
            Self::with(program, schedule, pass, (piece, &wanted), how, (size, order), orderly)
        };
        let in_order = |order: Option<CutOrder>| {
            let mut found = with(&how, BAND_BYTES, order, &orderly)?;
            let part = |k: usize| {
                let (array, region) = (leaf(k)?, wanted[k].first()?);
                Some(!array.grid.touched(region).indices().all(|chunk| region.contains(&array.grid.region(&chunk))))
            };
            found.shared = (0..n).map(|k| how[k] == Parts::InOrder && part(k).unwrap_or(false)).collect();
            let bands = found.cut(pass, piece);
            let ends = [0, bands.len() / 2, bands.len().saturating_sub(2)].map(|i| (bands.get(i), bands.get(i + 1)));
            let demands = |band: Option<Region>| band.map(|band| found.demands(program, schedule, pass, &band));
            let pairs = ends.map(|(one, next)| demands(one).zip(demands(next)));
            // A stream does not go back.
            let onward = |k: usize, array: &PlanArray| {
                pairs.iter().flatten().all(|(one, next)| match (&one[k][..], &next[k][..]) {
                    ([one], [next]) => span(array, one).1 < span(array, next).0,
                    _ => false,
                })
            };
            let streamed = |k: usize| {
                let array = leaf(k).filter(|_| how[k] == Parts::InOrder && !found.shared[k]);
                array.is_some_and(|array| memory::streaming(array).is_some() && onward(k, array))
            };
            found.streamed = (0..n).map(streamed).collect();
            Some(found)
        };
        if let Some(found) = in_order(None) {
            return found;
        }
        // Tiles of a fold go far along the axes that it reduces, which for a stream is back and forth. It saves more memory than it
        // takes to go through the accumulators more often.
        let streams = |found: &Bands| (0..n).all(|k| how[k] != Parts::InOrder || found.streamed[k]);
        if how.contains(&Parts::InOrder)
            && let Some(found) = in_order(Some(CutOrder::in_memory(piece.rank()))).filter(streams)
        {
            return found;
        }
        how.iter_mut().filter(|h| **h == Parts::InOrder).for_each(|h| *h = Parts::No);
        if let Some(found) = with(&how, SCATTERED_BYTES, None, &|_, _| true) {
            return found;
        }
        let local = |a: &PlanArray| a.in_flight == 0 && !keeps(a);
        let banded: Vec<bool> = (0..n).map(|k| apart && leaf(k).is_some_and(local) && own(k)).collect();
        Bands { whole_pieces: banded.contains(&true), banded, ..none }
    }

    /// Bands of some bytes, if leaves are read like this for a piece and what it needs; `None` if that is not worth it.
    fn with(
        program: &Program,
        schedule: &Schedule,
        pass: &Pass,
        (piece, wanted): (&Region, &Demands),
        how: &[Parts],
        (size, order): (u64, Option<CutOrder>),
        orderly: &dyn Fn(usize, &[Region]) -> bool,
    ) -> Option<Bands> {
        let banded: Vec<bool> = how.iter().map(|how| *how != Parts::No).collect();
        let bytes = |d: &Demands| -> u64 {
            (0..d.len()).filter(|&k| how[k] != Parts::No).map(|k| bytes_of(program, k, &d[k])).fold(0, u64::saturating_add)
        };
        let all = bytes(wanted);
        if all <= 2 * size {
            return None;
        }
        let target = (piece.volume() as f64 * size as f64 / all as f64).max(1.0) as u64;
        let none = vec![false; how.len()];
        let target = target.max(pass.target);
        let bands = Bands { shared: none.clone(), streamed: none, banded, whole_pieces: false, target, order };
        let cut = bands.cut(pass, piece);
        let part = cut.get(cut.len() / 2)?;
        let middle = bands.demands(program, schedule, pass, &part);
        // Halos are read again by the next band, and some kernels need all of an axis for any part of it. What comes in order cannot be
        // read again.
        let limit = if how.contains(&Parts::InOrder) { 65.0 / 64.0 } else { 9.0 / 8.0 };
        let again = bytes(&middle) as f64 / part.volume().max(1) as f64 * piece.volume() as f64;
        let ordered = (0..how.len()).filter(|&k| how[k] != Parts::No).all(|k| orderly(k, &middle[k]));
        (ordered && again <= limit * all as f64).then_some(bands)
    }

    /// The bands of a part of what the pass wants.
    pub fn cut(&self, pass: &Pass, part: &Region) -> Tiling {
        cut(part, self.target, self.order.as_ref().unwrap_or(&pass.order))
    }

    /// What the steps are needed at for one band.
    pub fn demands(&self, program: &Program, schedule: &Schedule, pass: &Pass, band: &Region) -> Demands {
        let wants: Vec<_> = pass.wants.iter().map(|(k, _)| (*k, band.clone())).collect();
        demands(program, &schedule.types, &wants)
    }
}

//! Bands: parts of a pass that are read, evaluated and forgotten one after another, while they are in cache.
//!
//! Chunks that are stored as they are in memory, on this machine, can be read by byte ranges at no cost, so their elements need not be
//! in memory all at once: a band of a few megabytes is read into a buffer that stays in cache, and goes through the whole chain of
//! kernels from there. The other leaves of the pass are loaded for all of it.

use crate::demand::{Demands, demands};
use crate::memory::keeps;
use crate::schedule::{Pass, Schedule, cut};
use crate::{PlanArray, Program};
use chunkwise_types::Region;
use std::collections::BTreeMap;

/// Bytes that are read for one band.
const BAND_BYTES: u64 = 2 << 20;

/// How a pass is cut into bands.
pub struct Bands {
    /// The steps that are read band by band.
    pub banded: Vec<bool>,
    target: u64,
}

/// True if byte ranges of this array cost no more than the bytes.
fn ranges(array: &PlanArray) -> bool {
    array.raw && array.in_flight == 0 && !keeps(array) && (array.url.starts_with("file:") || !array.url.contains("://"))
}

impl Bands {
    /// The bands of a pass; all of it is one band where bands are not worth it.
    pub fn of(arrays: &BTreeMap<String, PlanArray>, program: &Program, schedule: &Schedule, pass: &Pass) -> Bands {
        let one = Bands { banded: vec![false; program.steps.len()], target: u64::MAX };
        let Some((_, whole)) = pass.wants.first().filter(|_| pass.tiles.len() > 1) else { return one };
        let leaf = |k: usize| program.steps[k].read.as_ref().and_then(|name| arrays.get(name));
        let banded: Vec<bool> = (0..program.steps.len()).map(|k| !pass.demands[k].is_empty() && leaf(k).is_some_and(ranges)).collect();
        let bytes = |d: &Demands| -> u64 {
            let of =
                |k: usize| d[k].iter().fold(0u64, |a, r| a.saturating_add(r.volume().saturating_mul(program.steps[k].ty.dtype.size())));
            (0..d.len()).filter(|&k| banded[k]).map(of).fold(0, u64::saturating_add)
        };
        let all = bytes(&pass.demands);
        if all <= 2 * BAND_BYTES {
            return one;
        }
        let target = (whole.volume() as f64 * BAND_BYTES as f64 / all as f64).max(1.0) as u64;
        let bands = Bands { banded: banded.clone(), target: target.max(pass.target) };
        let parts = bands.cut(pass, whole);
        // Halos are read again by the next band, and some kernels need all of an axis for any part of it.
        let middle = &parts[parts.len() / 2];
        let again = bytes(&bands.demands(program, schedule, pass, middle)).saturating_mul(parts.len() as u64);
        if again > all / 8 * 9 { one } else { bands }
    }

    /// The bands of a part of what the pass wants.
    pub fn cut(&self, pass: &Pass, part: &Region) -> Vec<Region> {
        cut(part, self.target, &pass.order)
    }

    /// What the steps are needed at for one band.
    pub fn demands(&self, program: &Program, schedule: &Schedule, pass: &Pass, band: &Region) -> Demands {
        let wants: Vec<_> = pass.wants.iter().map(|(k, _)| (*k, band.clone())).collect();
        demands(program, &schedule.types, &wants)
    }
}

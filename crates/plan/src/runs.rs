//! Runs: the ranges of a file that a box of a chunk consists of.

use crate::PlanArray;
use chunkwise_types::{Region, volume};

/// Runs of a raw chunk with fewer bytes than this between them are read as one.
pub const GAP: f64 = 65536.0;

/// The runs of a box of `part` elements in a dense C-order block of `whole`, joined where less than `gap` bytes are between them: how
/// many, and the bytes of each.
pub fn runs(whole: &[u64], part: &[u64], item: f64, gap: f64) -> (f64, f64) {
    // One repetition along an axis: the bytes that are read of it, and the bytes to the next.
    let (mut read, mut pitch, mut count, mut apart) = (item, item, 1f64, false);
    for (&whole, &part) in whole.iter().zip(part).rev() {
        if part > 1 {
            // Further out gaps only grow.
            apart |= pitch - read > gap;
            if apart {
                count *= part as f64;
            } else {
                read += (part - 1) as f64 * pitch;
            }
        }
        pitch *= whole as f64;
    }
    (count, read)
}

/// Bytes that are fetched of a raw array for a region: its runs, and what lies between those that are near to each other.
pub(crate) fn fetched(array: &PlanArray, region: &Region) -> f64 {
    if region.is_empty() {
        return 0.0;
    }
    let chunk = array.grid.stored_shape();
    let part: Vec<u64> = region.shape.iter().zip(&chunk).map(|(n, c)| *n.min(c)).collect();
    let (count, read) = runs(&chunk, &part, array.dtype.size() as f64, GAP);
    count * read * region.volume() as f64 / volume(&part).max(1) as f64
}

//! Reading a slice of any size into a few cells, region by region.
//!
//! The slice is cut into cells, at most as many as the picture can show. Up to a limit, every element counts: a cell has the mean, the
//! minimum and the maximum of its elements. Beyond that, one element of each cell is read, and the chunks between are not touched. In both
//! cases, only one region of a few megabytes is in memory at a time, besides the decoded chunk.

use super::select::Slice;
use chunkwise::kernels::{Block, cast};
use chunkwise::storage::{ArrayIo, ArrayMeta, Location, Stores};
use chunkwise::types::Region;
use chunkwise::{DType, Error};
use serde_json::Value;

/// The largest slice, in elements, of which all elements are read.
const ALL: u64 = 1 << 26;
/// The length of a region along an axis.
const SIDE: (u64, u64) = (1024, 2048);
/// The largest number of chunks that are decoded for a picture of samples, if they are small.
const CHUNKS: u64 = 4096;
/// The largest number of bytes of chunks that are decoded for a picture of samples.
const DECODED: u64 = 4 << 30;

/// A slice in cells, row by row. A slice of one dimension is one row.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    pub rows: usize,
    pub columns: usize,
    pub mean: Vec<f64>,
    pub low: Vec<f64>,
    pub high: Vec<f64>,
    /// True if only one element of a cell was read.
    pub sampled: bool,
}

/// How stored numbers are converted to values, by the CF conventions.
struct Packing {
    missing: Vec<f64>,
    scale: f64,
    offset: f64,
}

impl Packing {
    fn of(meta: &ArrayMeta) -> Packing {
        let number = |key: &str| meta.attributes.get(key).and_then(Value::as_f64);
        Packing {
            missing: ["_FillValue", "missing_value"].iter().filter_map(|k| number(k)).collect(),
            scale: number("scale_factor").unwrap_or(1.0),
            offset: number("add_offset").unwrap_or(0.0),
        }
    }

    fn value(&self, stored: f64) -> f64 {
        if self.missing.contains(&stored) { f64::NAN } else { stored * self.scale + self.offset }
    }
}

/// A part of an axis: cells, each with the elements that it reads.
struct Band {
    first_cell: usize,
    parts: Vec<(u64, u64)>,
}

impl Band {
    fn start(&self) -> u64 {
        self.parts.first().map_or(0, |p| p.0)
    }
    fn len(&self) -> u64 {
        self.parts.last().map_or(0, |p| p.0 + p.1) - self.start()
    }
}

/// The cells of an axis, in bands that are read together. Positions are relative to the slice.
fn bands(len: u64, start: u64, cells: u64, every: bool, chunk: u64) -> Vec<Band> {
    let stride = len.div_ceil(cells.max(1)).max(1);
    let parts = (0..len.div_ceil(stride)).map(|c| {
        let (from, n) = (c * stride, stride.min(len - c * stride));
        if every { (from, n) } else { (from + n / 2, 1) }
    });
    let chunk_of = |at: u64| (start + at) / chunk.max(1);
    let most = chunk.clamp(SIDE.0, SIDE.1);
    let mut out: Vec<Band> = Vec::new();
    for (cell, (from, n)) in parts.enumerate() {
        let joins = out.last().is_some_and(|b: &Band| {
            let (last, grown) = (b.start() + b.len() - 1, from + n - b.start());
            let skips = !every && chunk_of(from) > chunk_of(last) + 1;
            let good_cut = chunk_of(from) != chunk_of(last) && b.len() >= SIDE.0;
            grown <= most && !skips && !good_cut
        });
        match out.last_mut().filter(|_| joins) {
            Some(b) => b.parts.push((from, n)),
            None => out.push(Band { first_cell: cell, parts: vec![(from, n)] }),
        }
    }
    out
}

/// The values of a block as floats. Complex numbers give their magnitude.
fn floats(block: &Block) -> Vec<f64> {
    match (block, cast(block, DType::Float64)) {
        (Block::Complex64(a), _) => a.iter().map(|z| f64::from(z.re).hypot(f64::from(z.im))).collect(),
        (Block::Complex128(a), _) => a.iter().map(|z| z.re.hypot(z.im)).collect(),
        (_, Block::Float64(a)) => a.iter().copied().collect(),
        _ => Vec::new(),
    }
}

fn read(io: &ArrayIo, region: &Region) -> Result<Vec<f64>, Error> {
    let block = Block::from_bytes_with(io.meta().dtype, &region.shape, |bytes| io.read_region(region, bytes).map(|_| ()))?;
    Ok(floats(&block))
}

/// Reads a slice into at most `most` rows and columns.
pub(super) fn sample(stores: &Stores, at: &Location, meta: &ArrayMeta, slice: &Slice, most: [u64; 2]) -> Result<Cells, Error> {
    let io = ArrayIo::new(stores, at, meta)?;
    let packing = Packing::of(meta);
    let chunk = meta.inner_chunk.clone().unwrap_or_else(|| meta.grid.max_shape());
    let axes: Vec<usize> = slice.kept.iter().map(|k| k.axis).collect();
    let elements: u64 = slice.kept.iter().map(|k| k.len).product();
    let every = elements <= ALL;
    let mut limits = if axes.len() == 1 { vec![most[1]] } else { most.to_vec() };
    if !every {
        // If every cell would cost a chunk, there are fewer cells.
        let bytes = chunk.iter().product::<u64>().saturating_mul(meta.dtype.size()).max(1);
        let allowed = (DECODED / bytes).clamp(256, CHUNKS) as f64;
        let touched = |limits: &[u64]| -> f64 {
            slice.kept.iter().zip(limits).map(|(k, &l)| (k.len.min(l)).min(k.len.div_ceil(chunk[k.axis].max(1))) as f64).product()
        };
        while touched(&limits) > allowed && limits.iter().any(|&l| l > 16) {
            limits.iter_mut().for_each(|l| *l = (*l * 9 / 10).max(16));
        }
    }
    let mut cut: Vec<Vec<Band>> = slice.kept.iter().zip(&limits).map(|(k, &l)| bands(k.len, k.start, l, every, chunk[k.axis])).collect();
    let counts: Vec<usize> = cut.iter().map(|b| b.last().map_or(1, |l| l.first_cell + l.parts.len())).collect();
    while cut.len() < 2 {
        cut.insert(0, vec![Band { first_cell: 0, parts: vec![(0, 1)] }]);
    }
    let (rows, columns) = match counts.as_slice() {
        [r, c] => (*r, *c),
        [c] => (1, *c),
        _ => (1, 1),
    };
    let n = rows * columns;
    let (mut sum, mut count) = (vec![0.0; n], vec![0u32; n]);
    let (mut low, mut high) = (vec![f64::NAN; n], vec![f64::NAN; n]);
    for y in &cut[0] {
        for x in &cut[1] {
            let mut region = Region::new(vec![0; meta.shape.len()], vec![1; meta.shape.len()]);
            for (k, i) in &slice.fixed {
                region.start[k.axis] = *i;
            }
            let own = if axes.len() == 2 { vec![y, x] } else { vec![x] };
            for (k, band) in slice.kept.iter().zip(own) {
                (region.start[k.axis], region.shape[k.axis]) = (k.start + band.start(), band.len());
            }
            let values = read(&io, &region)?;
            let width = x.len() as usize;
            for (r, (from_y, ny)) in y.parts.iter().enumerate() {
                for (c, (from_x, nx)) in x.parts.iter().enumerate() {
                    let cell = (y.first_cell + r) * columns + x.first_cell + c;
                    for row in from_y - y.start()..from_y - y.start() + ny {
                        let first = row as usize * width + (from_x - x.start()) as usize;
                        for &stored in values.get(first..first + *nx as usize).unwrap_or_default() {
                            let v = packing.value(stored);
                            if !v.is_nan() {
                                sum[cell] += v;
                                count[cell] += 1;
                                low[cell] = low[cell].min(v);
                                high[cell] = high[cell].max(v);
                            }
                        }
                    }
                }
            }
        }
    }
    let mean = sum.iter().zip(&count).map(|(s, &n)| if n > 0 { s / f64::from(n) } else { f64::NAN }).collect();
    Ok(Cells { rows, columns, mean, low, high, sampled: !every })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_cover_every_cell_once() {
        for (len, cells, chunk, every) in [(10, 3, 4, true), (5000, 700, 100, true), (1 << 20, 1000, 64, false), (7, 100, 1, false)] {
            let all = bands(len, 3, cells, every, chunk);
            let mut next = 0;
            for b in &all {
                assert_eq!(b.first_cell, next);
                next += b.parts.len();
                assert!(b.len() <= chunk.clamp(SIDE.0, SIDE.1) || b.parts.len() == 1);
            }
            assert!(next as u64 <= cells.max(1));
            let read: u64 = all.iter().flat_map(|b| &b.parts).map(|p| p.1).sum();
            assert_eq!(read, if every { len } else { next as u64 });
        }
    }

    #[test]
    fn chunks_between_samples_are_not_read() {
        let all = bands(1_000_000, 0, 100, false, 100);
        assert!(all.iter().all(|b| b.len() == 1));
    }
}

//! Regions of dense C-order buffers: contiguous runs, and copies from one buffer to another.

use chunkwise_types::{Region, ravel, unravel, volume};

/// The elements of a region, as a part of a larger dense C-order buffer.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a> {
    /// The whole buffer, native endian.
    pub data: &'a [u8],
    /// The shape of the whole buffer.
    pub shape: &'a [u64],
    /// Where the region starts in it.
    pub start: &'a [u64],
}

impl<'a> Elements<'a> {
    /// A buffer that holds nothing but the region.
    pub fn whole(data: &'a [u8], shape: &'a [u64]) -> Elements<'a> {
        const ORIGIN: [u64; chunkwise_types::MAX_RANK] = [0; chunkwise_types::MAX_RANK];
        Elements { data, shape, start: &ORIGIN[..shape.len()] }
    }

    /// Copies a region of this shape into `out`, in C order.
    ///
    /// # Panics
    /// If the region is not inside the buffer, or `out` has another size.
    pub fn copy(&self, shape: &[u64], out: &mut [u8], item: usize) {
        copy(self.data, (self.shape, self.start), out, (shape, &vec![0; shape.len()]), shape, item);
    }

    /// True if the buffer has the size of its shape and the region lies in it.
    pub(crate) fn holds(&self, shape: &[u64], item: u64) -> bool {
        self.shape.len() == shape.len()
            && self.start.len() == shape.len()
            && self.data.len() as u64 == volume(self.shape).saturating_mul(item)
            && self.start.iter().zip(shape).zip(self.shape).all(|((s, n), whole)| s + n <= *whole)
    }

    /// The region as one slice, if it is contiguous.
    pub(crate) fn slice(&self, shape: &[u64], item: usize) -> Option<&'a [u8]> {
        let span = contiguous(self.shape, &Region::new(self.start, shape), item)?;
        self.data.get(span)
    }

    /// A dense copy of the region.
    pub(crate) fn dense(&self, shape: &[u64], item: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(volume(shape) as usize * item);
        let _ = runs(shape, item, (self.shape, self.start), (shape, &vec![0; shape.len()]), |from, _, n| {
            out.extend_from_slice(&self.data[from..from + n]);
            Ok::<(), std::convert::Infallible>(())
        });
        out
    }

    /// Dense copies of regions that lie side by side along the last axis. The first one starts at this one's start. They have this shape,
    /// except for their `widths` along the last axis.
    ///
    /// # Panics
    /// If there is no axis, or the regions are not all inside the buffer.
    pub fn side_by_side(&self, shape: &[u64], widths: &[u64], item: usize) -> Vec<Vec<u8>> {
        let mut all = shape.to_vec();
        let last = shape.len() - 1;
        all[last] = widths.iter().sum();
        let lines = volume(&shape[..last]) as usize;
        let widths: Vec<usize> = widths.iter().map(|&w| w as usize * item).collect();
        let mut out: Vec<Vec<u8>> = widths.iter().map(|w| Vec::with_capacity(w * lines)).collect();
        let line = all[last] as usize * item;
        let _ = runs(&all, item, (self.shape, self.start), (&all, &vec![0; all.len()]), |from, _, n| {
            // If lines of the buffer are copied whole, a run is several lines.
            for mut rest in self.data[from..from + n].chunks_exact(line) {
                for (out, width) in out.iter_mut().zip(&widths) {
                    let (own, others) = rest.split_at(*width);
                    out.extend_from_slice(own);
                    rest = others;
                }
            }
            Ok::<(), std::convert::Infallible>(())
        });
        out
    }
}

/// The bytes of a region, if they are contiguous in a dense buffer of this shape.
pub(crate) fn contiguous(whole: &[u64], part: &Region, item: usize) -> Option<std::ops::Range<usize>> {
    let first = part.shape.iter().position(|&n| n != 1).unwrap_or(part.shape.len());
    if (first + 1..whole.len()).any(|i| part.shape[i] != whole[i]) {
        return None;
    }
    let at = ravel(&part.start, whole) as usize * item;
    Some(at..at + part.volume() as usize * item)
}

/// The number of trailing axes that are contiguous in both shapes, and the bytes of such a run.
fn trailing(shape: &[u64], a: &[u64], b: &[u64], item: usize) -> (usize, usize) {
    let (mut split, mut run) = (shape.len(), item);
    while split > 0 {
        split -= 1;
        run *= shape[split] as usize;
        if shape[split] != a[split] || shape[split] != b[split] {
            break;
        }
    }
    (split, run)
}

/// Calls `each(offset in a, offset in b, bytes)` for every contiguous run of a region of `shape` that starts at `from` in a dense buffer of
/// shape `a` and at `to` in one of shape `b`, in the order of both. All shapes have the same rank. An empty region has no runs.
pub(crate) fn runs<E>(
    shape: &[u64],
    item: usize,
    a: (&[u64], &[u64]),
    b: (&[u64], &[u64]),
    each: impl FnMut(usize, usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    runs_between(0..u64::MAX, shape, item, a, b, each)
}

/// As [`runs`], but only for the runs whose numbers are in `which`.
pub(crate) fn runs_between<E>(
    which: std::ops::Range<u64>,
    shape: &[u64],
    item: usize,
    (a, from): (&[u64], &[u64]),
    (b, to): (&[u64], &[u64]),
    mut each: impl FnMut(usize, usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let (split, run) = trailing(shape, a, b, item);
    let outer = &shape[..split];
    let count = volume(outer);
    if run == 0 || which.start >= count {
        return Ok(());
    }
    let strides = |whole: &[u64]| -> Vec<usize> {
        let mut out = vec![item; whole.len()];
        for i in (1..whole.len()).rev() {
            out[i - 1] = out[i] * whole[i] as usize;
        }
        out
    };
    let (sa, sb) = (strides(a), strides(b));
    let mut index = unravel(which.start, outer);
    let start = |at: &[u64], strides: &[usize]| -> usize {
        let skipped: usize = index.iter().zip(strides).map(|(i, s)| *i as usize * s).sum();
        at.iter().zip(strides).map(|(i, s)| *i as usize * s).sum::<usize>() + skipped
    };
    let (mut x, mut y) = (start(from, &sa), start(to, &sb));
    for _ in which.start..which.end.min(count) {
        each(x, y, run)?;
        for axis in (0..split).rev() {
            index[axis] += 1;
            (x, y) = (x + sa[axis], y + sb[axis]);
            if index[axis] < outer[axis] {
                break;
            }
            (x, y) = (x - sa[axis] * outer[axis] as usize, y - sb[axis] * outer[axis] as usize);
            index[axis] = 0;
        }
    }
    Ok(())
}

/// The length in bytes of the runs that a region has in two buffers.
pub(crate) fn run_bytes(shape: &[u64], a: &[u64], b: &[u64], item: usize) -> usize {
    trailing(shape, a, b, item).1
}

/// Copies a region of `shape` from one dense buffer to another.
pub(crate) fn copy(source: &[u8], from: (&[u64], &[u64]), target: &mut [u8], to: (&[u64], &[u64]), shape: &[u64], item: usize) {
    let _ = runs(shape, item, from, to, |s, t, n| {
        target[t..t + n].copy_from_slice(&source[s..s + n]);
        Ok::<(), std::convert::Infallible>(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_move_between_buffers_of_other_shapes() {
        let source: Vec<u8> = (0..60).collect();
        let mut target = vec![255u8; 2 * 3 * 4];
        copy(&source, (&[3, 4, 5], &[1, 1, 2]), &mut target, (&[2, 3, 4], &[0, 1, 1]), &[2, 2, 3], 1);
        for (i, j, k) in [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 2)] {
            assert_eq!(target[i * 12 + (j + 1) * 4 + k + 1], source[(i + 1) * 20 + (j + 1) * 5 + k + 2], "{i} {j} {k}");
        }
        assert_eq!(target.iter().filter(|&&b| b == 255).count(), 24 - 12);
    }

    #[test]
    fn boxes_side_by_side_are_those_one_by_one() {
        let data: Vec<u8> = (0..2 * 3 * 5 * 8).map(|i| i as u8).collect();
        for (shape, start, widths) in [
            (vec![3, 5, 8], vec![1, 2, 1], vec![2, 2, 1]),
            (vec![3, 5, 8], vec![0, 0, 0], vec![3, 5]),
            (vec![3, 5, 8], vec![1, 4, 7], vec![1]),
            (vec![15, 8], vec![3, 2], vec![0, 6]),
            (vec![120], vec![7], vec![1, 2, 3]),
        ] {
            let mut size: Vec<u64> = shape.iter().zip(&start).map(|(n, s)| n - s).collect();
            let whole = Elements { data: &data, shape: &shape, start: &start };
            let found = whole.side_by_side(&size, &widths, 2);
            let (last, mut at) = (shape.len() - 1, start.clone());
            for (got, width) in found.iter().zip(&widths) {
                size[last] = *width;
                let mut want = vec![0; got.len()];
                copy(&data, (&shape, &at), &mut want, (&size, &vec![0; size.len()]), &size, 2);
                assert_eq!((got, got.len() as u64), (&want, volume(&size) * 2), "{shape:?} {start:?} {widths:?}");
                at[last] += width;
            }
        }
    }

    #[test]
    fn runs_by_number_are_those_of_all_runs() {
        let some = |which: std::ops::Range<u64>| {
            let mut out = Vec::new();
            let _ = runs_between(which, &[2, 2, 3], 2, (&[3, 4, 5], &[1, 1, 2]), (&[2, 3, 4], &[0, 1, 1]), |s, t, n| {
                out.push((s, t, n));
                Ok::<(), ()>(())
            });
            out
        };
        let all = some(0..u64::MAX);
        assert_eq!(all.len(), 4);
        for (i, j) in [(0, 2), (1, 4), (2, 3), (3, 9), (4, 5)] {
            assert_eq!(some(i..j), all[i as usize..(j as usize).min(4)], "{i}..{j}");
        }
    }

    #[test]
    fn zero_dimensional_and_empty_boxes() {
        let mut target = [0u8; 2];
        copy(&[7, 8], (&[], &[]), &mut target, (&[], &[]), &[], 2);
        assert_eq!(target, [7, 8]);
        copy(&[], (&[0, 3], &[0, 0]), &mut target, (&[1, 2], &[0, 0]), &[0, 2], 1);
        assert_eq!(target, [7, 8]);
    }

    #[test]
    fn what_is_contiguous() {
        let part = |start: &[u64], shape: &[u64]| Region::new(start, shape);
        assert_eq!(contiguous(&[3, 4, 5], &part(&[1, 0, 0], &[2, 4, 5]), 2), Some(40..120));
        assert_eq!(contiguous(&[3, 4, 5], &part(&[1, 2, 0], &[1, 2, 5]), 1), Some(30..40));
        assert_eq!(contiguous(&[3, 4, 5], &part(&[1, 2, 1], &[1, 1, 3]), 1), Some(31..34));
        assert_eq!(contiguous(&[3, 4, 5], &part(&[0, 2, 0], &[2, 2, 5]), 1), None);
        assert_eq!(contiguous(&[3, 4, 5], &part(&[0, 0, 1], &[1, 2, 4]), 1), None);
    }
}

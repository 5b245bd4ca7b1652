//! Chunks that are stored as they are in memory. A region of such a chunk is a set of byte runs.

use crate::StorageError;
use crate::boxes;
use crate::chunks::ArrayIo;
use crate::object::Object;
use crate::read::{READ_BUFFER, READ_GAP};
use chunkwise_types::Region;
use std::ops::Range;

impl ArrayIo {
    /// Reads the runs of a region of a chunk, and returns how many bytes that took.
    pub(crate) fn read_raw(
        &self,
        object: &Object,
        key: &str,
        from: &Region,
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<u64, StorageError> {
        let inner = &*self.0;
        let (shape, item) = (&inner.codec.shape, inner.meta.dtype.size() as usize);
        if object.len() != inner.codec.bytes as u64 {
            return Err(self.corrupt(key, format!("it has {} bytes instead of {}", object.len(), inner.codec.bytes)));
        }
        let mut read = 0;
        // Long runs are read directly into the destination. Short ones are read together with the gaps between them, through a bounded
        // buffer.
        if boxes::run_bytes(&from.shape, shape, to.0, item) as u64 >= READ_GAP {
            boxes::runs(&from.shape, item, (shape, &from.start), to, |s, t, n| {
                read += object.read(&inner.store, key, s as u64, &mut out[t..t + n])?;
                Ok::<(), StorageError>(())
            })?;
            return Ok(read);
        }
        let (mut buffer, mut result) = (Vec::new(), Ok(()));
        cut_runs(from, shape, to, item, &mut |range, numbers| {
            if result.is_ok() {
                buffer.resize((range.end - range.start) as usize, 0);
                result = object.read(&inner.store, key, range.start, &mut buffer).map(|n| read += n);
                place_runs(&buffer, range, numbers, (from, shape), out, to, item);
            }
        });
        result.map(|()| read)
    }
}

/// Groups the runs of a region of a raw chunk into ranges: runs that are near to each other are joined, and long ones are cut.
pub(crate) fn cut_runs(from: &Region, chunk: &[u64], to: (&[u64], &[u64]), item: usize, each: &mut dyn FnMut(Range<u64>, Range<u64>)) {
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

/// Copies the runs of a range of a raw chunk to the destination.
pub(crate) fn place_runs(
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

    /// Every element of a region arrives, however the ranges are cut.
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
            let from = Region::new(start, shape);
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

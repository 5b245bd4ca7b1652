//! Results that are held in memory: what they take there, and how they are stored until they are whole.

use crate::{Error, Session};
use chunkwise_plan::{Codec, Plan};
use chunkwise_planner::{PlannerError, Request};
use chunkwise_storage::{ArrayIo, ArrayMeta, StorageError};
use chunkwise_types::{Region, volume};

/// Bytes of results of so many bytes as they are stored in a compressed form, at most: what cannot be compressed grows a little.
pub fn stored_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 50).saturating_add(1 << 20)
}

/// Bytes of the outputs of a plan, if they are stored as they are. Chunks at the ends of an axis are stored as whole ones.
fn plain_bytes(plan: &Plan, requests: &[Request]) -> u64 {
    let bytes = |url: &str| {
        let array = plan.arrays.values().find(|a| a.url == url)?;
        Some(array.grid.count().saturating_mul(volume(&array.grid.stored_shape())).saturating_mul(array.dtype.size()))
    };
    requests.iter().map(|r| bytes(&r.url).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
}

/// Values of at least so many bytes are copied by several threads.
pub const LARGE: usize = 8 << 20;

/// Reads a stored array as a whole into `out`, which has its size, with so many threads at most. Each reads some rows of chunks.
///
/// # Errors
/// When the store fails, or a chunk is damaged.
pub fn read_whole(io: &ArrayIo, meta: &ArrayMeta, threads: u64, out: &mut [u8]) -> Result<(), StorageError> {
    let (Some(&rows), Some(&chunk)) = (meta.shape.first(), meta.grid.stored_shape().first()) else {
        return io.read_region(&Region::full(&meta.shape), out).map(drop);
    };
    if out.len() < LARGE || rows == 0 {
        return io.read_region(&Region::full(&meta.shape), out).map(drop);
    }
    let each = rows.div_ceil(chunk.max(1)).div_ceil(threads.max(1)).saturating_mul(chunk.max(1)).min(rows);
    let row = out.len() / rows as usize;
    std::thread::scope(|scope| {
        let read = |i: usize, part: &mut [u8]| {
            let (mut start, mut shape) = (vec![0; meta.shape.len()], meta.shape.clone());
            (start[0], shape[0]) = (i as u64 * each, (part.len() / row) as u64);
            io.read_region(&Region::new(&start, &shape), part).map(drop)
        };
        let parts = out.chunks_mut(row * each as usize).enumerate();
        let threads: Vec<_> = parts.map(|(i, part)| scope.spawn(move || read(i, part))).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

impl Session {
    /// Plans results that stay in the memory of this process, at URLs of `memory:`. Their chunks are not encoded, unless they would take much more
    /// memory in that way, as short arrays in long chunks do.
    ///
    /// # Errors
    /// As [`Session::plan`].
    pub fn plan_in_memory(&self, requests: &[Request]) -> Result<Plan, Error> {
        let bytes = requests.iter().map(|r| volume(r.array.shape()).saturating_mul(r.array.dtype().size())).fold(0, u64::saturating_add);
        let stored = stored_bytes(bytes);
        let plain: Vec<Request> = requests.iter().map(|r| Request { codec: Codec::None, ..r.clone() }).collect();
        let encoded = || self.plan_beside(stored, requests);
        match self.plan_beside(stored, &plain) {
            Ok(plan) => match plain_bytes(&plan, &plain) {
                need if need <= stored => Ok(plan),
                // They are there beside the whole result in the end.
                need if need.saturating_add(bytes) >= self.task_budget() => encoded(),
                need => self.plan_beside(need, &plain).or_else(|_| encoded()),
            },
            Err(Error::Planner(PlannerError::Memory { .. })) => encoded(),
            Err(other) => Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::Expr;
    use crate::Session;
    use chunkwise_ops::create::{arange, full};
    use chunkwise_ops::manipulate::reshape;
    use chunkwise_plan::Codec;
    use chunkwise_types::{ChunkGrid, DType, Scalar};

    #[test]
    fn results_are_read_by_several_threads() {
        for (shape, chunks) in [([2001, 700], [100, 700]), ([1, 2_000_000], [1, 1_000_000]), ([2_000_003, 1], [999, 1]), ([3, 4], [2, 2])] {
            for workers in [1, 2, 5] {
                let session = Session::new(300_000_000, workers, "memory:read").unwrap();
                let n = shape.iter().product::<u64>();
                let counted = arange(Scalar::Int(0), Scalar::Int(i128::from(n)), Scalar::Int(1), None, None).unwrap();
                let x = reshape(&counted, &shape.map(|n| n as i64)).unwrap();
                let x = x.rechunked(ChunkGrid::regular(&shape, &chunks));
                let found = Expr::from(x).compute::<i64>(&session).unwrap();
                assert!(found.iter().copied().eq(0..n as i64), "{shape:?}");
            }
        }
    }

    fn codec(shape: &[u64], chunks: &[u64]) -> Codec {
        let session = Session::new(200_000_000, 1, "memory:results").unwrap();
        let array = full(shape, Scalar::Int(1), DType::Float64, Some(chunks)).unwrap();
        let plan = session.plan_in_memory(&[session.request("memory:result", &array).unwrap()]).unwrap();
        plan.arrays.values().find_map(|a| a.encoding.clone()).unwrap().codec
    }

    #[test]
    fn results_are_not_encoded_unless_their_chunks_are_much_larger_than_they() {
        assert_eq!(codec(&[1000, 1000], &[100, 1000]), Codec::None);
        // A tenth more, in the last chunk.
        assert_eq!(codec(&[1000, 1000], &[100, 550]), Codec::None);
        // 30 MB in chunks of 118 MB.
        assert_eq!(codec(&[2001, 1901], &[2000, 1900]), Codec::Default);
    }
}

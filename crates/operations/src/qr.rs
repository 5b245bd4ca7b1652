//! QR decomposition of tall matrices.
//!
//! Direct TSQR: see the kernel, [`chunkwise_kernels::Qr`]. The triangles of the blocks of rows are stacked and decomposed in the same
//! way, until one block is left.

use crate::elementwise::astype;
use crate::manipulate::{reshape, squeeze};
use crate::{Array, OpError, create};
use chunkwise_kernels::{ArrayType, Factor, Kernel, Qr};
use chunkwise_types::{AxisChunks, ChunkGrid, DType};

/// Bytes that a block of rows should have at least.
const BLOCK_BYTES: u64 = 8 << 20;
/// A block has this many rows for each column at least, so that its triangle is much smaller than itself.
const TALL: u64 = 4;

/// The blocks of rows that a matrix is decomposed in: whole chunks.
fn blocks(a: &Array) -> AxisChunks {
    let (m, n) = (a.shape()[0], a.shape()[1]);
    let least = (TALL * n).max(BLOCK_BYTES / (n * a.dtype().size()).max(1)).max(1);
    match &a.chunks().0[0] {
        AxisChunks::Regular { size, .. } => AxisChunks::regular(m, least.next_multiple_of((*size).max(1)).min(m)),
        AxisChunks::Irregular(list) => {
            let mut out: Vec<u64> = Vec::new();
            let mut open = 0;
            for n in list {
                open += n;
                if open >= least {
                    out.push(std::mem::take(&mut open));
                }
            }
            match out.last_mut() {
                Some(last) => *last += open,
                None => out.push(open),
            }
            AxisChunks::from_list(out)
        }
    }
}

/// One factor of every block.
fn factor(factor: Factor, rows: &AxisChunks, inputs: &[&Array]) -> Result<Array, OpError> {
    let (a, blocks) = (inputs[0], rows.count());
    let n = a.shape()[1];
    let kernel = Kernel::Qr(Qr { factor, rows: rows.clone() });
    let whole = AxisChunks::regular(n, n);
    let (shape, grid, dims) = match factor {
        Factor::R => (vec![blocks, n, n], vec![AxisChunks::regular(blocks, 1), whole.clone(), whole], vec![None; 3]),
        Factor::Q => (a.shape().to_vec(), vec![rows.clone(), whole], vec![a.dims()[0].clone(), None]),
    };
    Array::apply(kernel, inputs, ArrayType::new(a.dtype(), shape), ChunkGrid(grid), dims, "qr")
}

/// The triangles of all blocks, one below the other, and the blocks that these are decomposed in.
fn stacked(a: &Array, rows: &AxisChunks) -> Result<(Array, AxisChunks), OpError> {
    let (n, count) = (a.shape()[1], rows.count());
    let stack = reshape(&factor(Factor::R, rows, &[a])?, &[-1, n as i64])?;
    // As many triangles as make up a block of the size of the last ones, but at least four.
    let together = (rows.max() / n).max(TALL).min(count);
    Ok((stack, AxisChunks::regular(count * n, together * n)))
}

fn r_of(a: &Array, rows: &AxisChunks) -> Result<Array, OpError> {
    if rows.count() == 1 {
        return squeeze(&factor(Factor::R, rows, &[a])?, 0);
    }
    let (stack, rows) = stacked(a, rows)?;
    r_of(&stack, &rows)
}

fn q_of(a: &Array, rows: &AxisChunks) -> Result<Array, OpError> {
    if rows.count() == 1 {
        return factor(Factor::Q, rows, &[a]);
    }
    let (stack, above) = stacked(a, rows)?;
    factor(Factor::Q, rows, &[a, &q_of(&stack, &above)?])
}

/// The factors Q (m by n) and R (n by n) of a matrix with at least as many rows as columns: `a = Q R`, the columns of Q orthonormal, R
/// upper triangular with a non-negative diagonal. Integers become float64.
///
/// The matrix is read in blocks of rows, once for R and twice for Q; several blocks of its columns' length squared must fit into the
/// memory of a task.
///
/// ```
/// use chunkwise_ops::{create, qr::qr};
/// use chunkwise_types::{DType, Scalar};
/// let a = create::full(&[1000, 20], Scalar::Int(1), DType::Float64, None)?;
/// let (q, r) = qr(&a)?;
/// assert_eq!((q.shape(), r.shape()), (&[1000, 20][..], &[20, 20][..]));
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If `a` is not a matrix, is complex, or has fewer rows than columns.
pub fn qr(a: &Array) -> Result<(Array, Array), OpError> {
    let bad = |p: String| Err(OpError::new("qr", p));
    let &[m, n] = a.shape() else { return bad(format!("a matrix is needed, not an array of {} axes", a.rank())) };
    if m < n {
        return bad(format!("the matrix has {m} rows and {n} columns; it must have at least as many rows as columns"));
    }
    let a = match a.dtype() {
        DType::Float32 | DType::Float64 => a.clone(),
        d if d.kind() == chunkwise_types::DTypeKind::Complex => return bad(format!("{d} is not supported")),
        _ => astype(a, DType::Float64)?,
    };
    if n == 0 {
        let zeros = |shape: &[u64]| create::full(shape, chunkwise_types::Scalar::Int(0), a.dtype(), None);
        return Ok((zeros(&[m, 0])?, zeros(&[0, 0])?));
    }
    let rows = blocks(&a);
    Ok((q_of(&a, &rows)?, r_of(&a, &rows)?))
}

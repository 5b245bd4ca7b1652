//! Another chunk grid on the way.

use crate::support::bad;
use crate::{Array, OpError};
use chunkwise_types::{AxisChunks, ChunkGrid};

/// The wish for one axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Size {
    /// As it is.
    Keep,
    /// One chunk.
    Whole,
    /// Chunks of this length.
    Of(u64),
    /// These lengths one after another.
    List(Vec<u64>),
}

/// The grid that the wishes, one an axis, describe on a shape; `now` is kept where nothing is wished.
pub fn grid(op: &str, now: &ChunkGrid, wishes: &[Size]) -> Result<ChunkGrid, OpError> {
    if wishes.len() != now.rank() {
        return bad(op, format!("chunks for {} axes are given, but there are {}", wishes.len(), now.rank()));
    }
    let axis = |(c, w): (&AxisChunks, &Size)| match w {
        Size::Keep => Ok(c.clone()),
        Size::Whole => Ok(AxisChunks::regular(c.len(), c.len())),
        Size::Of(0) => bad(op, "a chunk length must be at least 1, or -1 for the whole axis"),
        Size::Of(n) => Ok(AxisChunks::regular(c.len(), (*n).min(c.len()))),
        Size::List(l) => Ok(AxisChunks::from_list(l.clone())),
    };
    let out = ChunkGrid(now.0.iter().zip(wishes).map(axis).collect::<Result<_, _>>()?);
    out.check(&now.shape()).map_err(|e| OpError::new(op, e.to_string()))?;
    Ok(out)
}

/// The same array, stored on the way in other chunks. Nothing is done if the chunks are those already.
///
/// ```
/// use chunkwise_ops::{create, rechunk::{Size, rechunk}};
/// use chunkwise_types::Scalar;
/// let x = create::full(&[100, 40], Scalar::Int(0), None, None)?;
/// assert_eq!(rechunk(&x, &[Size::Of(50), Size::Of(20)])?.chunks().to_string(), "((50, 50), (20, 20))");
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
pub fn rechunk(x: &Array, wishes: &[Size]) -> Result<Array, OpError> {
    let to = grid("rechunk", x.chunks(), wishes)?;
    Ok(if to == *x.chunks() { x.clone() } else { x.rechunked(to) })
}

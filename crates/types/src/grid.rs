//! Chunk grids, regular and irregular.

use crate::Region;
use serde::{Deserialize, Serialize};

/// How one axis is cut.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum AxisChunks {
    /// Chunks of `size`, the last one smaller if `size` does not divide `len`.
    Regular {
        /// Length of the axis.
        len: u64,
        /// Length of a chunk, at least 1.
        size: u64,
    },
    /// The length of every chunk, each at least 1.
    Irregular(Vec<u64>),
}

/// Why a grid is refused.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum GridError {
    /// A chunk of length zero.
    #[error("axis {axis}: a chunk length must be at least 1")]
    ZeroChunk {
        /// The axis.
        axis: usize,
    },
    /// The chunk lengths of an axis do not sum to its length.
    #[error("axis {axis}: the chunks sum to {sum}, but the axis has length {len}")]
    WrongSum {
        /// The axis.
        axis: usize,
        /// What the chunks sum to.
        sum: u64,
        /// The length of the axis.
        len: u64,
    },
    /// The rank of the grid is not the rank of the array.
    #[error("the grid has {grid} axes, but the array has {array}")]
    Rank {
        /// Axes of the grid.
        grid: usize,
        /// Axes of the array.
        array: usize,
    },
}

impl AxisChunks {
    /// Chunks of `size` on an axis of length `len`; a size of 0 is taken as 1.
    pub fn regular(len: u64, size: u64) -> Self {
        AxisChunks::Regular { len, size: size.max(1) }
    }

    /// From a list of lengths, regular where it can be.
    pub fn from_list(list: Vec<u64>) -> Self {
        let len = list.iter().sum();
        match list.split_last() {
            None => AxisChunks::regular(0, 1),
            Some((last, init)) => {
                let size = *init.first().unwrap_or(last);
                if init.iter().all(|&c| c == size) && *last <= size { AxisChunks::regular(len, size) } else { AxisChunks::Irregular(list) }
            }
        }
    }

    /// The length of the axis.
    pub fn len(&self) -> u64 {
        match self {
            AxisChunks::Regular { len, .. } => *len,
            AxisChunks::Irregular(list) => list.iter().sum(),
        }
    }

    /// True if the axis has length zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of chunks.
    pub fn count(&self) -> u64 {
        match self {
            AxisChunks::Regular { len, size } => len.div_ceil((*size).max(1)),
            AxisChunks::Irregular(list) => list.len() as u64,
        }
    }

    /// The longest chunk; 0 on an empty axis.
    pub fn max(&self) -> u64 {
        match self {
            AxisChunks::Regular { len, size } => *size.min(len),
            AxisChunks::Irregular(list) => list.iter().copied().max().unwrap_or(0),
        }
    }

    /// The first index and the length of chunk `i`.
    pub fn bounds(&self, i: u64) -> (u64, u64) {
        match self {
            AxisChunks::Regular { len, size } => {
                let start = (i * size).min(*len);
                (start, (*size).min(len - start))
            }
            AxisChunks::Irregular(list) => (list[..i as usize].iter().sum(), list[i as usize]),
        }
    }

    /// The chunk that holds an index.
    pub fn find(&self, index: u64) -> u64 {
        match self {
            AxisChunks::Regular { size, .. } => index / (*size).max(1),
            AxisChunks::Irregular(list) => {
                let mut end = 0;
                for (i, c) in list.iter().enumerate() {
                    end += c;
                    if index < end {
                        return i as u64;
                    }
                }
                list.len().saturating_sub(1) as u64
            }
        }
    }

    /// The chunks that a half-open range touches, as a half-open range of chunk numbers.
    pub fn touched(&self, start: u64, len: u64) -> std::ops::Range<u64> {
        if len == 0 { 0..0 } else { self.find(start)..self.find(start + len - 1) + 1 }
    }

    /// Every chunk length.
    pub fn to_list(&self) -> Vec<u64> {
        match self {
            AxisChunks::Regular { .. } => (0..self.count()).map(|i| self.bounds(i).1).collect(),
            AxisChunks::Irregular(list) => list.clone(),
        }
    }

    /// True if these chunks have a length of at least 1 and make up an axis of length `len`.
    pub fn cuts(&self, len: u64) -> bool {
        ChunkGrid(vec![self.clone()]).check(&[len]).is_ok()
    }
}

/// How an array is cut into chunks: one [`AxisChunks`] an axis.
///
/// ```
/// use chunkwise_types::ChunkGrid;
/// let g = ChunkGrid::regular(&[15, 16], &[5, 8]);
/// assert_eq!(g.to_string(), "((5, 5, 5), (8, 8))");
/// assert_eq!(g.count(), 6);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct ChunkGrid(pub Vec<AxisChunks>);

impl ChunkGrid {
    /// A grid of equal chunks.
    pub fn regular(shape: &[u64], chunk: &[u64]) -> Self {
        ChunkGrid(shape.iter().zip(chunk).map(|(&n, &c)| AxisChunks::regular(n, c)).collect())
    }

    /// A single chunk that holds the whole array.
    pub fn single(shape: &[u64]) -> Self {
        Self::regular(shape, shape)
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The lengths of a stored chunk. Chunks at the edge are padded to these lengths.
    pub fn stored_shape(&self) -> Vec<u64> {
        let stored = |a: &AxisChunks| match a {
            AxisChunks::Regular { size, .. } => *size,
            AxisChunks::Irregular(_) => a.max(),
        };
        self.0.iter().map(stored).collect()
    }

    /// The shape of the array.
    pub fn shape(&self) -> Vec<u64> {
        self.0.iter().map(AxisChunks::len).collect()
    }

    /// The number of chunks on each axis.
    pub fn counts(&self) -> Vec<u64> {
        self.0.iter().map(AxisChunks::count).collect()
    }

    /// The number of chunks.
    pub fn count(&self) -> u64 {
        crate::volume(&self.counts())
    }

    /// The longest chunk of each axis.
    pub fn max_shape(&self) -> Vec<u64> {
        self.0.iter().map(AxisChunks::max).collect()
    }

    /// The region of a chunk.
    pub fn region(&self, index: &[u64]) -> Region {
        let (start, shape) = self.0.iter().zip(index).map(|(a, &i)| a.bounds(i)).unzip();
        Region { start, shape }
    }

    /// The chunks that a region touches, as a region of chunk numbers.
    pub fn touched(&self, region: &Region) -> Region {
        let (start, shape) = self
            .0
            .iter()
            .enumerate()
            .map(|(i, a)| {
                let r = a.touched(region.start[i], region.shape[i]);
                (r.start, r.end - r.start)
            })
            .unzip();
        Region { start, shape }
    }

    /// Refuses grids that do not describe `shape`.
    pub fn check(&self, shape: &[u64]) -> Result<(), GridError> {
        if self.rank() != shape.len() {
            return Err(GridError::Rank { grid: self.rank(), array: shape.len() });
        }
        for (axis, (chunks, &len)) in self.0.iter().zip(shape).enumerate() {
            let zero = match chunks {
                AxisChunks::Regular { size, .. } => *size == 0,
                AxisChunks::Irregular(list) => list.contains(&0),
            };
            if zero {
                return Err(GridError::ZeroChunk { axis });
            }
            let sum = match chunks {
                AxisChunks::Regular { len, .. } => *len,
                AxisChunks::Irregular(list) => list.iter().try_fold(0u64, |a, &b| a.checked_add(b)).unwrap_or(u64::MAX),
            };
            if sum != len {
                return Err(GridError::WrongSum { axis, sum, len });
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for ChunkGrid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let axis = |a: &AxisChunks| -> String {
            let n = a.count();
            let show = |i| a.bounds(i).1.to_string();
            let items: Vec<String> = if n <= 8 {
                (0..n).map(show).collect()
            } else {
                (0..3).map(show).chain(["...".into()]).chain((n - 2..n).map(show)).collect()
            };
            if items.len() == 1 { format!("({},)", items[0]) } else { format!("({})", items.join(", ")) }
        };
        let axes: Vec<String> = self.0.iter().map(axis).collect();
        if axes.len() == 1 { write!(f, "({},)", axes[0]) } else { write!(f, "({})", axes.join(", ")) }
    }
}

//! Rectangular regions of an array.

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

/// A number for each axis. Up to four axes need no allocation, because planning and tasks make regions by the thousand.
pub type PerAxis = SmallVec<[u64; 4]>;

/// A rectangular part of an array, half open: `start[i] .. start[i] + shape[i]` on every axis.
///
/// ```
/// use chunkwise_types::Region;
/// let a = Region::new([0, 2], [4, 4]);
/// let b = Region::new([3, 0], [4, 4]);
/// assert_eq!(a.intersect(&b), Some(Region::new([3, 2], [1, 2])));
/// assert_eq!(a.hull(&b), Region::new([0, 0], [7, 6]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Region {
    /// The first index on each axis.
    pub start: PerAxis,
    /// The length of each axis.
    pub shape: PerAxis,
}

/// The number of elements of a shape, saturating.
pub fn volume(shape: &[u64]) -> u64 {
    shape.iter().fold(1u64, |a, &b| a.saturating_mul(b))
}

/// The C-order position of an index in a shape.
pub fn ravel(index: &[u64], shape: &[u64]) -> u64 {
    index.iter().zip(shape).fold(0, |acc, (&i, &n)| acc * n + i)
}

/// The index at a C-order position of a shape.
pub fn unravel(mut position: u64, shape: &[u64]) -> Vec<u64> {
    let mut index = vec![0; shape.len()];
    for (slot, &n) in index.iter_mut().zip(shape).rev() {
        let n = n.max(1);
        *slot = position % n;
        position /= n;
    }
    index
}

impl Region {
    /// Every index of the region, in C order.
    ///
    /// ```
    /// let region = chunkwise_types::Region::new([3, 5], [1, 2]);
    /// assert_eq!(region.indices().collect::<Vec<_>>(), [[3, 5], [3, 6]]);
    /// ```
    pub fn indices(&self) -> impl Iterator<Item = Vec<u64>> + '_ {
        (0..self.volume()).map(|k| crate::unravel(k, &self.shape).iter().zip(&self.start).map(|(a, b)| a + b).collect())
    }

    /// A region from its first index and its shape.
    pub fn new(start: impl AsRef<[u64]>, shape: impl AsRef<[u64]>) -> Self {
        let (start, shape) = (PerAxis::from_slice(start.as_ref()), PerAxis::from_slice(shape.as_ref()));
        debug_assert_eq!(start.len(), shape.len());
        Region { start, shape }
    }

    /// The region that holds all of an array.
    pub fn full(shape: &[u64]) -> Self {
        Region { start: smallvec![0; shape.len()], shape: shape.into() }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.start.len()
    }

    /// The number of elements.
    pub fn volume(&self) -> u64 {
        volume(&self.shape)
    }

    /// True if an axis has length zero.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// One past the last index on an axis.
    pub fn end(&self, axis: usize) -> u64 {
        self.start[axis] + self.shape[axis]
    }

    /// The region that both have in common; `None` if there is none.
    pub fn intersect(&self, other: &Region) -> Option<Region> {
        let mut out = self.clone();
        for i in 0..self.rank() {
            let start = self.start[i].max(other.start[i]);
            let end = self.end(i).min(other.end(i));
            if start >= end {
                return None;
            }
            out.start[i] = start;
            out.shape[i] = end - start;
        }
        Some(out)
    }

    /// The smallest region that holds both; an empty region adds nothing.
    pub fn hull(&self, other: &Region) -> Region {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let start: PerAxis = self.start.iter().zip(&other.start).map(|(a, b)| *a.min(b)).collect();
        let shape = (0..self.rank()).map(|i| self.end(i).max(other.end(i)) - start[i]).collect();
        Region { start, shape }
    }

    /// True if every element of `other` is in this region.
    pub fn contains(&self, other: &Region) -> bool {
        other.is_empty() || (0..self.rank()).all(|i| self.start[i] <= other.start[i] && other.end(i) <= self.end(i))
    }

    /// This region in coordinates whose origin is the start of `origin`.
    pub fn relative_to(&self, origin: &Region) -> Region {
        let start = self.start.iter().zip(&origin.start).map(|(a, b)| a - b).collect();
        Region { start, shape: self.shape.clone() }
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for i in 0..self.rank() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}:{}", self.start[i], self.end(i))?;
        }
        f.write_str("]")
    }
}

//! Index maps along the axes: slicing, flipping, rolling, padding, repeating and taking.
//!
//! A region is split, axis by axis, into pieces whose input is one range. Ranges are merged only where they touch or
//! overlap, so that the ranges of a part of a region always lie inside those of the whole.

use crate::{Block, BlockElement, Demand, KernelError, Part, with_dtype};
use chunkwise_types::{DType, Region, Scalar};
use ndarray::{ArcArray, Axis, IxDyn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What elements outside the input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PadMode {
    /// The fill value.
    Constant,
    /// The nearest element of the edge.
    Edge,
    /// Mirrored without repeating the edge.
    Reflect,
    /// Mirrored, the edge repeated.
    Symmetric,
    /// From the other end.
    Wrap,
}

/// The index of the input that each index of an output axis reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum AxisMap {
    /// `start + step * i`.
    Slice {
        /// The first index.
        start: u64,
        /// The step, not zero.
        step: i64,
    },
    /// `indices[i]`.
    Take(Vec<u64>),
    /// `i - before`, with a rule for what lies outside.
    Pad {
        /// Elements before the first.
        before: u64,
        /// The rule.
        mode: PadMode,
    },
    /// `i / times`.
    Repeat {
        /// How often an element comes, at least once.
        times: u64,
    },
    /// `(i - shift) mod n`, `0 <= shift < n`.
    Roll {
        /// How far elements move.
        shift: u64,
    },
}

/// A merge threshold of scattered indices, in elements: monotone under taking parts (see the module's head).
const GAP: u64 = 16;

impl AxisMap {
    /// The identity.
    pub const ALL: AxisMap = AxisMap::Slice { start: 0, step: 1 };

    /// The input index of output index `i` for an axis of length `n`; `None` is the fill value.
    pub fn at(&self, i: u64, n: u64) -> Option<u64> {
        match self {
            AxisMap::Slice { start, step } => Some((*start as i64 + *step * i as i64) as u64),
            AxisMap::Take(list) => Some(list[i as usize]),
            AxisMap::Repeat { times } => Some(i / (*times).max(1)),
            AxisMap::Roll { shift } => Some((i + n - shift) % n),
            AxisMap::Pad { before, mode } => {
                let (k, n) = (i as i64 - *before as i64, n as i64);
                if (0..n).contains(&k) {
                    return Some(k as u64);
                }
                let mirrored = |period: i64, k: i64, last: i64| {
                    let m = k.rem_euclid(period.max(1));
                    if m < n { m } else { last - m }
                };
                Some(match mode {
                    PadMode::Constant => return None,
                    PadMode::Edge => k.clamp(0, n - 1),
                    PadMode::Wrap => k.rem_euclid(n),
                    PadMode::Symmetric => mirrored(2 * n, k, 2 * n - 1),
                    PadMode::Reflect => mirrored(2 * n - 2, k, 2 * n - 2),
                } as u64)
            }
        }
    }

    /// The input ranges that `len` outputs from `start` need, ascending and disjoint.
    fn ranges(&self, start: u64, len: u64, n: u64) -> Vec<(u64, u64)> {
        if let AxisMap::Slice { start: s, step } = self {
            let a = (*s as i64 + step * start as i64) as u64;
            let b = (*s as i64 + step * (start + len - 1) as i64) as u64;
            return vec![(a.min(b), a.abs_diff(b) + 1)];
        }
        if let AxisMap::Repeat { times } = self {
            let (first, last) = (start / (*times).max(1), (start + len - 1) / (*times).max(1));
            return vec![(first, last - first + 1)];
        }
        if let AxisMap::Pad { before, .. } = self
            && start >= *before
            && start + len <= before + n
        {
            return vec![(start - before, len)];
        }
        let mut used: Vec<u64> = (start..start + len).filter_map(|i| self.at(i, n)).collect();
        used.sort_unstable();
        let gap = if matches!(self, AxisMap::Take(_)) { GAP } else { 1 };
        let mut out: Vec<(u64, u64)> = Vec::new();
        for k in used {
            match out.last_mut() {
                Some((s, l)) if k < *s + *l + gap => *l = k - *s + 1,
                _ => out.push((k, 1)),
            }
        }
        out
    }
}

fn all_ranges(axes: &[AxisMap], input: &[u64], region: &Region) -> Vec<Vec<(u64, u64)>> {
    axes.iter().enumerate().map(|(i, m)| m.ranges(region.start[i], region.shape[i], input[i])).collect()
}

pub(crate) fn demand(axes: &[AxisMap], input: &[u64], region: &Region) -> Vec<Demand> {
    let ranges = all_ranges(axes, input, region);
    let counts: Vec<u64> = ranges.iter().map(|r| r.len() as u64).collect();
    (0..chunkwise_types::volume(&counts))
        .map(|k| {
            let index = chunkwise_types::unravel(k, &counts);
            let (start, shape) = index.iter().zip(&ranges).map(|(&i, r)| r[i as usize]).unzip();
            Demand { input: 0, region: Region { start, shape } }
        })
        .collect()
}

pub(crate) fn compute(
    axes: &[AxisMap],
    fill: Scalar,
    input: &[u64],
    dtype: DType,
    region: &Region,
    parts: &[Part],
) -> Result<Block, KernelError> {
    // A plain slice is a view.
    if let [part] = parts
        && axes.iter().all(|a| matches!(a, AxisMap::Slice { .. }))
    {
        return Ok(strided(&part.block, axes));
    }
    with_dtype!(dtype, T => scatter::<T>(axes, fill, input, region, parts))
}

/// Every `step`-th element of the demanded range, reversed for negative steps.
fn strided(block: &Block, axes: &[AxisMap]) -> Block {
    fn go<T: BlockElement>(a: &ArcArray<T, IxDyn>, axes: &[AxisMap]) -> Block {
        let mut v = a.clone();
        for (i, map) in axes.iter().enumerate() {
            if let AxisMap::Slice { step, .. } = map
                && *step != 1
            {
                v.slice_axis_inplace(Axis(i), ndarray::Slice::new(0, None, *step as isize));
            }
        }
        T::wrap(v)
    }
    crate::with_block!(block, a => go(a, axes))
}

fn scatter<T: BlockElement>(axes: &[AxisMap], fill: Scalar, input: &[u64], region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
    let full = crate::create::splat(fill, T::DTYPE, &region.shape);
    let mut out = T::unwrap(&full).cloned().ok_or_else(|| KernelError::Invalid("gather: wrong fill dtype".into()))?;
    for part in parts {
        let source = T::unwrap(&part.block).ok_or_else(|| KernelError::DType { op: "gather".into(), dtype: part.block.dtype() })?;
        // For each axis, the output positions that read from this part and where in it they read.
        let places: Vec<Vec<(usize, usize)>> = axes
            .iter()
            .enumerate()
            .map(|(i, map)| {
                (0..region.shape[i])
                    .filter_map(|k| {
                        let at = map.at(region.start[i] + k, input[i])?;
                        let inside = at >= part.region.start[i] && at < part.region.end(i);
                        inside.then(|| (k as usize, (at - part.region.start[i]) as usize))
                    })
                    .collect()
            })
            .collect();
        copy(source.view(), out.view_mut(), &places);
    }
    Ok(T::wrap(out))
}

/// Copies axis by axis; runs along the last axis are copied as slices.
fn copy<T: BlockElement>(source: ndarray::ArrayViewD<'_, T>, mut out: ndarray::ArrayViewMutD<'_, T>, places: &[Vec<(usize, usize)>]) {
    let Some((first, rest)) = places.split_first() else {
        out.assign(&source);
        return;
    };
    let mut k = 0;
    while k < first.len() {
        let (o, s) = first[k];
        let mut run = 1;
        while k + run < first.len() && first[k + run] == (o + run, s + run) {
            run += 1;
        }
        let whole = rest.iter().enumerate().all(|(i, p)| {
            p.len() == out.shape()[i + 1] && p.len() == source.shape()[i + 1] && p.iter().enumerate().all(|(j, q)| *q == (j, j))
        });
        if whole {
            let from = source.slice_axis(Axis(0), (s..s + run).into());
            out.slice_axis_mut(Axis(0), (o..o + run).into()).assign(&from);
            k += run;
        } else {
            copy(source.index_axis(Axis(0), s), out.index_axis_mut(Axis(0), o), rest);
            k += 1;
        }
    }
}

impl AxisMap {
    /// Refuses maps that would read outside an axis of length `n` for an output axis of length `out`.
    pub fn check(&self, n: u64, out: u64) -> Result<(), String> {
        let inside = |i: i128| i >= 0 && i < i128::from(n);
        let ok = match self {
            _ if out == 0 => true,
            AxisMap::Slice { start, step } => {
                *step != 0 && inside(i128::from(*start)) && inside(i128::from(*start) + i128::from(*step) * i128::from(out - 1))
            }
            AxisMap::Take(list) => list.len() as u64 == out && list.iter().all(|&i| i < n),
            AxisMap::Repeat { times } => *times > 0 && n.checked_mul(*times) == Some(out),
            AxisMap::Roll { shift } => out == n && *shift < n,
            AxisMap::Pad { before, mode } => {
                let after = (i128::from(out) - i128::from(n) - i128::from(*before)).max(0);
                match mode {
                    PadMode::Constant => true,
                    _ => n > 0 && (*before < 1 << 40) && after < 1 << 40,
                }
            }
        };
        if ok { Ok(()) } else { Err(format!("the map reads outside the axis of length {n}")) }
    }
}

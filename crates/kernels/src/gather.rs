//! Index maps along the axes: slicing, flipping, rolling, padding, repeating and taking.
//!
//! A region is split, axis by axis, into pieces whose input is one range. Ranges are merged only where they touch or
//! overlap, so that the ranges of a part of a region always lie inside those of the whole.

use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, KernelError, Part, ViewAxis, Window, check, with_dtype};
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

/// Refuses maps that read outside of the input, and outputs that they do not make.
pub(crate) fn check(axes: &[AxisMap], inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
    let input = check::one(inputs)?;
    check::dtype(output, input.dtype)?;
    if axes.len() != input.shape.len() || axes.len() != output.shape.len() {
        return check::invalid("one map for each axis is needed");
    }
    for (i, (map, (&n, &out))) in axes.iter().zip(input.shape.iter().zip(&output.shape)).enumerate() {
        map.check(n, out).map_err(|e| KernelError::Invalid(format!("axis {i}: {e}")))?;
    }
    Ok(())
}

/// The largest number of boxes that a region may need.
const MAX_BOXES: u64 = 2048;

/// The longest axis that is padded: twice it is a signed number.
const LONGEST: u64 = 1 << 61;

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
        if let AxisMap::Roll { shift } = self {
            return turned((start + (n - shift)) % n, len, n);
        }
        if let AxisMap::Pad { before, mode } = self {
            return padded(start as i64 - *before as i64, len as i64, n as i64, *mode);
        }
        let mut used: Vec<u64> = (start..start + len).filter_map(|i| self.at(i, n)).collect();
        used.sort_unstable();
        let mut out: Vec<(u64, u64)> = Vec::new();
        for k in used {
            match out.last_mut() {
                Some((s, l)) if k < *s + *l + GAP => *l = k - *s + 1,
                _ => out.push((k, 1)),
            }
        }
        out
    }
}

/// The ranges of `len` indices from `first` on an axis of length `n` whose end is joined to its start.
fn turned(first: u64, len: u64, n: u64) -> Vec<(u64, u64)> {
    match (first + len).checked_sub(n) {
        None | Some(0) => vec![(first, len)],
        Some(over) if over >= first => vec![(0, n)],
        Some(over) => vec![(0, over), (first, n - first)],
    }
}

/// The ranges of `len` indices from `first`, which may lie outside of an axis of length `n`.
fn padded(first: i64, len: i64, n: i64, mode: PadMode) -> Vec<(u64, u64)> {
    let last = first + len - 1;
    let range = |a: i64, b: i64| vec![(a as u64, (b - a + 1) as u64)];
    let (a, b) = (first.max(0), last.min(n - 1));
    // Mirrored indices go up and down by one: they reach from the lesser to the greater end, or as far as where they turn.
    let mirrored = |period: i64, far: i64, low: &[i64], high: &[i64]| {
        let at = |k: i64| {
            let m = k.rem_euclid(period);
            if m < n { m } else { far - m }
        };
        let turns = |places: &[i64]| places.iter().any(|p| (p - first).rem_euclid(period) < len);
        let (x, y) = (at(first), at(last));
        range(if turns(low) { 0 } else { x.min(y) }, if turns(high) { n - 1 } else { x.max(y) })
    };
    match mode {
        PadMode::Constant if a > b => Vec::new(),
        PadMode::Constant => range(a, b),
        PadMode::Edge => range(first.clamp(0, n - 1), last.clamp(0, n - 1)),
        PadMode::Wrap => turned(first.rem_euclid(n) as u64, len as u64, n as u64),
        PadMode::Symmetric => mirrored(2 * n, 2 * n - 1, &[0, 2 * n - 1], &[n - 1, n]),
        PadMode::Reflect => mirrored((2 * n - 2).max(1), 2 * n - 2, &[0], &[n - 1]),
    }
}

fn all_ranges(axes: &[AxisMap], input: &[u64], region: &Region) -> Vec<Vec<(u64, u64)>> {
    axes.iter().enumerate().map(|(i, m)| m.ranges(region.start[i], region.shape[i], input[i])).collect()
}

pub(crate) fn demand(axes: &[AxisMap], input: &[u64], region: &Region) -> DemandList {
    let mut ranges = all_ranges(axes, input, region);
    // Scattered indices on several axes make boxes of every pair of ranges: too many become one range an axis.
    while chunkwise_types::volume(&ranges.iter().map(|r| r.len() as u64).collect::<Vec<_>>()) > MAX_BOXES {
        let Some(most) = ranges.iter_mut().max_by_key(|r| r.len()) else { break };
        if let (Some(&(start, _)), Some(&(last, len))) = (most.first(), most.last()) {
            *most = vec![(start, last + len - start)];
        }
    }
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
                && v.shape()[i] > 1
            {
                v.slice_axis_inplace(Axis(i), ndarray::Slice::new(0, None, *step as isize));
            }
        }
        T::wrap(v)
    }
    crate::with_block!(block, a => go(a, axes))
}

fn scatter<T: BlockElement>(axes: &[AxisMap], fill: Scalar, input: &[u64], region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
    let full = Block::splat(fill, T::DTYPE, &region.shape);
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
            AxisMap::Take(list) => list.len() as u64 == out && list.iter().all(|&i| i < n),
            AxisMap::Pad { before, .. } if *before > LONGEST || out > LONGEST => false,
            _ if out == 0 => true,
            AxisMap::Slice { start, step } => {
                *step != 0 && inside(i128::from(*start)) && inside(i128::from(*start) + i128::from(*step) * i128::from(out - 1))
            }
            AxisMap::Repeat { times } => *times > 0 && n.checked_mul(*times) == Some(out),
            AxisMap::Roll { shift } => out == n && *shift < n,
            AxisMap::Pad { mode: PadMode::Constant, .. } => true,
            AxisMap::Pad { .. } => n > 0 && n <= LONGEST,
        };
        if ok { Ok(()) } else { Err(format!("the map reads outside the axis of length {n}")) }
    }
}

/// The kernel.
pub(crate) struct Gather<'a> {
    pub axes: &'a [AxisMap],
    pub fill: Scalar,
}

impl KernelKind for Gather<'_> {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check(self.axes, at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        demand(self.axes, &at.inputs[0].shape, region)
    }

    fn traits(&self) -> Traits {
        let any = |of: fn(&AxisMap) -> bool| self.axes.iter().any(of);
        Traits {
            moves: !any(|map| matches!(map, AxisMap::Pad { mode: PadMode::Constant, .. })),
            // The others go back where an axis starts again, and nowhere else.
            jumps: any(|map| matches!(map, AxisMap::Take(_) | AxisMap::Pad { .. } | AxisMap::Roll { .. })),
            irregular: any(|map| matches!(map, AxisMap::Take(_))),
            ..Traits::PLAIN
        }
    }

    fn work(&self, at: Types<'_>) -> Work {
        Work::passing(at)
    }

    fn view(&self) -> Option<&[ViewAxis]> {
        None
    }

    fn blocks(&self, _: &Region) -> Option<u64> {
        None
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::AtOnce(self)
    }
}

impl Compute for Gather<'_> {
    fn compute(&self, at: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        compute(self.axes, self.fill, &at.inputs[0].shape, at.output.dtype, region, parts)
    }

    fn scratch(&self, at: Types<'_>, region: &Region, _: &[u64]) -> u64 {
        at.output_bytes(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;
    use crate::check::tests::{check, ty};
    use chunkwise_types::DType::*;

    #[test]
    fn ranges_are_those_of_the_indices() {
        let modes = [PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Symmetric, PadMode::Wrap];
        for n in 1..6u64 {
            let pads = (0..9).flat_map(|before| modes.map(|mode| AxisMap::Pad { before, mode }));
            for map in pads.chain((0..n).map(|shift| AxisMap::Roll { shift })) {
                let out = if matches!(map, AxisMap::Roll { .. }) { n } else { 22 };
                for start in 0..out {
                    for len in 1..=out - start {
                        let mut want: Vec<u64> = (start..start + len).filter_map(|i| map.at(i, n)).collect();
                        want.sort_unstable();
                        want.dedup();
                        let got = map.ranges(start, len, n);
                        let all: Vec<u64> = got.iter().flat_map(|&(s, l)| s..s + l).collect();
                        assert_eq!(all, want, "{map:?} {start} {len} of {n}");
                        assert!(got.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "{got:?}");
                    }
                }
            }
        }
        // Long ranges are not counted one by one.
        let far = AxisMap::Pad { before: 1 << 50, mode: PadMode::Symmetric };
        assert_eq!(far.ranges(0, 1 << 51, 1 << 40), [(0, 1 << 40)]);
        assert_eq!(AxisMap::Roll { shift: 5 }.ranges(0, 1 << 50, 1 << 60), [(0, (1 << 50) - 5), ((1 << 60) - 5, 5)]);
    }

    #[test]
    fn what_is_refused() {
        let x = [ty(Float64, &[4, 6])];
        let one = |map: AxisMap, out: u64, dtype| {
            let kernel = Kernel::Gather { axes: vec![map, AxisMap::ALL], fill: Scalar::Int(0) };
            check(&kernel, &x, dtype, &[out, 6])
        };
        let pad = |before, mode| AxisMap::Pad { before, mode };
        for (map, out) in [
            (AxisMap::ALL, 4),
            (AxisMap::Slice { start: 3, step: -1 }, 4),
            (AxisMap::Slice { start: 3, step: i64::MIN }, 1),
            (AxisMap::Take(vec![3, 0, 0]), 3),
            (AxisMap::Repeat { times: 3 }, 12),
            (AxisMap::Roll { shift: 3 }, 4),
            (pad(9, PadMode::Constant), 5),
            (pad(9, PadMode::Wrap), 50),
        ] {
            assert_eq!(one(map.clone(), out, Float64), Ok(()), "{map:?}");
            assert!(one(map, out, Int8).is_err());
        }
        for (map, out) in [
            (AxisMap::ALL, 5),
            (AxisMap::Slice { start: u64::MAX, step: i64::MIN }, 4),
            (AxisMap::Slice { start: 0, step: 0 }, 4),
            (AxisMap::Slice { start: 1, step: i64::MAX }, 4),
            (AxisMap::Take(vec![4]), 1),
            (AxisMap::Take(vec![0, 1]), 1),
            (AxisMap::Take(vec![0, 1]), 0),
            (AxisMap::Repeat { times: 0 }, 4),
            (AxisMap::Repeat { times: u64::MAX }, 4),
            (AxisMap::Roll { shift: 4 }, 4),
            (AxisMap::Roll { shift: 0 }, 3),
            (pad(u64::MAX, PadMode::Constant), 4),
            (pad(u64::MAX, PadMode::Reflect), 4),
        ] {
            assert!(one(map.clone(), out, Float64).is_err(), "{map:?}");
        }
        let kernel = |axes| Kernel::Gather { axes, fill: Scalar::Int(0) };
        assert!(check(&kernel(vec![AxisMap::ALL]), &x, Float64, &[4, 6]).is_err());
        assert!(check(&kernel(vec![AxisMap::ALL, AxisMap::ALL]), &x, Float64, &[4]).is_err());
        let empty = [ty(Float64, &[0])];
        assert!(check(&kernel(vec![pad(1, PadMode::Edge)]), &empty, Float64, &[2]).is_err());
        assert!(check(&kernel(vec![pad(1, PadMode::Constant)]), &empty, Float64, &[2]).is_ok());
    }
}

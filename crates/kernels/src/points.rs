//! Elements at points: positions along several axes, taken together.
//!
//! The input is read in boxes, and each gives the elements of the points that lie in it.

use crate::block::from_vec;
use crate::kind::{Along, Evaluation, Foldable, KernelKind, Rounds, Traits, Types, Work};
use crate::reduce::strides;
use crate::{Block, BlockElement, Demand, DemandList, Fold, KernelError, Part, ViewAxis, Window, check, with_dtype};
use chunkwise_types::{AxisChunks, Region, volume};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::smallvec;

/// The elements at points. The first axis of the output is that of the points, and the axes without positions follow it in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// The axes that have positions, ascending.
    pub axes: Vec<usize>,
    /// For each of these axes the position of every point.
    pub positions: Vec<Vec<u64>>,
}

/// The range `(start, len)` that holds positions; `(0, 0)` if there are none.
fn hull(positions: &[u64]) -> (u64, u64) {
    match (positions.iter().min(), positions.iter().max()) {
        (Some(&first), Some(&last)) => (first, last - first + 1),
        _ => (0, 0),
    }
}

impl Points {
    fn count(&self) -> u64 {
        self.positions.first().map_or(0, |p| p.len() as u64)
    }

    /// The axes of the input that the output has.
    fn rest(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|a| !self.axes.contains(a)).collect()
    }

    /// The positions of the points of a region of the output, for each axis.
    fn of<'a>(&'a self, region: &Region) -> impl Iterator<Item = &'a [u64]> {
        let range = region.start[0] as usize..(region.start[0] + region.shape[0]) as usize;
        self.positions.iter().map(move |p| &p[range.clone()])
    }

    /// The points of a region, counted from its first, that lie in a box.
    fn inside(&self, region: &Region, window: &[(u64, u64)]) -> Vec<u32> {
        let mut found: Vec<u32> = (0..region.shape[0] as u32).collect();
        for (positions, &(start, len)) in self.of(region).zip(window) {
            found.retain(|&k| (start..start + len).contains(&positions[k as usize]));
        }
        found
    }
}

/// A selection under way.
struct Selection<T> {
    points: Points,
    region: Region,
    out: Vec<T>,
}

impl<T: BlockElement> Fold for Selection<T> {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        let [part] = parts else { return check::invalid("points takes one input") };
        let block = part.block.contiguous();
        let wrong = || KernelError::Invalid("points was given a block of another dtype".into());
        let elements = T::unwrap(&block).and_then(|a| a.as_slice()).ok_or_else(wrong)?;
        let (from, to) = (strides(&part.region.shape), strides(&self.region.shape));
        let rest = self.points.rest(part.region.rank());
        let window: Vec<(u64, u64)> = self.points.axes.iter().map(|&a| (part.region.start[a], part.region.shape[a])).collect();
        // Where the part begins in the output, and the lengths that it has there.
        let ahead: isize =
            rest.iter().enumerate().map(|(i, &a)| (part.region.start[a] - self.region.start[i + 1]) as isize * to[i + 1]).sum();
        let lengths: Vec<u64> = rest.iter().map(|&a| part.region.shape[a]).collect();
        let (row, outer) = lengths.split_last().map_or((1, &[][..]), |(&n, outer)| (n as usize, outer));
        let (row_from, row_to) = rest.last().map_or((1, 1), |&a| (from[a], to[rest.len()]));
        let lines: Vec<(isize, isize)> = (0..volume(outer))
            .map(|line| {
                let index = chunkwise_types::unravel(line, outer);
                let at = |strides: &dyn Fn(usize) -> isize| index.iter().enumerate().map(|(i, &k)| k as isize * strides(i)).sum();
                (at(&|i| from[rest[i]]), at(&|i| to[i + 1]))
            })
            .collect();
        for k in self.points.inside(&self.region, &window) {
            let place = |(p, (&a, &(start, _))): (&[u64], (&usize, &(u64, u64)))| (p[k as usize] - start) as isize * from[a];
            let source: isize = self.points.of(&self.region).zip(self.points.axes.iter().zip(&window)).map(place).sum();
            let target = k as isize * to[0] + ahead;
            for &(line_from, line_to) in &lines {
                let (source, target) = (source + line_from, target + line_to);
                for j in 0..row as isize {
                    self.out[(target + j * row_to) as usize] = elements[(source + j * row_from) as usize];
                }
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Block, KernelError> {
        Ok(T::wrap(from_vec(&self.region.shape, self.out)))
    }
}

impl KernelKind for Points {
    fn name(&self) -> &'static str {
        "points"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        let x = check::one(at.inputs)?;
        let (rank, count) = (x.shape.len(), self.count());
        let ascend = self.axes.windows(2).all(|pair| pair[0] < pair[1]) && self.axes.last().is_some_and(|&a| a < rank);
        if !ascend || self.axes.len() != self.positions.len() || count > u64::from(u32::MAX) {
            return check::invalid("points need ascending axes of the input, with positions for each of them");
        }
        for (&a, positions) in self.axes.iter().zip(&self.positions) {
            if positions.len() as u64 != count || positions.iter().any(|&p| p >= x.shape[a]) {
                return check::invalid(format!(
                    "the positions of points along axis {a} are too few, or not inside its length {}",
                    x.shape[a]
                ));
            }
        }
        let shape: Vec<u64> = std::iter::once(count).chain(self.rest(rank).into_iter().map(|a| x.shape[a])).collect();
        check::shape(at.output, &shape)?;
        check::dtype(at.output, x.dtype)
    }

    fn demand(&self, at: Types<'_>, region: &Region, window: Option<&Window>) -> DemandList {
        // All of a window, whichever points are in it: every window takes the same memory then.
        let own = window.is_none().then(|| self.window(at, region));
        let rank = at.inputs[0].shape.len();
        let mut of = Region::full(&at.inputs[0].shape);
        for (&a, &(start, len)) in self.axes.iter().zip(window.or(own.as_ref()).into_iter().flatten()) {
            (of.start[a], of.shape[a]) = (start, len);
        }
        for (i, a) in self.rest(rank).into_iter().enumerate() {
            (of.start[a], of.shape[a]) = (region.start[i + 1], region.shape[i + 1]);
        }
        smallvec![Demand { input: 0, region: of }]
    }

    fn traits(&self) -> Traits {
        Traits { irregular: true, ..Traits::PLAIN }
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
        Evaluation::Folded(self)
    }
}

impl Foldable for Points {
    fn indices(&self) -> Vec<Along> {
        self.axes.iter().map(|&a| smallvec![(0, a)]).collect()
    }

    fn window(&self, _: Types<'_>, region: &Region) -> Window {
        self.of(region).map(hull).collect()
    }

    fn start(&self, at: Types<'_>, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        fn of<T: BlockElement>(points: Points, region: Region) -> Box<dyn Fold> {
            let out = vec![T::default(); region.volume() as usize];
            Box::new(Selection { points, region, out })
        }
        // Only the points of the region are kept.
        let mut own = region.clone();
        let points = Points { axes: self.axes.clone(), positions: self.of(region).map(<[u64]>::to_vec).collect() };
        own.start[0] = 0;
        Ok(with_dtype!(at.output.dtype, T => of::<T>(points, own)))
    }

    fn accumulator(&self, at: Types<'_>, region: &Region) -> u64 {
        let points = region.shape[0].saturating_mul(8 * self.axes.len() as u64);
        at.output_bytes(region).saturating_add(points)
    }

    fn fold_scratch(&self, at: Types<'_>, demanded: &[u64]) -> u64 {
        // A block in another order is copied; the points that lie in it; and a pair of numbers for each of its lines.
        let lines = demanded.first().copied().unwrap_or(0).saturating_mul(16);
        at.bytes(demanded)
            .saturating_add(self.count().saturating_mul(4))
            .saturating_add(lines.min(volume(&at.output.shape).saturating_mul(16)))
    }

    fn reduces(&self) -> Option<Vec<usize>> {
        None
    }

    fn runs(&self, _: &Window) -> Vec<usize> {
        Vec::new()
    }

    fn rounds(&self, _: Types<'_>, _: &[AxisChunks], _: usize) -> Option<Rounds> {
        None
    }
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;

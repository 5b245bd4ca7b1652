//! Elements at positions along an axis, which another array holds.
//!
//! The axis is read in windows, of which each gives the elements at the positions that lie in it. So it may be longer than memory.

use crate::block::from_vec;
use crate::kind::{Along, Evaluation, Foldable, KernelKind, Rounds, Traits, Types, Work};
use crate::reduce::strides;
use crate::{Block, BlockElement, Demand, DemandList, Fold, KernelError, Part, ViewAxis, Window, check, with_dtype};
use chunkwise_types::{AxisChunks, DType, Region, volume};
use smallvec::smallvec;

/// The kernel. Its inputs are the elements and the positions. Along other axes their lengths are equal, or that of the elements is 1.
pub(crate) struct Lookup {
    pub axis: usize,
}

/// A lookup under way.
struct Found<T> {
    axis: usize,
    /// Length of the axis.
    len: u64,
    region: Region,
    out: Vec<T>,
    /// Positions whose elements were found.
    count: u64,
    /// A position that is none.
    wrong: Option<i64>,
}

impl<T: BlockElement> Found<T> {
    fn take(&mut self, x: &Part, positions: &Part) -> Result<(), KernelError> {
        let wrong = || KernelError::Invalid("lookup was given a block of another dtype".into());
        let (of, at) = (x.block.contiguous(), positions.block.contiguous());
        let elements = T::unwrap(&of).and_then(|a| a.as_slice()).ok_or_else(wrong)?;
        let at = i64::unwrap(&at).and_then(|a| a.as_slice()).ok_or_else(wrong)?;
        // An axis of one element stays where it is.
        let from: Vec<isize> =
            strides(&x.region.shape).into_iter().zip(&x.region.shape).map(|(s, &n)| if n == 1 { 0 } else { s }).collect();

        let (axis, (start, n)) = (self.axis, (x.region.start[self.axis] as i64, x.region.shape[self.axis] as i64));
        let (region, shape) = (&self.region, &positions.region.shape);
        let to = strides(&region.shape);
        let inside = |a: usize| (positions.region.start[a] - region.start[a]) as isize * to[a];
        let first: isize = (0..shape.len()).map(inside).sum();
        // Where the part of the input begins beside that of the positions.
        let ahead = |a: usize| if a == axis { 0 } else { (positions.region.start[a] as isize - x.region.start[a] as isize) * from[a] };
        let base: isize = (0..shape.len()).map(ahead).sum();

        let Some((&row, outer)) = shape.split_last() else { return Ok(()) };
        let last = shape.len() - 1;
        let (across, along) = (if last == axis { 0 } else { from[last] }, from[axis]);
        for line in 0..volume(outer) {
            let index = chunkwise_types::unravel(line, outer);
            let (mut source, mut target) = (base, first);
            for (a, &k) in index.iter().enumerate() {
                source += if a == axis { 0 } else { k as isize * from[a] };
                target += k as isize * to[a];
            }
            let out = &mut self.out[target as usize..target as usize + row as usize];
            let positions = &at[line as usize * row as usize..][..row as usize];
            for (j, (out, &position)) in out.iter_mut().zip(positions).enumerate() {
                let whole = if position < 0 { position.wrapping_add(self.len as i64) } else { position };
                let here = whole.wrapping_sub(start);
                if (0..n).contains(&here) {
                    *out = elements[(source + j as isize * across + here as isize * along) as usize];
                    self.count += 1;
                } else if whole < 0 || whole as u64 >= self.len {
                    self.wrong = Some(position);
                }
            }
        }
        Ok(())
    }
}

impl<T: BlockElement> Fold for Found<T> {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        let [x, positions] = parts else { return check::invalid("lookup takes elements and positions") };
        self.take(x, positions)
    }

    fn finish(self: Box<Self>) -> Result<Block, KernelError> {
        if let Some(position) = self.wrong {
            return check::invalid(format!("position {position} is out of bounds for axis {} of length {}", self.axis, self.len));
        }
        if self.count != self.region.volume() {
            return check::invalid(format!(
                "{} of {} positions lie in no window of axis {}",
                self.region.volume() - self.count,
                self.region.volume(),
                self.axis
            ));
        }
        Ok(T::wrap(from_vec(&self.region.shape, self.out)))
    }
}

impl KernelKind for Lookup {
    fn name(&self) -> &'static str {
        "lookup"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        let [x, positions] = at.inputs else { return check::invalid(format!("lookup has {} inputs", at.inputs.len())) };
        if positions.dtype != DType::Int64 {
            return Err(KernelError::DType { op: "lookup".into(), dtype: positions.dtype });
        }
        let fits = |(a, (n, m)): (usize, (&u64, &u64))| a == self.axis || n == m || *n == 1;
        if self.axis >= x.shape.len()
            || x.shape.len() != positions.shape.len()
            || !x.shape.iter().zip(&positions.shape).enumerate().all(fits)
        {
            return check::invalid("the elements and the positions of a lookup differ along other axes too");
        }
        check::shape(at.output, &positions.shape)?;
        check::dtype(at.output, x.dtype)
    }

    fn demand(&self, at: Types<'_>, region: &Region, window: Option<&Window>) -> DemandList {
        let mut of = region.clone();
        for a in (0..region.rank()).filter(|&a| at.inputs[0].shape[a] == 1) {
            (of.start[a], of.shape[a]) = (0, 1);
        }
        (of.start[self.axis], of.shape[self.axis]) = window.map_or((0, at.inputs[0].shape[self.axis]), |w| w[0]);
        smallvec![Demand { input: 0, region: of }, Demand { input: 1, region: region.clone() }]
    }

    fn traits(&self) -> Traits {
        Traits::PLAIN
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

impl Foldable for Lookup {
    fn indices(&self) -> Vec<Along> {
        vec![smallvec![(0, self.axis)]]
    }

    fn window(&self, at: Types<'_>, _: &Region) -> Window {
        vec![(0, at.inputs[0].shape[self.axis])]
    }

    fn start(&self, at: Types<'_>, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        fn of<T: BlockElement>(axis: usize, len: u64, region: &Region) -> Box<dyn Fold> {
            let out = vec![T::default(); region.volume() as usize];
            Box::new(Found { axis, len, region: region.clone(), out, count: 0, wrong: None })
        }
        Ok(with_dtype!(at.output.dtype, T => of::<T>(self.axis, at.inputs[0].shape[self.axis], region)))
    }

    fn accumulator(&self, at: Types<'_>, region: &Region) -> u64 {
        at.output_bytes(region)
    }

    fn fold_scratch(&self, at: Types<'_>, demanded: &[u64]) -> u64 {
        // Blocks in another order are copied.
        at.bytes(demanded)
    }

    fn reduces(&self) -> Option<Vec<usize>> {
        None
    }

    fn runs(&self, _: &Window) -> Vec<usize> {
        Vec::new()
    }

    fn rounds(&self, _: Types<'_>, _: &[AxisChunks], _: usize) -> Option<Rounds> {
        // A window finds what other windows do not: there is nothing to put together.
        None
    }
}

#[cfg(test)]
#[path = "lookup_tests.rs"]
mod tests;

//! The same elements in C order under another shape.
//!
//! The demand of a region is the smallest box of the input that holds its first to its last element in C order: exact where the
//! planner cuts along leading axes, and never more than the leading index range.

use crate::block::from_vec;
use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, KernelError, Part, ViewAxis, Window, check, with_block};
use chunkwise_types::{Region, ravel, unravel, volume};
use ndarray::{ArcArray, IxDyn};
use smallvec::smallvec;

/// Refuses outputs with another dtype or another number of elements.
pub(crate) fn check(inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
    let input = check::one(inputs)?;
    check::dtype(output, input.dtype)?;
    let (have, want) = (volume(&input.shape), volume(&output.shape));
    if have == want { Ok(()) } else { check::invalid(format!("{have} elements cannot take a shape of {want}")) }
}

pub(crate) fn demand(input: &[u64], output: &[u64], region: &Region) -> Region {
    let last: Vec<u64> = (0..region.rank()).map(|i| region.end(i) - 1).collect();
    let (lo, hi) = (unravel(ravel(&region.start, output), input), unravel(ravel(&last, output), input));
    let mut out = Region::full(input);
    for axis in 0..input.len() {
        (out.start[axis], out.shape[axis]) = (lo[axis], hi[axis] - lo[axis] + 1);
        if lo[axis] != hi[axis] {
            break;
        }
    }
    out
}

pub(crate) fn compute(input: &[u64], output: &[u64], region: &Region, part: &Part) -> Result<Block, KernelError> {
    fn go<T: BlockElement>(
        a: &ArcArray<T, IxDyn>,
        input: &[u64],
        output: &[u64],
        region: &Region,
        part: &Part,
    ) -> Result<Block, KernelError> {
        let flat = a.as_standard_layout();
        let source = flat.as_slice().ok_or_else(|| KernelError::Invalid("reshape: the block is not contiguous".into()))?;
        // The box is contiguous in the input's C order, so a position in it is a position in the whole less an offset.
        let base = ravel(&part.region.start, input);
        let rank = region.rank();
        let row = if rank == 0 { 1 } else { region.shape[rank - 1] as usize };
        let rows = region.volume() as usize / row.max(1);
        let mut data = Vec::with_capacity(region.volume() as usize);
        let outer: Vec<u64> = region.shape[..rank.saturating_sub(1)].to_vec();
        for r in 0..rows as u64 {
            let mut index = unravel(r, &outer);
            for (i, s) in index.iter_mut().zip(&region.start) {
                *i += s;
            }
            if rank > 0 {
                index.push(region.start[rank - 1]);
            }
            let at = (ravel(&index, output) - base) as usize;
            data.extend_from_slice(&source[at..at + row]);
        }
        Ok(T::wrap(from_vec(&region.shape, data)))
    }
    with_block!(&part.block, a => go(a, input, output, region, part))
}

/// The kernel.
pub(crate) struct Reshape;

impl KernelKind for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check(at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        smallvec![Demand { input: 0, region: demand(&at.inputs[0].shape, &at.output.shape, region) }]
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
        Evaluation::AtOnce(self)
    }
}

impl Compute for Reshape {
    fn compute(&self, at: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        compute(&at.inputs[0].shape, &at.output.shape, region, &parts[0])
    }

    fn scratch(&self, at: Types<'_>, _: &Region, demanded: &[u64]) -> u64 {
        at.bytes(demanded)
    }
}

#[cfg(test)]
mod tests {
    use crate::Kernel;
    use crate::check::tests::{check, ty};
    use chunkwise_types::DType::*;

    #[test]
    fn what_is_refused() {
        let x = [ty(Float64, &[4, 6])];
        for shape in [&[24][..], &[3, 8], &[1, 24, 1]] {
            assert!(check(&Kernel::Reshape, &x, Float64, shape).is_ok());
            assert!(check(&Kernel::Reshape, &x, Float32, shape).is_err());
        }
        assert!(check(&Kernel::Reshape, &x, Float64, &[23]).is_err() && check(&Kernel::Reshape, &x, Float64, &[]).is_err());
        assert!(check(&Kernel::Reshape, &[], Float64, &[]).is_err());
    }
}

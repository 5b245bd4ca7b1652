//! Inputs one after another along an axis.

use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::{ArrayType, Block, Demand, DemandList, KernelError, Part, ViewAxis, Window, check};
use chunkwise_types::{DType, Region};

/// Refuses inputs that do not make up the output.
pub(crate) fn check(axis: usize, inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
    let total = inputs.iter().try_fold(0u64, |sum, t| sum.checked_add(*t.shape.get(axis)?));
    let fits = inputs.iter().all(|t| {
        t.dtype == output.dtype
            && t.shape.len() == output.shape.len()
            && t.shape.iter().zip(&output.shape).enumerate().all(|(i, (a, b))| i == axis || a == b)
    });
    if !inputs.is_empty() && fits && total.is_some() && total.as_ref() == output.shape.get(axis) {
        Ok(())
    } else {
        check::invalid("the inputs do not make up the output")
    }
}

pub(crate) fn demand(inputs: &[ArrayType], axis: usize, region: &Region) -> DemandList {
    let mut out = DemandList::new();
    let mut offset = 0;
    let end = region.start[axis] + region.shape[axis];
    // There may be thousands of inputs, of which few are needed.
    for (input, t) in inputs.iter().enumerate() {
        let own = offset..offset + t.shape[axis];
        offset = own.end;
        if own.end <= region.start[axis] {
            continue;
        }
        if own.start >= end {
            break;
        }
        let mut whole = region.clone();
        whole.start[axis] = own.start;
        whole.shape[axis] = t.shape[axis];
        if let Some(mut part) = whole.intersect(region) {
            part.start[axis] -= own.start;
            out.push(Demand { input, region: part });
        }
    }
    out
}

pub(crate) fn compute(inputs: &[ArrayType], axis: usize, dtype: DType, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
    let mut out = Block::zeros(dtype, &region.shape);
    let mut offset = 0;
    for (demand, part) in demand(inputs, axis, region).iter().zip(parts) {
        debug_assert_eq!(demand.region, part.region);
        let mut place = Region::full(&part.region.shape);
        place.start[axis] = offset;
        offset += part.region.shape[axis];
        out.assign(&place, &part.block);
    }
    Ok(out)
}

/// The kernel.
pub(crate) struct Concat {
    pub axis: usize,
}

impl KernelKind for Concat {
    fn name(&self) -> &'static str {
        "concat"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check(self.axis, at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        demand(at.inputs, self.axis, region)
    }

    fn traits(&self) -> Traits {
        Traits { pieces: true, ..Traits::PLAIN }
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

impl Compute for Concat {
    fn compute(&self, at: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        compute(at.inputs, self.axis, at.output.dtype, region, parts)
    }

    fn scratch(&self, at: Types<'_>, region: &Region, _: &[u64]) -> u64 {
        at.output_bytes(region)
    }
}

#[cfg(test)]
mod tests {
    use crate::Kernel;
    use crate::check::tests::{check, ty};
    use chunkwise_types::DType::*;

    #[test]
    fn what_is_refused() {
        let (x, y) = (ty(Float64, &[4, 6]), ty(Float64, &[1, 6]));
        let both = [x.clone(), y];
        let concat = |axis| Kernel::Concat { axis };
        assert!(check(&concat(0), &both, Float64, &[5, 6]).is_ok() && check(&concat(0), &both[..1], Float64, &[4, 6]).is_ok());
        for (axis, shape) in [(0, &[6, 6][..]), (0, &[5, 7]), (1, &[5, 6]), (2, &[5, 6]), (0, &[5]), (usize::MAX, &[5, 6])] {
            assert!(check(&concat(axis), &both, Float64, shape).is_err(), "{axis} {shape:?}");
        }
        assert!(check(&concat(0), &both, Int8, &[5, 6]).is_err());
        assert!(check(&concat(0), &[], Float64, &[0, 6]).is_err());
        assert!(check(&concat(0), &[x, ty(Float32, &[1, 6])], Float64, &[5, 6]).is_err());
        let huge = ty(Int8, &[u64::MAX]);
        assert!(check(&concat(0), &[huge.clone(), huge], Int8, &[u64::MAX - 1]).is_err());
    }
}

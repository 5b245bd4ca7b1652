//! Axes permuted, inserted, dropped and broadcast, as views.

use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, KernelError, Part, Window, check, with_block};
use chunkwise_types::Region;
use ndarray::{ArcArray, Axis, IxDyn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::smallvec;

/// Where an output axis comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ViewAxis {
    /// An axis of the input; if that has length 1 it is broadcast to the length of the output's axis.
    In(usize),
    /// A new axis, broadcast to the length of the output's axis.
    New,
}

/// Refuses axes that are not the input's, and outputs that they do not make.
pub(crate) fn check(axes: &[ViewAxis], inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
    let input = check::one(inputs)?;
    check::dtype(output, input.dtype)?;
    if axes.len() != output.shape.len() {
        return check::invalid("one entry for each output axis is needed");
    }
    let mut used = vec![false; input.shape.len()];
    for (i, (axis, &len)) in axes.iter().zip(&output.shape).enumerate() {
        if let ViewAxis::In(a) = axis {
            match input.shape.get(*a) {
                Some(&n) if !used[*a] && (n == len || n == 1) => used[*a] = true,
                _ => return check::invalid(format!("output axis {i} cannot come from input axis {a}")),
            }
        }
    }
    if used.iter().zip(&input.shape).any(|(u, &n)| !u && n != 1) {
        return check::invalid("a dropped axis must have length 1");
    }
    Ok(())
}

pub(crate) fn demand(axes: &[ViewAxis], input: &[u64], region: &Region) -> Region {
    let mut out = Region::full(&vec![1; input.len()]);
    for (i, axis) in axes.iter().enumerate() {
        if let ViewAxis::In(a) = axis
            && input[*a] != 1
        {
            (out.start[*a], out.shape[*a]) = (region.start[i], region.shape[i]);
        }
    }
    out
}

pub(crate) fn compute(axes: &[ViewAxis], shape: &[u64], block: &Block) -> Result<Block, KernelError> {
    fn go<T: BlockElement>(a: &ArcArray<T, IxDyn>, axes: &[ViewAxis], shape: &[u64]) -> Result<Block, KernelError> {
        let used: Vec<usize> = axes.iter().filter_map(|x| if let ViewAxis::In(i) = x { Some(*i) } else { None }).collect();
        let mut v = a.clone();
        for axis in (0..a.ndim()).rev().filter(|i| !used.contains(i)) {
            v = v.index_axis_move(Axis(axis), 0);
        }
        let mut order: Vec<usize> = used.clone();
        order.sort_unstable();
        let positions: Vec<usize> = used.iter().map(|u| order.iter().position(|o| o == u).unwrap_or(0)).collect();
        let mut v = v.permuted_axes(IxDyn(&positions));
        for (i, axis) in axes.iter().enumerate() {
            if *axis == ViewAxis::New {
                v = v.insert_axis(Axis(i));
            }
        }
        let want: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        if v.shape() == want {
            return Ok(T::wrap(v));
        }
        // ndarray broadcasts only borrowed views, so a broadcast is the one view that copies; tiles keep it small.
        let b = v.broadcast(IxDyn(&want)).ok_or_else(|| KernelError::Invalid(format!("cannot broadcast {:?} to {want:?}", v.shape())))?;
        Ok(T::wrap(b.to_owned().into_shared()))
    }
    with_block!(block, a => go(a, axes, shape))
}

/// The kernel.
pub(crate) struct View<'a> {
    pub axes: &'a [ViewAxis],
}

impl KernelKind for View<'_> {
    fn name(&self) -> &'static str {
        "view"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check(self.axes, at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        smallvec![Demand { input: 0, region: demand(self.axes, &at.inputs[0].shape, region) }]
    }

    fn traits(&self) -> Traits {
        let from: Vec<usize> = self.axes.iter().filter_map(|a| if let ViewAxis::In(i) = a { Some(*i) } else { None }).collect();
        Traits { moves: true, turns: !from.is_sorted(), ..Traits::PLAIN }
    }

    fn work(&self, _: Types<'_>) -> Work {
        Work::NONE
    }

    fn view(&self) -> Option<&[ViewAxis]> {
        Some(self.axes)
    }

    fn blocks(&self, _: &Region) -> Option<u64> {
        None
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::AtOnce(self)
    }
}

impl Compute for View<'_> {
    fn compute(&self, _: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        compute(self.axes, &region.shape, &parts[0].block)
    }

    fn scratch(&self, _: Types<'_>, _: &Region, _: &[u64]) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;
    use crate::check::tests::{check, ty};
    use chunkwise_types::DType::*;

    #[test]
    fn what_is_refused() {
        use ViewAxis::{In, New};
        let x = [ty(Float64, &[4, 1, 6])];
        let view = |axes: &[ViewAxis]| Kernel::View { axes: axes.to_vec() };
        assert!(check(&view(&[In(2), New, In(0)]), &x, Float64, &[6, 2, 4]).is_ok());
        assert!(check(&view(&[In(0), In(1), In(2)]), &x, Float64, &[4, 9, 6]).is_ok());
        assert!(check(&view(&[In(2), New, In(0)]), &x, Int8, &[6, 2, 4]).unwrap_err().contains("float64"));
        for (axes, shape) in [
            (&[In(2), In(0)][..], &[6, 5][..]),
            (&[In(2), In(0)], &[6, 4, 1]),
            (&[In(2), In(3)], &[6, 4]),
            (&[In(0), In(0), In(2)], &[4, 4, 6]),
            (&[In(1), In(1), In(0), In(2)], &[1, 1, 4, 6]),
            (&[In(0)], &[4]),
        ] {
            assert!(check(&view(axes), &x, Float64, shape).is_err(), "{axes:?} {shape:?}");
        }
        assert!(check(&view(&[]), &[], Float64, &[]).is_err());
    }
}

//! Axes permuted, inserted, dropped and broadcast, as views.

use crate::{Block, BlockElement, KernelError, with_block};
use chunkwise_types::Region;
use ndarray::{ArcArray, Axis, IxDyn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an output axis comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ViewAxis {
    /// An axis of the input; if that has length 1 it is broadcast to the length of the output's axis.
    In(usize),
    /// A new axis, broadcast to the length of the output's axis.
    New,
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

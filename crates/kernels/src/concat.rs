//! Inputs one after another along an axis.

use crate::{ArrayType, Block, Demand, KernelError, Part};
use chunkwise_types::{DType, Region};

pub(crate) fn demand(inputs: &[ArrayType], axis: usize, region: &Region) -> Vec<Demand> {
    let mut out = Vec::new();
    let mut offset = 0;
    for (input, t) in inputs.iter().enumerate() {
        let mut own = Region { start: region.start.clone(), shape: region.shape.clone() };
        own.start[axis] = offset;
        own.shape[axis] = t.shape[axis];
        if let Some(mut part) = own.intersect(region) {
            part.start[axis] -= offset;
            out.push(Demand { input, region: part });
        }
        offset += t.shape[axis];
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

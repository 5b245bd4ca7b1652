//! The element-wise functions of the Python Array API standard 2025.12.

mod binary;
mod complex;
mod complex_limits;
mod find;
mod math;
mod numeric;
mod op;
mod operand;
mod program;

impl KernelKind for ElementOp {
    fn name(&self) -> &'static str {
        ElementOp::name(*self)
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check(*self, at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        (0..at.inputs.len()).map(|input| Demand { input, region: region.clone() }).collect()
    }

    fn traits(&self) -> Traits {
        Traits { map: Some(Map::Function(*self)), ..Traits::PLAIN }
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

impl Compute for ElementOp {
    fn compute(&self, at: Types<'_>, _: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        let blocks: Vec<&Block> = parts.iter().map(|p| &p.block).collect();
        compute(self, &blocks, at.output.dtype)
    }

    fn scratch(&self, at: Types<'_>, region: &Region, _: &[u64]) -> u64 {
        at.output_bytes(region)
    }
}

#[cfg(test)]
mod program_tests;
pub(crate) mod strip;
#[cfg(test)]
mod tests;
mod unary;

use find::find;
pub use op::ElementOp;
pub use operand::Operand;
pub(crate) use program::single;
pub use program::{Fused, FusedOp, Scratch};
use strip::Found;

use crate::kind::{Compute, Evaluation, KernelKind, Map, Traits, Types, Work};
use crate::{ArrayType, Block, Demand, DemandList, KernelError, Part, ViewAxis, Window, check};
use chunkwise_types::{DType, Region};
use ndarray::{ArcArray, IxDyn};

/// A typed array of any rank.
pub(crate) type Arr<T> = ArcArray<T, IxDyn>;

/// Refuses inputs that the function does not take as they are, and outputs that it does not make.
pub(crate) fn check(op: ElementOp, inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
    if inputs.len() != op.arity() {
        return check::invalid(format!("it needs {} inputs and has {}", op.arity(), inputs.len()));
    }
    let dtypes: Vec<DType> = inputs.iter().map(|t| t.dtype).collect();
    let (casts, made) = op.result_dtype(&dtypes)?;
    if casts != dtypes {
        return check::invalid(format!("{} takes {casts:?}, but its inputs are {dtypes:?}: cast them first", op.name()));
    }
    inputs.iter().try_for_each(|t| check::shape(output, &t.shape))?;
    check::dtype(output, made)
}

/// The function applied to blocks of equal shapes that have the dtypes of [`ElementOp::result_dtype`].
pub(crate) fn compute(op: &ElementOp, blocks: &[&Block], out: DType) -> Result<Block, KernelError> {
    if blocks.len() != op.arity() {
        return Err(KernelError::Invalid(format!("{} takes {} inputs, not {}", op.name(), op.arity(), blocks.len())));
    }
    if let Some(other) = blocks.iter().find(|b| b.shape() != blocks[0].shape()) {
        let text = format!("{}: the inputs have the shapes {:?} and {:?}", op.name(), blocks[0].shape(), other.shape());
        return Err(KernelError::Invalid(text));
    }
    let dtypes: Vec<DType> = blocks.iter().map(|b| b.dtype()).collect();
    if let (Some(Found::Same), [a]) = (find(*op, &dtypes), blocks)
        && a.dtype() == out
    {
        return Ok((*a).clone());
    }
    let one = FusedOp { function: Some(*op), inputs: (0..blocks.len()).collect(), dtype: out };
    program::single(&dtypes, one, blocks)
}

//! The conversion of blocks.

use crate::elementwise::{FusedOp, single};
use crate::kind::{Compute, Evaluation, KernelKind, Map, Traits, Types, Work};
use crate::{Block, Demand, DemandList, KernelError, Part, ViewAxis, Window, check};
use chunkwise_types::{DType, Region};

/// The block converted to a dtype, with the semantics of NumPy's `astype`.
///
/// Integers wrap; floats are truncated towards zero, saturating where NumPy leaves the result undefined (NaN gives 0);
/// complex numbers lose their imaginary part; everything but 0 is true. The same dtype shares the buffer.
///
/// ```
/// use chunkwise_kernels::{Block, cast};
/// use chunkwise_types::DType;
/// let block = Block::zeros(DType::Float64, &[2, 3]);
/// assert_eq!(cast(&block, DType::Int16).dtype(), DType::Int16);
/// ```
pub fn cast(block: &Block, to: DType) -> Block {
    if block.dtype() == to {
        return block.clone();
    }
    let op = FusedOp { function: None, inputs: vec![0], dtype: to };
    single(&[block.dtype()], op, &[block]).unwrap_or_else(|e| {
        debug_assert!(false, "every dtype converts to every other: {e}");
        Block::zeros(to, &block.shape())
    })
}

/// The kernel that converts to the dtype of its output.
pub(crate) struct Cast;

impl KernelKind for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check::shape(at.output, &check::one(at.inputs)?.shape)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        (0..at.inputs.len()).map(|input| Demand { input, region: region.clone() }).collect()
    }

    fn traits(&self) -> Traits {
        Traits { map: Some(Map::Cast), ..Traits::PLAIN }
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

impl Compute for Cast {
    fn compute(&self, at: Types<'_>, _: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        Ok(cast(&parts[0].block, at.output.dtype))
    }

    fn scratch(&self, at: Types<'_>, region: &Region, _: &[u64]) -> u64 {
        at.output_bytes(region)
    }
}

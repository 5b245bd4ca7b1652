//! The loop of a function.

use super::op::ElementOp;
use super::strip::{self, Found};
use super::{binary, unary};
use chunkwise_types::DType;

/// The strip function of inputs of these dtypes; `None` for dtypes that [`ElementOp::result_dtype`] would not have asked for.
pub(crate) fn find(op: ElementOp, inputs: &[DType]) -> Option<Found> {
    match *inputs {
        [a] => unary::find(op, a),
        [a, b] => binary::find(op, a, b),
        [DType::Bool, a, b] if op == ElementOp::Where && a == b => Some(Found::Run(selection(a)?, a)),
        _ => None,
    }
}

/// The choice between elements of a dtype, of which only the width matters.
fn selection(dtype: DType) -> Option<strip::StripFn> {
    Some(match dtype {
        DType::Bool => strip::select::<bool>,
        DType::Int8 | DType::UInt8 => strip::select::<u8>,
        DType::Int16 | DType::UInt16 => strip::select::<u16>,
        DType::Int32 | DType::UInt32 | DType::Float32 => strip::select::<u32>,
        DType::Int64 | DType::UInt64 | DType::Float64 => strip::select::<u64>,
        DType::Complex64 => strip::select::<num_complex::Complex32>,
        DType::Complex128 => strip::select::<num_complex::Complex64>,
        _ => return None,
    })
}

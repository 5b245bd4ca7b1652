//! The loop of a function.

use super::op::ElementOp;
use super::strip::{self, Found};
use super::{binary, unary};
use crate::with_dtype;
use chunkwise_types::DType;

/// The strip function of inputs of these dtypes; `None` for dtypes that [`ElementOp::result_dtype`] would not have asked for.
pub(crate) fn find(op: ElementOp, inputs: &[DType]) -> Option<Found> {
    match *inputs {
        [a] => unary::find(op, a),
        [a, b] => binary::find(op, a, b),
        [DType::Bool, a, b] if op == ElementOp::Where && a == b => Some(with_dtype!(a, T => Found::Run(strip::select::<T>, a))),
        _ => None,
    }
}

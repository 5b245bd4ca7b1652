//! What can go wrong inside a kernel.

use chunkwise_types::DType;

/// A kernel was given something that it does not accept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KernelError {
    /// The dtype is not one that the operation is defined for.
    #[error("{op} is not defined for {dtype}")]
    DType {
        /// The operation.
        op: String,
        /// The dtype.
        dtype: DType,
    },
    /// The number of inputs, a shape or a parameter is wrong.
    #[error("{0}")]
    Invalid(String),
}

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
    /// A function of a user failed, returned something else than the plan expects, or is not there.
    #[error("the function {function} at block {block:?}: {detail}")]
    Function {
        /// Its name and version.
        function: String,
        /// The number of the block on each axis.
        block: Vec<u64>,
        /// What is wrong.
        detail: String,
    },
    /// The number of inputs, a shape or a parameter is wrong.
    #[error("{0}")]
    Invalid(String),
}

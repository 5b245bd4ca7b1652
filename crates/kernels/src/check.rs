//! What the checks of the kernels share. A kernel's own check lies beside the kernel; [`crate::Node::check`] calls it.

use crate::{ArrayType, KernelError};
use chunkwise_types::DType;

/// Refuses for a reason.
pub(crate) fn invalid<T>(text: impl Into<String>) -> Result<T, KernelError> {
    Err(KernelError::Invalid(text.into()))
}

/// The only input.
pub(crate) fn one(inputs: &[ArrayType]) -> Result<&ArrayType, KernelError> {
    match inputs {
        [input] => Ok(input),
        _ => invalid(format!("it needs 1 inputs and has {}", inputs.len())),
    }
}

/// Refuses an output of another dtype than the kernel makes.
pub(crate) fn dtype(output: &ArrayType, made: DType) -> Result<(), KernelError> {
    if output.dtype == made { Ok(()) } else { invalid(format!("its type is {}, but it makes {made}", output.dtype)) }
}

/// Refuses an output of another shape than the kernel makes.
pub(crate) fn shape(output: &ArrayType, made: &[u64]) -> Result<(), KernelError> {
    if output.shape == made { Ok(()) } else { invalid(format!("its shape is {:?}, but it makes {made:?}", output.shape)) }
}

/// What the tests of the checks share.
#[cfg(test)]
pub(crate) mod tests {
    use crate::{ArrayType, Kernel, Node};
    use chunkwise_types::DType;

    /// A type.
    pub(crate) fn ty(dtype: DType, shape: &[u64]) -> ArrayType {
        ArrayType::new(dtype, shape.to_vec())
    }

    /// Whether a kernel accepts an output of this type, and why not.
    pub(crate) fn check(kernel: &Kernel, inputs: &[ArrayType], dtype: DType, shape: &[u64]) -> Result<(), String> {
        Node { kernel, inputs, output: &ty(dtype, shape) }.check().map_err(|e| e.to_string())
    }
}

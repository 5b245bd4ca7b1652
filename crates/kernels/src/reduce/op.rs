//! The reductions, and what is to be known of each: a new one is an entry in each list of this file, and its accumulator in `reducers.rs`.

use crate::KernelError;
use chunkwise_types::{DType, DTypeKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Count, mean and sum of squared deviations.
const MOMENTS: u64 = 3;

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReduceOp {
    /// Sum; integers wrap, floats are summed in `float64` with compensation.
    Sum,
    /// Product; integers wrap.
    Prod,
    /// Least element; NaN if there is one.
    Min,
    /// Greatest element; NaN if there is one.
    Max,
    /// True if any element is not zero.
    Any,
    /// True if no element is zero.
    All,
    /// The number of elements that are not zero.
    CountNonzero,
    /// C-order position, over the reduced axes, of the first least element (or the first NaN).
    ArgMin,
    /// C-order position, over the reduced axes, of the first greatest element (or the first NaN).
    ArgMax,
    /// Count, mean and sum of squared deviations, on a new last axis of length 3.
    Moments {
        /// Leave NaN out.
        skip_nan: bool,
    },
    /// The union of moments: the input has them on its last axis.
    MergeMoments,
    /// Mean of floats; NaN for no elements. A tree of means is no mean, so this is for groups.
    Mean {
        /// Leave NaN out.
        skip_nan: bool,
    },
}

impl ReduceOp {
    /// The name, as in plans.
    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::Any => "any",
            ReduceOp::All => "all",
            ReduceOp::CountNonzero => "count_nonzero",
            ReduceOp::ArgMin => "arg_min",
            ReduceOp::ArgMax => "arg_max",
            ReduceOp::Moments { .. } => "moments",
            ReduceOp::MergeMoments => "merge_moments",
            ReduceOp::Mean { .. } => "mean",
        }
    }

    /// The dtype of the result on elements of `input`.
    pub fn result_dtype(self, input: DType) -> Result<DType, KernelError> {
        let refused = || KernelError::DType { op: self.name().into(), dtype: input };
        let complex = input.kind() == DTypeKind::Complex;
        match self {
            ReduceOp::Sum | ReduceOp::Prod => Ok(match input.kind() {
                DTypeKind::Bool | DTypeKind::Signed => DType::Int64,
                DTypeKind::Unsigned => DType::UInt64,
                _ => input,
            }),
            ReduceOp::Any | ReduceOp::All => Ok(DType::Bool),
            ReduceOp::CountNonzero => Ok(DType::Int64),
            ReduceOp::MergeMoments if input == DType::Float64 => Ok(DType::Float64),
            ReduceOp::MergeMoments => Err(refused()),
            ReduceOp::Mean { .. } => Ok(input.to_inexact()),
            _ if complex => Err(refused()),
            ReduceOp::Min | ReduceOp::Max => Ok(input),
            ReduceOp::ArgMin | ReduceOp::ArgMax => Ok(DType::Int64),
            ReduceOp::Moments { .. } => Ok(DType::Float64),
        }
    }

    /// True if its result may be stored as `output`.
    ///
    /// It is the dtype of [`ReduceOp::result_dtype`], but sums and products have some freedom: those of floats and of complex numbers may be
    /// stored in either precision, because the partial results of a tree keep the wider one, and those of integers in the dtype of the
    /// input, where they wrap as every step of the sum would have wrapped.
    pub(crate) fn stores(self, input: DType, output: DType) -> Result<bool, KernelError> {
        let result = self.result_dtype(input)?;
        let free = matches!(self, ReduceOp::Sum | ReduceOp::Prod);
        let precision = input.is_inexact() && output.kind() == input.kind();
        Ok(output == result || (free && (precision || (input.is_integer() && output == input))))
    }

    /// The same reduction of elements of this dtype, without leaving NaN out where there is none.
    pub(crate) fn on(self, input: DType) -> ReduceOp {
        match self {
            ReduceOp::Mean { .. } if !input.is_inexact() => ReduceOp::Mean { skip_nan: false },
            ReduceOp::Moments { .. } if !input.is_inexact() => ReduceOp::Moments { skip_nan: false },
            other => other,
        }
    }

    /// Bytes that a fold keeps for each element of its output, for elements of `input`.
    pub fn state_bytes(self, input: DType) -> u64 {
        let complex = input.kind() == DTypeKind::Complex;
        match self {
            ReduceOp::Sum => match input {
                DType::Float64 | DType::Complex64 => 16,
                DType::Complex128 => 32,
                _ => 8,
            },
            // A sum and a count.
            ReduceOp::Mean { .. } => 8 + ReduceOp::Sum.state_bytes(input),
            ReduceOp::Prod => 8 << u32::from(complex),
            // A value and whether there was one.
            ReduceOp::Min | ReduceOp::Max => 2 * input.size(),
            ReduceOp::Any | ReduceOp::All => 1,
            ReduceOp::CountNonzero => 8,
            ReduceOp::ArgMin | ReduceOp::ArgMax => 16,
            // Three numbers for three elements.
            ReduceOp::Moments { .. } | ReduceOp::MergeMoments => 8,
        }
    }

    /// The length of the last axis that the result has besides those of the input, if it has one.
    pub fn parts(self) -> Option<u64> {
        match self {
            ReduceOp::Moments { .. } | ReduceOp::MergeMoments => Some(MOMENTS),
            ReduceOp::Sum
            | ReduceOp::Prod
            | ReduceOp::Min
            | ReduceOp::Max
            | ReduceOp::Any
            | ReduceOp::All
            | ReduceOp::CountNonzero
            | ReduceOp::ArgMin
            | ReduceOp::ArgMax
            | ReduceOp::Mean { .. } => None,
        }
    }

    /// True if it puts such results together: the input has the last axis too, which is no axis to be reduced.
    pub(crate) fn takes_parts(self) -> bool {
        matches!(self, ReduceOp::MergeMoments)
    }

    /// What puts results of parts of the elements together; none if that cannot be done.
    pub(crate) fn merge(self) -> Option<ReduceOp> {
        match self {
            ReduceOp::Sum | ReduceOp::CountNonzero => Some(ReduceOp::Sum),
            ReduceOp::Prod | ReduceOp::Min | ReduceOp::Max | ReduceOp::Any | ReduceOp::All | ReduceOp::MergeMoments => Some(self),
            ReduceOp::Moments { .. } => Some(ReduceOp::MergeMoments),
            // Positions without the elements, and means without their counts, say too little.
            ReduceOp::ArgMin | ReduceOp::ArgMax | ReduceOp::Mean { .. } => None,
        }
    }

    /// The dtype of results of parts of the elements, for a result of this dtype: sums keep what they have until the end.
    pub(crate) fn partial_dtype(self, result: DType) -> DType {
        match (self, result) {
            (ReduceOp::Sum | ReduceOp::Prod, DType::Float32) => DType::Float64,
            (ReduceOp::Sum | ReduceOp::Prod, DType::Complex64) => DType::Complex128,
            (_, same) => same,
        }
    }

    /// True if there must be elements: of none there is no least one.
    pub(crate) fn needs_elements(self) -> bool {
        matches!(self, ReduceOp::Min | ReduceOp::Max | ReduceOp::ArgMin | ReduceOp::ArgMax)
    }

    /// True if it can be taken of groups.
    pub(crate) fn of_groups(self) -> bool {
        !matches!(self, ReduceOp::ArgMin | ReduceOp::ArgMax | ReduceOp::MergeMoments)
    }

    /// True if it can be taken along axes.
    pub(crate) fn of_axes(self) -> bool {
        !matches!(self, ReduceOp::Mean { .. })
    }
}

/// Runs `$body` with `$T` the element type of a real dtype; complex is an error of `$op`.
macro_rules! with_real {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::Complex64 | DType::Complex128 => Err(KernelError::DType { op: $op.name().into(), dtype: $dtype }),
            DType::Bool => {
                type $T = bool;
                $body
            }
            DType::Int8 => {
                type $T = i8;
                $body
            }
            DType::Int16 => {
                type $T = i16;
                $body
            }
            DType::Int32 => {
                type $T = i32;
                $body
            }
            DType::Int64 => {
                type $T = i64;
                $body
            }
            DType::UInt8 => {
                type $T = u8;
                $body
            }
            DType::UInt16 => {
                type $T = u16;
                $body
            }
            DType::UInt32 => {
                type $T = u32;
                $body
            }
            DType::UInt64 => {
                type $T = u64;
                $body
            }
            DType::Float32 => {
                type $T = f32;
                $body
            }
            DType::Float64 => {
                type $T = f64;
                $body
            }
            other => Err(KernelError::DType { op: $op.name().into(), dtype: other }),
        }
    };
}
pub(crate) use with_real;

/// Runs `$body` with `$T` the element type of a dtype of floats or complex numbers.
macro_rules! with_inexact {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::Float32 => {
                type $T = f32;
                $body
            }
            DType::Complex64 => {
                type $T = num_complex::Complex32;
                $body
            }
            DType::Complex128 => {
                type $T = num_complex::Complex64;
                $body
            }
            _ => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_inexact;

/// Runs `$body` with `$R` the reducer of the elements of a dtype, for reductions whose accumulators are the same along axes and in groups;
/// `$other` for the rest.
macro_rules! with_reducer {
    ($op:expr, $dtype:expr, $R:ident => $body:expr, $other:expr) => {
        match $op {
            ReduceOp::Sum => with_reducer!(@any $dtype, Sum, $R => $body),
            ReduceOp::Prod => with_reducer!(@any $dtype, Prod, $R => $body),
            ReduceOp::Any => with_reducer!(@any $dtype, Truth[false], $R => $body),
            ReduceOp::All => with_reducer!(@any $dtype, Truth[true], $R => $body),
            ReduceOp::CountNonzero => with_reducer!(@any $dtype, Count, $R => $body),
            ReduceOp::Min => with_reducer!(@real $op, $dtype, Extreme[false], $R => $body),
            ReduceOp::Max => with_reducer!(@real $op, $dtype, Extreme[true], $R => $body),
            ReduceOp::Moments { skip_nan: false } => with_reducer!(@real $op, $dtype, Moments[false], $R => $body),
            // Of floats alone: see `ReduceOp::on`.
            ReduceOp::Moments { skip_nan: true } => match $dtype {
                DType::Float32 => {
                    type $R = $crate::reduce::Moments<f32, true>;
                    $body
                }
                _ => {
                    type $R = $crate::reduce::Moments<f64, true>;
                    $body
                }
            },
            ReduceOp::ArgMin | ReduceOp::ArgMax | ReduceOp::Mean { .. } | ReduceOp::MergeMoments => $other,
        }
    };
    (@any $dtype:expr, $reducer:ident $([$flag:literal])?, $R:ident => $body:expr) => {
        $crate::with_dtype!($dtype, T => {
            type $R = $crate::reduce::$reducer<T $(, $flag)?>;
            $body
        })
    };
    (@real $op:expr, $dtype:expr, $reducer:ident $([$flag:literal])?, $R:ident => $body:expr) => {
        $crate::reduce::with_real!($op, $dtype, T => {
            type $R = $crate::reduce::$reducer<T $(, $flag)?>;
            $body
        })
    };
}
pub(crate) use with_reducer;

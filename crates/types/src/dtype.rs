//! Data types and the type-promotion table of the Python Array API standard 2025.12.

use serde::{Deserialize, Serialize};

/// The element type of an array.
///
/// ```
/// use chunkwise_types::DType;
/// assert_eq!(DType::Int32.promote(DType::Float32), Some(DType::Float64));
/// assert_eq!(DType::Int32.promote(DType::UInt32), Some(DType::Int64));
/// assert_eq!("float32".parse(), Ok(DType::Float32));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum DType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Complex64,
    Complex128,
}

/// The families that decide which operations accept a dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum DTypeKind {
    Bool,
    Signed,
    Unsigned,
    Float,
    Complex,
}

impl DType {
    /// Every dtype, in the order of the standard.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::UInt8,
        DType::UInt16,
        DType::UInt32,
        DType::UInt64,
        DType::Float32,
        DType::Float64,
        DType::Complex64,
        DType::Complex128,
    ];

    /// Bytes per element.
    pub const fn size(self) -> u64 {
        match self {
            DType::Bool | DType::Int8 | DType::UInt8 => 1,
            DType::Int16 | DType::UInt16 => 2,
            DType::Int32 | DType::UInt32 | DType::Float32 => 4,
            DType::Int64 | DType::UInt64 | DType::Float64 | DType::Complex64 => 8,
            DType::Complex128 => 16,
        }
    }

    /// The family of the dtype.
    pub const fn kind(self) -> DTypeKind {
        match self {
            DType::Bool => DTypeKind::Bool,
            DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => DTypeKind::Signed,
            DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => DTypeKind::Unsigned,
            DType::Float32 | DType::Float64 => DTypeKind::Float,
            DType::Complex64 | DType::Complex128 => DTypeKind::Complex,
        }
    }

    /// True for the signed and unsigned integers.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), DTypeKind::Signed | DTypeKind::Unsigned)
    }

    /// The smallest and the largest value of an integer dtype.
    ///
    /// ```
    /// use chunkwise_types::DType;
    /// assert_eq!(DType::Int8.integer_range(), Some((-128, 127)));
    /// assert_eq!(DType::UInt64.integer_range(), Some((0, u64::MAX.into())));
    /// assert_eq!(DType::Float32.integer_range(), None);
    /// ```
    pub const fn integer_range(self) -> Option<(i128, i128)> {
        let bits = 8 * self.size();
        match self.kind() {
            DTypeKind::Signed => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            DTypeKind::Unsigned => Some((0, (1 << bits) - 1)),
            _ => None,
        }
    }

    /// True for real floating-point and complex dtypes.
    pub const fn is_inexact(self) -> bool {
        matches!(self.kind(), DTypeKind::Float | DTypeKind::Complex)
    }

    /// The name used by NumPy, Zarr v3 and the Array API standard.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::Int8 => "int8",
            DType::Int16 => "int16",
            DType::Int32 => "int32",
            DType::Int64 => "int64",
            DType::UInt8 => "uint8",
            DType::UInt16 => "uint16",
            DType::UInt32 => "uint32",
            DType::UInt64 => "uint64",
            DType::Float32 => "float32",
            DType::Float64 => "float64",
            DType::Complex64 => "complex64",
            DType::Complex128 => "complex128",
        }
    }

    /// The dtype of the real and imaginary parts. For a real dtype, it is the dtype itself.
    pub const fn real(self) -> DType {
        match self {
            DType::Complex64 => DType::Float32,
            DType::Complex128 => DType::Float64,
            other => other,
        }
    }

    /// The complex dtype with this precision (`float32` → `complex64`), `None` for bool and integers.
    pub const fn complex(self) -> Option<DType> {
        match self {
            DType::Float32 | DType::Complex64 => Some(DType::Complex64),
            DType::Float64 | DType::Complex128 => Some(DType::Complex128),
            _ => None,
        }
    }

    /// The dtype of the result of two array operands.
    ///
    /// Within a kind it is the table of the Array API standard; across kinds, which the standard leaves undefined, it
    /// is NumPy 2's (`int32 + float32 → float64`). Bool with a numeric dtype gives the numeric dtype. `None` is
    /// never returned for the present dtypes but keeps room for dtypes that do not promote (strings, dates).
    pub fn promote(self, other: DType) -> Option<DType> {
        use DTypeKind::*;
        let (low, high) = if self.kind() <= other.kind() { (self, other) } else { (other, self) };
        Some(match (low.kind(), high.kind()) {
            (Bool, _) => high,
            (a, b) if a == b => {
                if low.size() >= high.size() {
                    low
                } else {
                    high
                }
            }
            (Signed, Unsigned) => {
                if high.size() < low.size() {
                    low
                } else {
                    match high {
                        DType::UInt8 => DType::Int16,
                        DType::UInt16 => DType::Int32,
                        DType::UInt32 => DType::Int64,
                        _ => DType::Float64,
                    }
                }
            }
            (Signed | Unsigned, Float) => {
                if low.size() <= 2 {
                    high
                } else {
                    DType::Float64
                }
            }
            (Signed | Unsigned, Complex) => {
                if low.size() <= 2 {
                    high
                } else {
                    DType::Complex128
                }
            }
            (Float, Complex) => {
                if low == DType::Float64 {
                    DType::Complex128
                } else {
                    high
                }
            }
            _ => return None,
        })
    }

    /// The dtype in which functions of real numbers, such as `sqrt`, are computed: NumPy's choice for integers.
    pub const fn to_inexact(self) -> DType {
        match self {
            DType::Float32 | DType::Float64 | DType::Complex64 | DType::Complex128 => self,
            // NumPy would take float16 for 8-bit and float32 for 16-bit integers; the standard leaves it open,
            // and a default of float64 never loses digits.
            _ => DType::Float64,
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for DType {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        DType::ALL.into_iter().find(|d| d.name() == s).ok_or_else(|| {
            let names: Vec<_> = DType::ALL.iter().map(|d| d.name()).collect();
            format!("unknown dtype '{s}'; the dtypes are {}", names.join(", "))
        })
    }
}

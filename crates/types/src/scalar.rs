//! A single value of any dtype, as it appears in plans and expressions.

use crate::{DType, DTypeKind};
use num_complex::Complex64;
use serde::{Deserialize, Serialize};

/// A Python-like scalar: it has a kind but no width, and takes the dtype of the array that it meets.
///
/// ```
/// use chunkwise_types::{DType, Scalar};
/// assert_eq!(Scalar::Int(2).dtype_with(DType::Float32), DType::Float32);
/// assert_eq!(Scalar::Float(2.5).dtype_with(DType::Int8), DType::Float64);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// An integer of any integer dtype.
    Int(i128),
    /// A floating-point number; NaN and infinities are written as strings.
    Float(
        #[serde(with = "float_text")]
        #[schemars(with = "serde_float::FloatText")]
        f64,
    ),
    /// A complex number.
    Complex(
        #[serde(with = "float_text")]
        #[schemars(with = "serde_float::FloatText")]
        f64,
        #[serde(with = "float_text")]
        #[schemars(with = "serde_float::FloatText")]
        f64,
    ),
}

mod serde_float {
    /// A number, or one of "NaN", "Infinity", "-Infinity".
    #[derive(schemars::JsonSchema)]
    #[schemars(untagged)]
    #[allow(dead_code)]
    pub enum FloatText {
        Number(f64),
        Text(String),
    }
}

/// JSON has no NaN or infinity; Zarr's spelling is used.
mod float_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(v: &f64, s: S) -> Result<S::Ok, S::Error> {
        if v.is_nan() {
            s.serialize_str("NaN")
        } else if v.is_infinite() {
            s.serialize_str(if *v > 0.0 { "Infinity" } else { "-Infinity" })
        } else {
            s.serialize_f64(*v)
        }
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(f64),
        Text(String),
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        match Either::deserialize(d)? {
            Either::Number(v) => Ok(v),
            Either::Text(t) => match t.as_str() {
                "NaN" => Ok(f64::NAN),
                "Infinity" => Ok(f64::INFINITY),
                "-Infinity" => Ok(f64::NEG_INFINITY),
                _ => Err(D::Error::custom(format!("'{t}' is not a number"))),
            },
        }
    }
}

/// Prints the scalar as it would be written in an expression.
impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn float(v: f64) -> String {
            if v.is_nan() { "nan".into() } else { format!("{v:?}") }
        }
        match *self {
            Scalar::Bool(true) => f.write_str("True"),
            Scalar::Bool(false) => f.write_str("False"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::Float(v) => f.write_str(&float(v)),
            Scalar::Complex(re, im) if im.is_sign_negative() => write!(f, "({} - {}j)", float(re), float(-im)),
            Scalar::Complex(re, im) => write!(f, "({} + {}j)", float(re), float(im)),
        }
    }
}

impl Scalar {
    /// The dtype of the scalar if it meets no array: bool, int64, float64 or complex128.
    pub fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(v) if v > i64::MAX as i128 => DType::UInt64,
            Scalar::Int(_) => DType::Int64,
            Scalar::Float(_) => DType::Float64,
            Scalar::Complex(..) => DType::Complex128,
        }
    }

    /// The dtype of the result if this scalar meets an array of dtype `array` (NumPy 2's rule for Python scalars).
    pub fn dtype_with(self, array: DType) -> DType {
        let kind = match self {
            Scalar::Bool(_) => DTypeKind::Bool,
            Scalar::Int(_) => DTypeKind::Signed,
            Scalar::Float(_) => DTypeKind::Float,
            Scalar::Complex(..) => DTypeKind::Complex,
        };
        match (kind, array.kind()) {
            (DTypeKind::Bool, _) => array,
            (DTypeKind::Signed, DTypeKind::Bool) => DType::Int64,
            (DTypeKind::Signed, _) => array,
            (DTypeKind::Float, DTypeKind::Float | DTypeKind::Complex) => array,
            (DTypeKind::Float, _) => DType::Float64,
            (_, DTypeKind::Float | DTypeKind::Complex) => array.complex().unwrap_or(DType::Complex128),
            _ => DType::Complex128,
        }
    }

    /// True if an array of this dtype can hold the value.
    ///
    /// Integers hold whole numbers in their range, and bool holds 0 and 1, however they are written. Floats hold every real number,
    /// rounded. A number beyond their range becomes infinite, as in NumPy. Only complex dtypes hold complex numbers.
    ///
    /// ```
    /// use chunkwise_types::{DType, Scalar};
    /// assert!(Scalar::Int(255).fits(DType::UInt8) && !Scalar::Int(256).fits(DType::UInt8));
    /// assert!(Scalar::Float(2.0).fits(DType::Int16) && !Scalar::Float(2.5).fits(DType::Int16));
    /// assert!(!Scalar::Float(f64::NAN).fits(DType::Int64));
    /// ```
    pub fn fits(self, dtype: DType) -> bool {
        let whole = match self {
            Scalar::Complex(..) => return dtype.kind() == DTypeKind::Complex,
            Scalar::Float(v) if dtype.is_inexact() || (v.fract() == 0.0 && v.abs() < 1e38) => self.as_i128(),
            Scalar::Float(_) => return false,
            Scalar::Bool(_) | Scalar::Int(_) => self.as_i128(),
        };
        match dtype.integer_range() {
            Some((least, greatest)) => (least..=greatest).contains(&whole),
            None => dtype != DType::Bool || whole == 0 || whole == 1,
        }
    }

    /// The value as a complex number.
    pub fn as_complex(self) -> Complex64 {
        match self {
            Scalar::Complex(re, im) => Complex64::new(re, im),
            other => Complex64::new(other.as_f64(), 0.0),
        }
    }

    /// The value as a float; the real part of a complex number.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(v) => f64::from(u8::from(v)),
            Scalar::Int(v) => v as f64,
            Scalar::Float(v) | Scalar::Complex(v, _) => v,
        }
    }

    /// The value as an integer, truncated towards zero.
    pub fn as_i128(self) -> i128 {
        match self {
            Scalar::Bool(v) => i128::from(v),
            Scalar::Int(v) => v,
            Scalar::Float(v) | Scalar::Complex(v, _) => v as i128,
        }
    }

    /// True unless the value is zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(v) => v,
            Scalar::Int(v) => v != 0,
            Scalar::Float(v) => v != 0.0,
            Scalar::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }
}

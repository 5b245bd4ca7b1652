//! The functions, and the dtypes that they take and make.

use crate::KernelError;
use chunkwise_types::{DType, DTypeKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! element_ops {
    ($($variant:ident $name:literal $arity:literal $doc:literal;)*) => {
        /// An element-wise function, named as in the Array API standard.
        ///
        /// ```
        /// use chunkwise_kernels::ElementOp;
        /// assert_eq!(ElementOp::BitwiseLeftShift.name(), "bitwise_left_shift");
        /// assert_eq!(ElementOp::Where.arity(), 3);
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ElementOp {
            $(#[doc = $doc] $variant,)*
        }

        impl ElementOp {
            /// Every function, in alphabetical order but for `where`, which is the last.
            pub const ALL: &'static [ElementOp] = &[$(ElementOp::$variant),*];

            /// The name in the standard, which is also the serialised form.
            pub const fn name(self) -> &'static str {
                match self { $(ElementOp::$variant => $name),* }
            }

            /// The number of inputs.
            pub const fn arity(self) -> usize {
                match self { $(ElementOp::$variant => $arity),* }
            }
        }
    };
}

element_ops! {
    Abs "abs" 1 "Magnitude; real for complex input.";
    Acos "acos" 1 "Inverse cosine.";
    Acosh "acosh" 1 "Inverse hyperbolic cosine.";
    Add "add" 2 "Sum; logical or for bool.";
    Asin "asin" 1 "Inverse sine.";
    Asinh "asinh" 1 "Inverse hyperbolic sine.";
    Atan "atan" 1 "Inverse tangent.";
    Atan2 "atan2" 2 "Angle of the point (second, first).";
    Atanh "atanh" 1 "Inverse hyperbolic tangent.";
    BitwiseAnd "bitwise_and" 2 "Bits set in both.";
    BitwiseLeftShift "bitwise_left_shift" 2 "Bits moved left; 0 for shifts outside the width.";
    BitwiseInvert "bitwise_invert" 1 "Every bit inverted.";
    BitwiseOr "bitwise_or" 2 "Bits set in either.";
    BitwiseRightShift "bitwise_right_shift" 2 "Bits moved right, arithmetically; 0 or -1 for shifts outside the width.";
    BitwiseXor "bitwise_xor" 2 "Bits set in one of both.";
    Ceil "ceil" 1 "Rounded up.";
    Conj "conj" 1 "Complex conjugate.";
    Copysign "copysign" 2 "The first's magnitude with the second's sign.";
    Cos "cos" 1 "Cosine.";
    Cosh "cosh" 1 "Hyperbolic cosine.";
    Divide "divide" 2 "True quotient.";
    Equal "equal" 2 "True where equal.";
    Exp "exp" 1 "Exponential.";
    Expm1 "expm1" 1 "`exp(x) - 1`, exact for small `x`.";
    Floor "floor" 1 "Rounded down.";
    FloorDivide "floor_divide" 2 "Quotient rounded down; 0 for an integer divided by 0.";
    Greater "greater" 2 "True where the first is greater.";
    GreaterEqual "greater_equal" 2 "True where the first is greater or equal.";
    Hypot "hypot" 2 "Root of the sum of the squares.";
    Imag "imag" 1 "Imaginary part; 0 for real input.";
    Isfinite "isfinite" 1 "True where neither infinite nor NaN.";
    Isinf "isinf" 1 "True where infinite.";
    Isnan "isnan" 1 "True where NaN.";
    Less "less" 2 "True where the first is less.";
    LessEqual "less_equal" 2 "True where the first is less or equal.";
    Log "log" 1 "Natural logarithm.";
    Log1p "log1p" 1 "`log(1 + x)`, exact for small `x`.";
    Log2 "log2" 1 "Logarithm to base 2.";
    Log10 "log10" 1 "Logarithm to base 10.";
    Logaddexp "logaddexp" 2 "`log(exp(a) + exp(b))` without overflow.";
    LogicalAnd "logical_and" 2 "True where both are not zero.";
    LogicalNot "logical_not" 1 "True where zero.";
    LogicalOr "logical_or" 2 "True where either is not zero.";
    LogicalXor "logical_xor" 2 "True where one of both is not zero.";
    Maximum "maximum" 2 "The greater; NaN if either is NaN.";
    Minimum "minimum" 2 "The lesser; NaN if either is NaN.";
    Multiply "multiply" 2 "Product; logical and for bool.";
    Negative "negative" 1 "The negated value.";
    Nextafter "nextafter" 2 "The next number from the first towards the second.";
    NotEqual "not_equal" 2 "True where different.";
    Positive "positive" 1 "The value itself.";
    Pow "pow" 2 "The first to the power of the second.";
    Real "real" 1 "Real part.";
    Reciprocal "reciprocal" 1 "`1 / x`.";
    Remainder "remainder" 2 "Remainder of `floor_divide`, with the sign of the divisor.";
    Round "round" 1 "Rounded to the nearest integer, halves to even.";
    Sign "sign" 1 "-1, 0 or 1; `z / abs(z)` for complex input.";
    Signbit "signbit" 1 "True where the sign bit is set.";
    Sin "sin" 1 "Sine.";
    Sinh "sinh" 1 "Hyperbolic sine.";
    Sqrt "sqrt" 1 "Square root.";
    Square "square" 1 "`x * x`.";
    Subtract "subtract" 2 "Difference.";
    Tan "tan" 1 "Tangent.";
    Tanh "tanh" 1 "Hyperbolic tangent.";
    Trunc "trunc" 1 "Rounded towards zero.";
    Where "where" 3 "The second where the first is true, else the third.";
}

impl ElementOp {
    /// The dtypes that the inputs must be cast to first, and the dtype of the output.
    ///
    /// Promotion is [`DType::promote`]; where the standard leaves a dtype open, NumPy 2 decides.
    ///
    /// ```
    /// use chunkwise_kernels::ElementOp;
    /// use chunkwise_types::DType::*;
    /// let (casts, out) = ElementOp::Divide.result_dtype(&[Int32, Float32])?;
    /// assert_eq!((casts, out), (vec![Float64, Float64], Float64));
    /// assert!(ElementOp::Maximum.result_dtype(&[Complex64, Float32]).is_err());
    /// # Ok::<(), chunkwise_kernels::KernelError>(())
    /// ```
    pub fn result_dtype(self, inputs: &[DType]) -> Result<(Vec<DType>, DType), KernelError> {
        use ElementOp::*;
        let n = self.arity();
        if inputs.len() != n {
            return Err(KernelError::Invalid(format!("{} takes {n} inputs, not {}", self.name(), inputs.len())));
        }
        let refuse = |dtype: DType| KernelError::DType { op: self.name().into(), dtype };
        let values = if self == Where { &inputs[1..] } else { inputs };
        let mut common = values[0];
        for &d in &values[1..] {
            common = common.promote(d).ok_or_else(|| refuse(d))?;
        }
        let kind = common.kind();
        let (bool_in, complex) = (kind == DTypeKind::Bool, kind == DTypeKind::Complex);
        let refuse_if = |bad: bool| if bad { Err(refuse(common)) } else { Ok(()) };
        let same = |d: DType| Ok((vec![d; n], d));
        match self {
            Where => Ok((vec![DType::Bool, common, common], common)),
            LogicalAnd | LogicalNot | LogicalOr | LogicalXor => same(DType::Bool),
            Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual => {
                refuse_if(complex && !matches!(self, Equal | NotEqual))?;
                // Signed and unsigned 64-bit integers compare exactly, without the detour over float64.
                let mixed = inputs.iter().all(|d| d.is_integer()) && common == DType::Float64;
                let wide = |d: &DType| if d.kind() == DTypeKind::Signed { DType::Int64 } else { DType::UInt64 };
                let casts = if mixed { inputs.iter().map(wide).collect() } else { vec![common; 2] };
                Ok((casts, DType::Bool))
            }
            Isfinite | Isinf | Isnan => Ok((vec![common], DType::Bool)),
            Signbit => {
                refuse_if(complex)?;
                Ok((vec![common.to_inexact()], DType::Bool))
            }
            Abs | Real | Imag => Ok((vec![common], common.real())),
            Conj | Negative | Positive | Sign | Subtract => {
                refuse_if(bool_in)?;
                same(common)
            }
            Add | Multiply | Round => same(common),
            Ceil | Floor | Trunc | Maximum | Minimum => {
                refuse_if(complex)?;
                same(common)
            }
            BitwiseAnd | BitwiseOr | BitwiseXor | BitwiseInvert => {
                refuse_if(common.is_inexact())?;
                same(common)
            }
            BitwiseLeftShift | BitwiseRightShift => {
                refuse_if(common.is_inexact())?;
                same(if bool_in { DType::Int8 } else { common })
            }
            FloorDivide | Remainder => {
                refuse_if(complex)?;
                same(if bool_in { DType::Int8 } else { common })
            }
            Pow | Square => same(if bool_in { DType::Int8 } else { common }),
            Atan2 | Copysign | Hypot | Logaddexp | Nextafter => {
                refuse_if(complex)?;
                same(common.to_inexact())
            }
            Acos | Acosh | Asin | Asinh | Atan | Atanh | Cos | Cosh | Divide | Exp | Expm1 | Log | Log1p | Log2 | Log10 | Reciprocal
            | Sin | Sinh | Sqrt | Tan | Tanh => same(common.to_inexact()),
        }
    }
}

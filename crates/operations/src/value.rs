//! What an argument of an operation may be, and why a call is refused.

use crate::elementwise::Operand;
use crate::{Array, Dataset, OpError, create};
use chunkwise_types::Scalar;

/// What an expression is worth: an argument of an operation, or its result.
#[derive(Debug, Clone)]
pub enum Value {
    /// A lazy array.
    Array(Array),
    /// A number.
    Scalar(Scalar),
    /// A text.
    Str(String),
    /// A list or tuple.
    List(Vec<Value>),
    /// The arrays of a group, by name.
    Dataset(Dataset),
    /// `start:stop:step`, each part a value or `None`.
    Slice(Box<[Value; 3]>),
    /// `None`.
    None,
}

/// Which argument of a call is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// That at a position, from 0.
    Position(usize),
    /// That of a name.
    Name(String),
}

/// Why a call is refused. Who reads the call from a text can point at the argument.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// The operation that was called.
    pub operation: String,
    /// What is wrong.
    pub message: String,
    /// What may help.
    pub help: Option<String>,
    /// The argument that is wrong; the whole call without one.
    pub argument: Option<Place>,
}

impl CallError {
    /// A call that is wrong as a whole.
    pub fn new(message: impl Into<String>) -> CallError {
        CallError { operation: String::new(), message: message.into(), help: None, argument: None }
    }

    /// With advice.
    pub fn with_help(self, help: impl Into<String>) -> CallError {
        CallError { help: Some(help.into()), ..self }
    }

    /// As the error of an operation, for callers who have no text to point at.
    pub fn into_op_error(self) -> OpError {
        let help = self.help.map(|h| format!("; {h}")).unwrap_or_default();
        OpError::new(self.operation, format!("{}{help}", self.message))
    }

    /// About an argument, unless it is about another one already.
    pub(crate) fn about(self, place: Option<&Place>) -> CallError {
        CallError { argument: self.argument.or_else(|| place.cloned()), ..self }
    }
}

impl From<OpError> for CallError {
    fn from(e: OpError) -> CallError {
        let message = e.to_string();
        CallError { operation: e.operation, ..CallError::new(message) }
    }
}

/// Refuses a call.
pub(crate) fn fail<T>(message: impl Into<String>) -> Result<T, CallError> {
    Err(CallError::new(message))
}

impl Value {
    /// True if it is such an array, or has one in it.
    pub fn any_array(&self, test: &dyn Fn(&Array) -> bool) -> bool {
        match self {
            Value::Array(array) => test(array),
            Value::List(values) => values.iter().any(|v| v.any_array(test)),
            _ => false,
        }
    }

    /// What it is, for messages.
    pub fn shown(&self) -> String {
        match self {
            Value::Array(_) => "an array".into(),
            Value::Scalar(s) => s.to_string(),
            Value::Str(t) => format!("the text \"{t}\""),
            Value::List(_) => "a list".into(),
            Value::Dataset(_) => "a group of arrays".into(),
            Value::Slice(_) => "a slice".into(),
            Value::None => "None".into(),
        }
    }

    /// True of `None`.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// As an operand of an element-wise function.
    ///
    /// # Errors
    /// If it is neither an array nor a number.
    pub fn operand(&self) -> Result<Operand, CallError> {
        match self {
            Value::Array(a) => Ok(Operand::Array(a.clone())),
            Value::Scalar(s) => Ok(Operand::Scalar(*s)),
            _ => fail(format!("an array or a number is needed here, not {}", self.shown())),
        }
    }

    /// As an array; a number becomes one without axes.
    ///
    /// # Errors
    /// If it is neither.
    pub fn array(&self) -> Result<Array, CallError> {
        match self {
            Value::Array(a) => Ok(a.clone()),
            Value::Scalar(s) => Ok(create::full(&[], *s, s.default_dtype(), None)?),
            _ => fail(format!("an array is needed here, not {}", self.shown())),
        }
    }

    /// As an integer.
    ///
    /// # Errors
    /// If it is none.
    pub fn int(&self) -> Result<i64, CallError> {
        match self {
            Value::Scalar(Scalar::Int(v)) => i64::try_from(*v).or_else(|_| fail("the number is too large")),
            _ => fail(format!("an integer is needed here, not {}", self.shown())),
        }
    }

    /// As a list of integers; one is a list of one.
    ///
    /// # Errors
    /// If one of them is none.
    pub fn ints(&self) -> Result<Vec<i64>, CallError> {
        match self {
            Value::List(items) => items.iter().map(Value::int).collect(),
            other => Ok(vec![other.int()?]),
        }
    }

    /// The array, if it is one.
    pub(crate) fn as_array(&self) -> Option<&Array> {
        if let Value::Array(a) = self { Some(a) } else { None }
    }

    /// The texts that it is or has.
    pub(crate) fn texts(&self) -> Vec<&str> {
        match self {
            Value::Str(t) => vec![t],
            Value::List(items) => items.iter().flat_map(Value::texts).collect(),
            _ => Vec::new(),
        }
    }
}

macro_rules! values {
    ($($t:ty: $make:expr;)*) => {$(
        impl From<$t> for Value {
            fn from(v: $t) -> Value {
                ($make)(v)
            }
        }
    )*};
}
values! {
    Array: Value::Array;
    &Array: |a: &Array| Value::Array(a.clone());
    Scalar: Value::Scalar;
    bool: |v| Value::Scalar(Scalar::Bool(v));
    i32: |v| Value::Scalar(Scalar::Int(i128::from(v)));
    i64: |v| Value::Scalar(Scalar::Int(i128::from(v)));
    u64: |v| Value::Scalar(Scalar::Int(i128::from(v)));
    f32: |v| Value::Scalar(Scalar::Float(f64::from(v)));
    f64: |v| Value::Scalar(Scalar::Float(v));
    &str: |t: &str| Value::Str(t.into());
    String: Value::Str;
    std::ops::Range<i64>: |r: std::ops::Range<i64>| Value::Slice(Box::new([r.start.into(), r.end.into(), Value::None]));
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Value {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value> + Clone> From<&[T]> for Value {
    fn from(list: &[T]) -> Value {
        list.to_vec().into()
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(list: [T; N]) -> Value {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

//! The evaluated arguments of a call, taken by position or by name.

use super::signature;
use crate::build::{BuildError, Value, fail, no_dim};
use chunkwise_ops::Array;
use chunkwise_types::{DType, Scalar};
use std::ops::Range;

/// Evaluated arguments.
pub(super) struct Args<'a> {
    pub function: &'a str,
    pub values: Vec<Value>,
    pub named: Vec<(String, Value)>,
    pub span: &'a Range<usize>,
}

impl Args<'_> {
    /// The argument at a position or under a name. One that is given by position leaves its name to a dimension: `isel(t, x=0)`.
    pub fn get(&mut self, position: usize, name: &str) -> Option<Value> {
        if let Some(v) = self.values.get_mut(position).filter(|v| !matches!(v, Value::None)) {
            return Some(std::mem::replace(v, Value::None));
        }
        if let Some(i) = self.named.iter().position(|(n, _)| n == name) {
            return Some(self.named.remove(i).1);
        }
        self.values.get_mut(position).map(|v| std::mem::replace(v, Value::None))
    }

    pub fn need(&mut self, position: usize, name: &str) -> Result<Value, BuildError> {
        match self.get(position, name) {
            Some(v) => Ok(v),
            None => fail(self.span, format!("{}() needs its argument '{name}'", self.function)),
        }
    }

    pub fn array(&mut self, position: usize, name: &str) -> Result<Array, BuildError> {
        self.need(position, name)?.array(self.span)
    }

    pub fn int(&mut self, position: usize, name: &str, default: i64) -> Result<i64, BuildError> {
        self.get(position, name).map_or(Ok(default), |v| v.int(self.span))
    }

    pub fn float(&mut self, position: usize, name: &str, default: f64) -> Result<f64, BuildError> {
        match self.get(position, name) {
            None => Ok(default),
            Some(Value::Scalar(s @ (Scalar::Int(_) | Scalar::Float(_)))) if !s.as_f64().is_nan() => Ok(s.as_f64()),
            Some(_) => fail(self.span, format!("'{name}' must be a real number")),
        }
    }

    pub fn flag(&mut self, position: usize, name: &str, default: bool) -> Result<bool, BuildError> {
        match self.get(position, name) {
            None => Ok(default),
            Some(Value::Scalar(Scalar::Bool(b))) => Ok(b),
            Some(_) => fail(self.span, format!("'{name}' must be True or False")),
        }
    }

    pub fn text(&mut self, position: usize, name: &str) -> Result<Option<String>, BuildError> {
        match self.get(position, name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Str(s)) => Ok(Some(s)),
            Some(_) => fail(self.span, format!("'{name}' must be a text in quotes")),
        }
    }

    pub fn dtype(&mut self, position: usize) -> Result<Option<DType>, BuildError> {
        match self.text(position, "dtype")? {
            None => Ok(None),
            Some(t) => t.parse().map(Some).or_else(|e: String| fail(self.span, e)),
        }
    }

    pub fn lengths(&self, v: &Value, name: &str) -> Result<Vec<u64>, BuildError> {
        let list = v.ints(self.span)?;
        list.into_iter().map(|n| u64::try_from(n).or_else(|_| fail(self.span, format!("'{name}' must not be negative")))).collect()
    }

    pub fn chunks(&mut self) -> Result<Option<Vec<u64>>, BuildError> {
        let v = self.get(usize::MAX, "chunks");
        v.map(|v| self.lengths(&v, "chunks")).transpose()
    }

    pub fn axis_of(&self, a: &Array, v: &Value, extra: usize) -> Result<usize, BuildError> {
        if let Value::Str(name) = v {
            return match a.axis_named(name) {
                Some(axis) => Ok(axis),
                None => fail(self.span, no_dim(a, name)),
            };
        }
        let (i, n) = (v.int(self.span)?, (a.rank() + extra) as i64);
        if i < -n || i >= n {
            return fail(self.span, format!("axis {i} is out of bounds for an array with {} axes", a.rank()));
        }
        Ok(i.rem_euclid(n) as usize)
    }

    /// One axis, by `dim=` or `axis=` or a position.
    pub fn axis(&mut self, a: &Array, position: usize, default: i64, extra: usize) -> Result<usize, BuildError> {
        let v = self.get(usize::MAX, "dim").or_else(|| self.get(position, "axis")).unwrap_or(Value::Scalar(Scalar::Int(default.into())));
        self.axis_of(a, &v, extra)
    }

    /// Any number of axes; `None` is all of them.
    pub fn axes(&mut self, a: &Array, position: usize) -> Result<Option<Vec<usize>>, BuildError> {
        match self.get(usize::MAX, "dim").or_else(|| self.get(position, "axis")) {
            None | Some(Value::None) => Ok(None),
            Some(Value::List(items)) => items.iter().map(|v| self.axis_of(a, v, 0)).collect::<Result<Vec<_>, _>>().map(Some),
            Some(v) => Ok(Some(vec![self.axis_of(a, &v, 0)?])),
        }
    }

    /// Refuses arguments that nothing took.
    pub fn done(&self) -> Result<(), BuildError> {
        if self.values.iter().any(|v| !matches!(v, Value::None)) {
            let message =
                format!("{}() was given an argument too many or twice; it is called as {}", self.function, signature(self.function));
            return fail(self.span, message);
        }
        match self.named.first() {
            Some((n, _)) => {
                fail(self.span, format!("{}() has no argument '{n}'; it is called as {}", self.function, signature(self.function)))
            }
            None => Ok(()),
        }
    }
}

//! The evaluated arguments of a call, taken by position or by name.

use super::table::{parameters, signature};
use crate::Expr;
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
    /// The arguments as they are written.
    pub written: (&'a [Expr], &'a [(String, Expr)]),
    /// Where what was taken last is.
    pub here: Range<usize>,
}

impl<'a> Args<'a> {
    pub fn new(
        function: &'a str,
        values: Vec<Value>,
        named: Vec<(String, Value)>,
        span: &'a Range<usize>,
        written: (&'a [Expr], &'a [(String, Expr)]),
    ) -> Args<'a> {
        Args { function, values, named, span, written, here: span.clone() }
    }

    /// From here on messages are about the whole call.
    pub fn whole(&mut self) {
        self.here = self.span.clone();
    }

    fn taken(&mut self, position: Option<usize>, name: &str) {
        let (args, kwargs) = self.written;
        let place = position.and_then(|p| args.get(p)).or_else(|| kwargs.iter().find(|(n, _)| n == name).map(|(_, e)| e));
        self.here = place.map_or_else(|| self.span.clone(), |e| e.span.clone());
    }

    /// The argument at a position or under a name. One that is given by position leaves its name to a dimension: `isel(t, x=0)`.
    pub fn get(&mut self, position: usize, name: &str) -> Option<Value> {
        let here = self.values.get(position).is_some_and(|v| !matches!(v, Value::None));
        if !here && let Some(i) = self.named.iter().position(|(n, _)| n == name) {
            self.taken(None, name);
            return Some(self.named.remove(i).1);
        }
        self.taken(Some(position), "");
        self.values.get_mut(position).map(|v| std::mem::replace(v, Value::None))
    }

    /// The argument, of which `None` means that it was left out.
    pub fn optional(&mut self, position: usize, name: &str) -> Option<Value> {
        self.get(position, name).filter(|v| !matches!(v, Value::None))
    }

    pub fn need(&mut self, position: usize, name: &str) -> Result<Value, BuildError> {
        match self.get(position, name) {
            Some(v) => Ok(v),
            None => {
                fail(self.span, format!("{}() needs its argument '{name}'; it is called as {}", self.function, signature(self.function)))
            }
        }
    }

    pub fn array(&mut self, position: usize, name: &str) -> Result<Array, BuildError> {
        let v = self.need(position, name)?;
        v.array(&self.here)
    }

    pub fn int(&mut self, position: usize, name: &str, default: i64) -> Result<i64, BuildError> {
        let v = self.get(position, name);
        v.map_or(Ok(default), |v| v.int(&self.here))
    }

    pub fn float(&mut self, position: usize, name: &str, default: f64) -> Result<f64, BuildError> {
        match self.get(position, name) {
            None => Ok(default),
            Some(Value::Scalar(s @ (Scalar::Int(_) | Scalar::Float(_)))) if !s.as_f64().is_nan() => Ok(s.as_f64()),
            Some(v) => fail(&self.here, format!("'{name}' must be a real number, not {}", v.shown())),
        }
    }

    /// What is taken off the number of elements: `correction`, or `ddof` as in NumPy and xarray.
    pub fn correction(&mut self, position: usize) -> Result<f64, BuildError> {
        let name = if self.named.iter().any(|(n, _)| n == "ddof") { "ddof" } else { "correction" };
        self.float(position, name, 0.0)
    }

    pub fn flag(&mut self, position: usize, name: &str, default: bool) -> Result<bool, BuildError> {
        match self.get(position, name) {
            None => Ok(default),
            Some(Value::Scalar(Scalar::Bool(b))) => Ok(b),
            Some(v) => {
                let several = name == "keepdims" && matches!(v, Value::Str(_) | Value::Scalar(_));
                let help = several.then(|| "several dimensions are a list: dim=[\"lat\", \"lon\"]".into());
                let message = format!("'{name}' must be True or False, not {}", v.shown());
                Err(BuildError { message, span: self.here.clone(), help })
            }
        }
    }

    pub fn text(&mut self, position: usize, name: &str) -> Result<Option<String>, BuildError> {
        match self.get(position, name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Str(s)) => Ok(Some(s)),
            Some(v) => fail(&self.here, format!("'{name}' must be a text in quotes, not {}", v.shown())),
        }
    }

    pub fn dtype(&mut self, position: usize) -> Result<Option<DType>, BuildError> {
        match self.text(position, "dtype")? {
            None => Ok(None),
            Some(t) => t.parse().map(Some).map_err(|message: String| {
                let help = match t.as_str() {
                    "float" | "double" => Some("float64"),
                    "int" | "integer" | "long" => Some("int64"),
                    "float16" | "half" => Some("float32"),
                    "complex" => Some("complex128"),
                    "boolean" => Some("bool"),
                    _ => None,
                };
                let help = help.map(String::from).or_else(|| crate::suggest(&t, DType::ALL.iter().map(|d| d.name())));
                let help = help.map(|h| format!("did you mean \"{h}\"?"));
                BuildError { message, span: self.here.clone(), help }
            }),
        }
    }

    pub fn lengths(&self, v: &Value, name: &str) -> Result<Vec<u64>, BuildError> {
        let list = v.ints(&self.here)?;
        list.into_iter().map(|n| u64::try_from(n).or_else(|_| fail(&self.here, format!("'{name}' must not be negative")))).collect()
    }

    pub fn chunks(&mut self, position: usize) -> Result<Option<Vec<u64>>, BuildError> {
        let v = self.optional(position, "chunks");
        v.map(|v| self.lengths(&v, "chunks")).transpose()
    }

    pub fn axis_of(&self, a: &Array, v: &Value, extra: usize) -> Result<usize, BuildError> {
        if let Value::Str(name) = v {
            return match a.axis_named(name) {
                Some(axis) => Ok(axis),
                None => fail(&self.here, no_dim(a, name)),
            };
        }
        let (i, n) = (v.int(&self.here)?, (a.rank() + extra) as i64);
        if i < -n || i >= n {
            return fail(&self.here, format!("axis {i} is out of bounds for an array with {} axes", a.rank()));
        }
        Ok(i.rem_euclid(n) as usize)
    }

    /// One axis, by `dim=` or `axis=` or a position.
    pub fn axis(&mut self, a: &Array, position: usize, default: i64, extra: usize) -> Result<usize, BuildError> {
        let v = self.get(usize::MAX, "dim").or_else(|| self.get(position, "axis")).unwrap_or(Value::Scalar(Scalar::Int(default.into())));
        self.axis_of(a, &v, extra)
    }

    /// Where a new axis is put, by `axis=`, and its name, by `dim=`; either may be the one that is given by position.
    pub fn new_axis(&mut self, a: &Array, position: usize) -> Result<(usize, Option<String>), BuildError> {
        let (mut axis, mut dim) = (0, None);
        for v in [self.get(position, "axis"), self.get(usize::MAX, "dim")].into_iter().flatten() {
            match v {
                Value::Str(_) if dim.is_some() => {
                    return fail(self.span, format!("{}() makes one new dimension, and has two names for it", self.function));
                }
                Value::Str(name) => dim = Some(name),
                Value::None => {}
                v => axis = self.axis_of(a, &v, 1)?,
            }
        }
        Ok((axis, dim))
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
        let (function, names) = (self.function, parameters(self.function));
        let called = signature(function);
        let twice = |name: &str| format!("{function}() was given its argument '{name}' twice; it is called as {called}");
        if let Some(i) = self.values.iter().position(|v| !matches!(v, Value::None)) {
            let message = match names.get(i).filter(|_| !super::takes_dims(function)) {
                Some(name) => twice(name),
                None => format!("{function}() was given too many arguments; it is called as {called}"),
            };
            return fail(self.span, message);
        }
        let Some((name, _)) = self.named.first() else { return Ok(()) };
        let other = match name.as_str() {
            "axis" => "dim",
            "dim" => "axis",
            _ => "",
        };
        if names.iter().any(|n| n == name || n == other) {
            return fail(self.span, twice(if names.contains(name) { name } else { other }));
        }
        let message = format!("{function}() has no argument '{name}'; it is called as {called}");
        let near = match name.as_str() {
            "axes" | "dims" | "dimension" | "dimensions" => names.iter().find(|n| *n == "dim" || *n == "axis").cloned(),
            _ => crate::suggest(name, names.iter().map(String::as_str)),
        };
        Err(BuildError { message, span: self.span.clone(), help: near.map(|n| format!("did you mean '{n}'?")) })
    }
}

//! A call of an operation: from values to a lazy array.

use super::arguments::Bound;
use super::{Kind, Operation, Parameter, attributes, no_dim, times};
use crate::align::Join;
use crate::elementwise::Operand;
use crate::lift::{check_dims, lift};
use crate::value::fail;
use crate::{Array, CallError, Place, Value, reduce, suggest};
use chunkwise_types::{DType, Scalar};

/// The arguments of a call as they are written.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    /// Those without a name.
    pub positional: Vec<Value>,
    /// Those with one.
    pub named: Vec<(String, Value)>,
}

impl Arguments {
    /// Arguments without names.
    pub fn of(values: impl IntoIterator<Item = Value>) -> Arguments {
        Arguments { positional: values.into_iter().collect(), named: Vec::new() }
    }

    /// With one more, which has a name.
    pub fn named(mut self, name: &str, value: impl Into<Value>) -> Arguments {
        self.named.push((name.into(), value.into()));
        self
    }
}

/// What an operation may know besides its arguments.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// The arrays that are read: where no other array says it, they say what time an index is.
    pub inputs: &'a [Array],
    /// What becomes of elements whose labels are not in every operand.
    pub join: Join,
}

/// The arguments of a call by parameter, of which none is a dataset.
pub struct Call<'a> {
    pub(super) operation: &'a Operation,
    pub(super) context: &'a Context<'a>,
    bound: &'a Bound,
}

impl Operation {
    /// Applies it. Of datasets it is applied to each variable.
    ///
    /// # Errors
    /// If the arguments are not what the parameters say, or the operation is not defined for them.
    pub fn call(&self, arguments: &Arguments, context: &Context<'_>) -> Result<Value, CallError> {
        self.apply(arguments, context).map_err(|e| CallError { operation: self.name.into(), ..e })
    }

    fn apply(&self, arguments: &Arguments, context: &Context<'_>) -> Result<Value, CallError> {
        if let Some(e) = self.mistake.and_then(|found| found(&arguments.positional)) {
            return Err(e);
        }
        let bound = self.bind(arguments)?;
        let all: Vec<Value> = bound.values().cloned().collect();
        let lifted = all.iter().any(|v| matches!(v, Value::Dataset(_)));
        if lifted {
            check_dims(&all, &self.dims_of(&bound), self.name)?;
        }
        lift(&all, &mut |values| {
            let mut bound = bound.with_values(values);
            if lifted
                && let Some(Value::Array(a)) = values.first()
                && !self.restrict(&mut bound, a)
            {
                return Ok(Value::Array(a.clone()));
            }
            let call = Call { operation: self, context, bound: &bound };
            times::check(&call)?;
            let carried = self.attributes.of(&call);
            Ok(Value::Array(attributes::give((self.build)(&call)?, carried)))
        })
    }
}

impl Call<'_> {
    /// The arguments that parameters of a kind were given.
    pub(super) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        let all = self.operation.parameters.iter().zip(&self.bound.given);
        all.filter(move |(p, _)| p.kind == kind).filter_map(|(_, g)| g.as_ref().map(|(v, _)| v))
    }

    /// Every value that was given.
    pub(super) fn values(&self) -> impl Iterator<Item = &Value> {
        self.bound.values()
    }

    fn find(&self, name: &str) -> Option<(&Parameter, Option<&(Value, Place)>)> {
        let k = self.operation.parameters.iter().position(|p| p.name == name)?;
        Some((&self.operation.parameters[k], self.bound.given[k].as_ref()))
    }

    /// The argument of a parameter, or its default, as `read` reads it, whose error is about this argument.
    pub(super) fn read<T>(
        &self,
        name: &str,
        kinds: &[Kind],
        read: impl FnOnce(&Value, &Parameter) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let Some((p, given)) = self.find(name).filter(|(p, _)| kinds.is_empty() || kinds.contains(&p.kind)) else {
            // An entry of the table that asks for what it does not declare; every entry is tested with its examples.
            return fail(format!("{}() has no argument '{name}' of this kind", self.operation.name));
        };
        match (given, p.default) {
            (Some((v, place)), _) => read(v, p).map_err(|e| e.about(Some(place))),
            (None, Some(default)) => read(&default.value(), p),
            (None, None) => read(&Value::None, p),
        }
    }

    /// True if a parameter was given something, be it `None`.
    pub(super) fn given(&self, name: &str) -> bool {
        self.find(name).is_some_and(|(_, given)| given.is_some())
    }

    /// The argument as it is; `None` if it was left out or is `None`.
    pub(super) fn optional(&self, name: &str) -> Result<Option<Value>, CallError> {
        self.read(name, &[], |v, _| Ok(Some(v.clone()).filter(|v| !v.is_none())))
    }

    pub(super) fn array(&self, name: &str) -> Result<Array, CallError> {
        self.read(name, &[Kind::Array], |v, _| v.array())
    }

    pub(super) fn arrays(&self, name: &str) -> Result<Vec<Array>, CallError> {
        self.read(name, &[Kind::Arrays], |v, _| match v {
            Value::List(items) if items.is_empty() => fail("at least one array is needed"),
            Value::List(items) => items.iter().map(Value::array).collect(),
            _ => fail(format!("{}() takes a list of arrays", self.operation.name)),
        })
    }

    pub(super) fn rest(&self) -> Result<Vec<Array>, CallError> {
        self.bound.rest.iter().map(|(v, place)| v.array().map_err(|e| e.about(Some(place)))).collect()
    }

    /// The operand, if it was given and is not `None`.
    pub(super) fn operand(&self, name: &str) -> Result<Option<Operand>, CallError> {
        self.read(name, &[Kind::Operand, Kind::Other], |v, _| if v.is_none() { Ok(None) } else { v.operand().map(Some) })
    }

    /// The number; `None` where that is the default.
    pub(super) fn number(&self, name: &str) -> Result<Option<Scalar>, CallError> {
        self.read(name, &[Kind::Number], |v, p| match v {
            Value::Scalar(s) => Ok(Some(*s)),
            Value::None if p.default == Some(super::ParameterDefault::None) => Ok(None),
            _ => fail(format!("'{name}' must be a number")),
        })
    }

    pub(super) fn int(&self, name: &str) -> Result<i64, CallError> {
        self.read(name, &[Kind::Int], |v, _| whole(v, name))
    }

    /// An integer that is not negative; `None` where that is the default.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, CallError> {
        self.read(name, &[Kind::Count], |v, p| match v {
            Value::None if p.default == Some(super::ParameterDefault::None) => Ok(None),
            v => u64::try_from(whole(v, name)?).map(Some).or_else(|_| fail(format!("'{name}' must not be negative"))),
        })
    }

    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>, CallError> {
        self.read(name, &[Kind::Ints], |v, _| wholes(v, name))
    }

    pub(super) fn lengths(&self, name: &str) -> Result<Vec<u64>, CallError> {
        self.read(name, &[Kind::Lengths], |v, p| lengths(v, p.name))
    }

    pub(super) fn chunks(&self) -> Result<Option<Vec<u64>>, CallError> {
        self.read("chunks", &[Kind::Chunks], |v, p| if v.is_none() { Ok(None) } else { lengths(v, p.name).map(Some) })
    }

    pub(super) fn real(&self, name: &str) -> Result<f64, CallError> {
        self.read(name, &[Kind::Real], |v, p| match v {
            Value::Scalar(s @ (Scalar::Int(_) | Scalar::Float(_))) if !s.as_f64().is_nan() => Ok(s.as_f64()),
            v => {
                // As the user calls it.
                let alias = p.alias.filter(|_| matches!(self.find(name), Some((_, Some((_, Place::Name(n))))) if n != name));
                fail(format!("'{}' must be a real number, not {}", alias.unwrap_or(name), v.shown()))
            }
        })
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, CallError> {
        self.read(name, &[Kind::Flag], |v, _| match v {
            Value::Scalar(Scalar::Bool(b)) => Ok(*b),
            v => {
                // A second dimension by position is the likely reason, where the flag follows the dimensions.
                let k = self.operation.parameters.iter().position(|p| p.name == name).unwrap_or(0);
                let after_dims = k > 0 && self.operation.parameters[k - 1].kind == Kind::Dims;
                let help = (after_dims && matches!(v, Value::Str(_) | Value::Scalar(_)))
                    .then(|| "several dimensions are a list: dim=[\"lat\", \"lon\"]".into());
                Err(CallError { help, ..CallError::new(format!("'{name}' must be True or False, not {}", v.shown())) })
            }
        })
    }

    /// Whether a reduction leaves NaN out: as is said, or as is usual for the array.
    pub(super) fn skips_nan(&self, x: &Array) -> Result<bool, CallError> {
        self.read("skipna", &[Kind::SkipNa], |v, p| match v {
            Value::None => Ok(reduce::skipna_default(x)),
            Value::Scalar(Scalar::Bool(skip)) => Ok(*skip),
            v => fail(format!("'{}' must be True, False or None, not {}", p.name, v.shown())),
        })
    }

    pub(super) fn text(&self, name: &str) -> Result<String, CallError> {
        self.read(name, &[Kind::Text], text)
    }

    /// One of the texts that the parameter has; its default for `None`. `None` where that is the default.
    pub(super) fn choice(&self, name: &str) -> Result<Option<&'static str>, CallError> {
        self.read(name, &[], |v, p| {
            let Kind::Choice(known) = p.kind else { return fail(format!("'{name}' is no choice")) };
            let wanted = match (v, p.default) {
                (Value::None, Some(super::ParameterDefault::Text(t))) => t.to_string(),
                (Value::None, _) => return Ok(None),
                _ => text(v, p)?,
            };
            let meant = p.synonyms.iter().find(|(s, _)| *s == wanted).map_or(wanted.as_str(), |(_, k)| k);
            match known.iter().find(|k| **k == meant) {
                Some(k) => Ok(Some(*k)),
                None => {
                    let list = match known {
                        [one] => format!("there is {one}"),
                        [one, two] => format!("there are {one} and {two}"),
                        more => format!("there are {}", more.join(", ")),
                    };
                    fail(format!("there is no {name} '{wanted}'; {list}"))
                }
            }
        })
    }

    pub(super) fn dtype(&self) -> Result<Option<DType>, CallError> {
        self.read("dtype", &[Kind::DType], |v, p| {
            let t = match (v, p.default) {
                (Value::None, Some(super::ParameterDefault::Text(t))) => t.to_string(),
                (Value::None, _) => return Ok(None),
                _ => text(v, p)?,
            };
            t.parse().map(Some).map_err(|message: String| {
                let help = match t.as_str() {
                    "float" | "double" => Some("float64"),
                    "int" | "integer" | "long" => Some("int64"),
                    "float16" | "half" => Some("float32"),
                    "complex" => Some("complex128"),
                    "boolean" => Some("bool"),
                    _ => None,
                };
                let help = help.map(String::from).or_else(|| suggest(&t, DType::ALL.iter().map(|d| d.name())));
                CallError { help: help.map(|h| format!("did you mean \"{h}\"?")), ..CallError::new(message) }
            })
        })
    }

    /// One axis of an array.
    pub(super) fn axis(&self, name: &str, a: &Array) -> Result<usize, CallError> {
        self.read(name, &[Kind::Axis], |v, _| axis_of(a, v, 0))
    }

    /// Some axes of an array; `None` is all of them.
    pub(super) fn axes(&self, name: &str, a: &Array) -> Result<Option<Vec<usize>>, CallError> {
        self.read(name, &[Kind::Dims], |v, _| match v {
            Value::None => Ok(None),
            Value::List(items) => items.iter().map(|v| axis_of(a, v, 0)).collect::<Result<Vec<_>, _>>().map(Some),
            v => Ok(Some(vec![axis_of(a, v, 0)?])),
        })
    }

    /// All axes in their new order; `None` if none is said.
    pub(super) fn order(&self, name: &str, a: &Array) -> Result<Option<Vec<usize>>, CallError> {
        self.read(name, &[Kind::Order], |v, p| match v {
            Value::None => Ok(None),
            Value::List(items) => items.iter().map(|v| axis_of(a, v, 0)).collect::<Result<Vec<_>, _>>().map(Some),
            _ => fail(format!("'{}' must be a list", p.name)),
        })
    }

    /// Where a new axis is put, and its name; either may be given in the place of the other.
    pub(super) fn new_axis(&self, a: &Array) -> Result<(usize, Option<String>), CallError> {
        let (mut axis, mut dim) = (0, None);
        for (name, kind) in [("axis", Kind::NewAxis), ("dim", Kind::NewDim)] {
            self.read(name, &[kind], |v, _| {
                match v {
                    Value::Str(_) if dim.is_some() => {
                        return fail(format!("{}() makes one new dimension, and has two names for it", self.operation.name));
                    }
                    Value::Str(name) => dim = Some(name.clone()),
                    Value::None => {}
                    v => axis = axis_of(a, v, 1)?,
                }
                Ok(())
            })?;
        }
        Ok((axis, dim))
    }

    /// Arguments that are named after dimensions, each with the axis that it is about.
    pub(super) fn by_axis<T>(
        &self,
        a: &Array,
        mut f: impl FnMut(usize, &str, &Value) -> Result<T, CallError>,
    ) -> Result<Vec<T>, CallError> {
        let all = self.bound.dimensions.iter();
        all.map(|(dim, v, place)| {
            let axis = axis_meant(a, dim)?;
            f(axis, dim, v).map_err(|e| e.about(Some(place)))
        })
        .collect()
    }

    /// Arguments that are named after dimensions.
    pub(super) fn dimensions(&self) -> &[(String, Value, Place)] {
        &self.bound.dimensions
    }
}

/// The integer that a parameter needs.
fn whole(v: &Value, name: &str) -> Result<i64, CallError> {
    match v {
        Value::Scalar(Scalar::Int(_)) => v.int(),
        _ => fail(format!("'{name}' must be an integer, not {}", v.shown())),
    }
}

/// The integers that a parameter needs; one is a list of one.
fn wholes(v: &Value, name: &str) -> Result<Vec<i64>, CallError> {
    match v {
        Value::List(items) => items.iter().map(|item| whole(item, name)).collect(),
        one => Ok(vec![whole(one, name)?]),
    }
}

fn text(v: &Value, p: &Parameter) -> Result<String, CallError> {
    match v {
        Value::Str(s) => Ok(s.clone()),
        v => fail(format!("'{}' must be a text in quotes, not {}", p.name, v.shown())),
    }
}

/// Lengths, none of them negative.
pub(super) fn lengths(v: &Value, name: &str) -> Result<Vec<u64>, CallError> {
    wholes(v, name)?.into_iter().map(|n| u64::try_from(n).or_else(|_| fail(format!("'{name}' must not be negative")))).collect()
}

/// The axis of a dimension's name.
pub(super) fn axis_named(a: &Array, dim: &str) -> Result<usize, CallError> {
    a.axis_named(dim).map_or_else(|| fail(no_dim(a, dim)), Ok)
}

/// The axis of a dimension that an argument is named after; a number is a place, which programs give where there are no names.
pub(super) fn axis_meant(a: &Array, dim: &str) -> Result<usize, CallError> {
    match dim.parse::<usize>() {
        Ok(place) if place < a.rank() && a.axis_named(dim).is_none() => Ok(place),
        _ => axis_named(a, dim),
    }
}

/// The axis that a name or a position means; there may be more axes than the array has.
pub(super) fn axis_of(a: &Array, v: &Value, extra: usize) -> Result<usize, CallError> {
    if let Value::Str(name) = v {
        return axis_named(a, name);
    }
    let (i, n) = (v.int()?, (a.rank() + extra) as i64);
    if i < -n || i >= n {
        return fail(format!("axis {i} is out of bounds for an array with {} axes", a.rank()));
    }
    Ok(i.rem_euclid(n) as usize)
}

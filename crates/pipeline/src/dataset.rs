//! Datasets in expressions: the arrays of a group under one name.
//!
//! A function of a dataset is the function of each of its variables. Reductions leave variables alone that have none of the dimensions,
//! as in xarray.

use crate::build::{BuildError, Value, at, fail};
use crate::{IndexItem, suggest};
use chunkwise_ops::{Array, Coord, Labels, OpError, create};
use chunkwise_types::Scalar;
use serde_json::{Map, Value as Json};
use std::ops::Range;
use std::sync::Arc;

/// The arrays of a group, in the order of their names, and its coordinates.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// Arrays that are no coordinates, by name.
    pub variables: Vec<(String, Array)>,
    /// Coordinates that arrays of it have, each once.
    pub coords: Vec<Arc<Coord>>,
    /// Variables that cannot be computed with, by name, and why.
    pub refused: Vec<(String, String)>,
    /// Attributes of the group, such as a title.
    pub attributes: Map<String, Json>,
}

impl Dataset {
    /// A variable or a coordinate by its name.
    pub(crate) fn variable(&self, name: &str, span: &Range<usize>) -> Result<Value, BuildError> {
        if let Some((_, a)) = self.variables.iter().find(|(n, _)| n == name) {
            return Ok(Value::Array(a.clone()));
        }
        if let Some((_, why)) = self.refused.iter().find(|(n, _)| n == name) {
            return fail(span, format!("'{name}' cannot be used: {why}"));
        }
        if let Some(c) = self.coords.iter().find(|c| c.name == name) {
            return of_coord(c, &self.coords).map(Value::Array).map_err(at(span));
        }
        let names: Vec<&str> = self.variables.iter().map(|(n, _)| n.as_str()).chain(self.coords.iter().map(|c| c.name.as_str())).collect();
        let help = suggest(name, names.iter().copied()).map(|s| format!("did you mean '{s}'?"));
        let message = format!("the dataset has no variable '{name}'; it has {}", names.join(", "));
        Err(BuildError { message, span: span.clone(), help })
    }
}

/// Applies a function of values to each variable, where some of the values are datasets: those of one name meet.
pub(crate) fn lift(
    values: &[Value],
    span: &Range<usize>,
    f: &mut dyn FnMut(&[Value]) -> Result<Value, BuildError>,
) -> Result<Value, BuildError> {
    let sets: Vec<&Dataset> = values.iter().filter_map(|v| if let Value::Dataset(d) = v { Some(d) } else { None }).collect();
    let Some(first) = sets.first() else { return f(values) };
    let common = |name: &str| sets.iter().all(|d| d.variables.iter().any(|(n, _)| n == name));
    let names: Vec<&String> = first.variables.iter().map(|(n, _)| n).filter(|n| common(n)).collect();
    if names.is_empty() {
        return fail(span, "the datasets have no variable in common");
    }
    let mut variables = Vec::new();
    for name in names {
        let of = |v: &Value| match v {
            Value::Dataset(d) => d.variables.iter().find(|(n, _)| n == name).map_or(Value::None, |(_, a)| Value::Array(a.clone())),
            other => other.clone(),
        };
        let args: Vec<Value> = values.iter().map(of).collect();
        match f(&args) {
            Ok(Value::Array(out)) => variables.push((name.clone(), out)),
            Ok(_) => return fail(span, format!("what was made of '{name}' is no array")),
            Err(e) => return Err(BuildError { message: format!("variable '{name}': {}", e.message), ..e }),
        }
    }
    // What is said of one group need not be true of what is made of several.
    let mut attributes = first.attributes.clone();
    attributes.retain(|k, v| sets.iter().all(|d| d.attributes.get(k) == Some(v)));
    Ok(Value::Dataset(Dataset { variables, attributes, ..(*first).clone() }))
}

/// Refuses dimensions that no variable of the datasets has: a function would leave all variables as they are.
pub(crate) fn check_dims(values: &[Value], dims: &[&str], function: &str, span: &Range<usize>) -> Result<(), BuildError> {
    let sets = || values.iter().filter_map(|v| if let Value::Dataset(d) = v { Some(d) } else { None });
    if sets().next().is_none() {
        return Ok(());
    }
    let mut known: Vec<&str> = Vec::new();
    for d in sets().flat_map(|d| &d.variables).flat_map(|(_, a)| a.dims()).flatten() {
        if !known.contains(&d.as_str()) {
            known.push(d);
        }
    }
    let Some(wrong) = dims.iter().find(|d| !known.contains(d)) else { return Ok(()) };
    let help = suggest(wrong, known.iter().copied()).map(|s| format!("did you mean '{s}'?"));
    let message = format!("{function}: no variable of the dataset has a dimension '{wrong}'; there are {}", known.join(", "));
    Err(BuildError { message, span: span.clone(), help })
}

/// The items of an index that a variable has the dimensions for.
pub(crate) fn present(a: &Array, items: &[IndexItem]) -> Vec<IndexItem> {
    let has = |i: &&IndexItem| if let IndexItem::Keyword { dim, .. } = i { a.axis_named(dim).is_some() } else { true };
    items.iter().filter(has).cloned().collect()
}

/// A coordinate of an array as an array of its own.
pub(crate) fn coordinate(a: &Array, name: &str, span: &Range<usize>) -> Result<Array, BuildError> {
    match a.coord(name) {
        Some(c) => of_coord(c, a.coords()).map_err(at(span)),
        None => {
            let names: Vec<&str> = a.coords().iter().map(|c| c.name.as_str()).collect();
            let has = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
            let help = match (crate::functions::instead(name), suggest(name, names.iter().copied())) {
                _ if crate::functions::called(name).is_some() => format!("a method is called: write .{name}(…)"),
                (Some(instead), _) => instead.into(),
                (None, Some(near)) => format!("did you mean '{near}'?"),
                (None, None) => "only coordinates, and methods with parentheses, can follow '.'".into(),
            };
            let help = Some(help);
            Err(BuildError { message: format!("the array has no coordinate '{name}'; {has}"), span: span.clone(), help })
        }
    }
}

/// The array that a coordinate is, with those of the coordinates that fit it.
pub(crate) fn of_coord(c: &Arc<Coord>, coords: &[Arc<Coord>]) -> Result<Array, OpError> {
    let Labels::Numbers { dtype, bytes } = &c.labels else {
        return Err(OpError::new(&c.name, "this coordinate holds no numbers, so it cannot be computed with"));
    };
    let integers = dtype.is_integer() && dtype.size() == 8;
    let scalars: Vec<Scalar> = if integers {
        let signed = *dtype == chunkwise_types::DType::Int64;
        let word = |b: &[u8]| b.try_into().map_or(0, u64::from_ne_bytes);
        bytes.chunks_exact(8).map(word).map(|v| Scalar::Int(if signed { i128::from(v as i64) } else { i128::from(v) })).collect()
    } else {
        c.floats()
            .unwrap_or_default()
            .into_iter()
            .map(|v| if dtype.is_inexact() { Scalar::Float(v) } else { Scalar::Int(v as i128) })
            .collect()
    };
    if scalars.len() > 1 << 20 {
        return Err(OpError::new(&c.name, "this coordinate has too many elements to be computed with; name it as an input of its own"));
    }
    let dims = c.dims.iter().map(|d| Some(d.clone())).collect();
    Ok(create::constant(scalars, &c.shape, *dtype)?.with_dims(dims).with_coords(coords.to_vec()).with_attributes(c.attributes.clone()))
}

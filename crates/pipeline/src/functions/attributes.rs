//! Which functions leave the attributes of their input true.

use super::times;
use crate::build::Value;
use chunkwise_kernels::ElementOp;
use chunkwise_ops::{Array, cf};
use serde_json::{Map, Value as Json};

/// Functions that only move elements: whatever was said of them stays true.
const MOVES: &[&str] = &[
    "broadcast_to",
    "expand_dims",
    "flip",
    "isel",
    "lookup",
    "pad",
    "permute_dims",
    "positive",
    "rechunk",
    "repeat",
    "reshape",
    "roll",
    "sel",
    "squeeze",
    "take",
    "tile",
];

/// Functions whose results lie among their inputs: units and names stay true, but what is said of packed numbers does not.
const SAME_QUANTITY: &[&str] = &[
    "astype",
    "clip",
    "groupby_max",
    "groupby_mean",
    "groupby_min",
    "max",
    "mean",
    "min",
    "moving_max",
    "moving_mean",
    "moving_min",
    "nanmax",
    "nanmean",
    "nanmin",
    "resample_max",
    "resample_mean",
    "resample_min",
];

/// Functions whose results have the units of their input, but are no longer what it is.
const SAME_UNITS: &[&str] = &["groupby_std", "groupby_sum", "moving_sum", "nanstd", "nansum", "resample_std", "resample_sum", "std", "sum"];

/// The units alone. Of times, such as days since a date, a sum or a difference is no time, and they are not true of it.
fn units_of(mut attributes: Map<String, Json>) -> Map<String, Json> {
    attributes.retain(|k, v| k == "units" && !v.as_str().is_some_and(|u| u.contains(" since ")));
    attributes
}

fn first<'a>(values: &'a [Value], named: &'a [(String, Value)]) -> Option<&'a Value> {
    values.first().or_else(|| named.iter().find(|(n, _)| n == "x").map(|(_, v)| v))
}

/// The attributes of the result of a function, from its arguments.
pub(super) fn carried(function: &str, values: &[Value], named: &[(String, Value)]) -> Map<String, Json> {
    match first(values, named) {
        Some(Value::Array(a)) if function == "diff" && a.is_time() => times::difference(a),
        Some(Value::Array(a)) if MOVES.contains(&function) => a.attributes().clone(),
        Some(Value::Array(a)) if SAME_QUANTITY.contains(&function) && !cf::is_packed(a.attributes()) => a.attributes().clone(),
        Some(Value::Array(a)) if SAME_UNITS.contains(&function) && !cf::is_packed(a.attributes()) => units_of(a.attributes().clone()),
        Some(Value::List(items)) if matches!(function, "concat" | "stack") => {
            let of = |v: &Value| if let Value::Array(a) = v { Some(a.attributes().clone()) } else { None };
            let all: Vec<_> = items.iter().filter_map(of).collect();
            let same = all.len() == items.len() && all.windows(2).all(|w| w[0] == w[1]);
            all.into_iter().next().filter(|_| same).unwrap_or_default()
        }
        _ => Map::new(),
    }
}

/// The attributes of the result of an element-wise function: those that all its operands have alike, if it keeps the quantity.
pub(super) fn of_elementwise(op: ElementOp, operands: &[&Value]) -> Map<String, Json> {
    use ElementOp::{Abs, Add, Ceil, Floor, Maximum, Minimum, Negative, Positive, Round, Subtract, Trunc, Where};
    let chosen = if op == ElementOp::Where { operands.get(1..).unwrap_or_default() } else { operands };
    let arrays: Vec<&Array> = chosen.iter().filter_map(|v| if let Value::Array(a) = v { Some(a) } else { None }).collect();
    let Some(first) = arrays.first() else { return Map::new() };
    if arrays.iter().any(|a| cf::is_packed(a.attributes())) {
        return if op == Positive { first.attributes().clone() } else { Map::new() };
    }
    let mut common = first.attributes().clone();
    common.retain(|k, v| arrays.iter().all(|a| a.attributes().get(k) == Some(v)));
    match op {
        Subtract if arrays.len() == 2 && arrays.iter().all(|a| a.is_time()) => times::difference(first),
        Positive | Where | Maximum | Minimum => common,
        Add | Subtract | Negative | Abs | Round | Floor | Ceil | Trunc => units_of(common),
        _ => Map::new(),
    }
}

/// The array with these attributes, if there are any.
pub(super) fn give(array: Array, attributes: Map<String, Json>) -> Array {
    if *array.attributes() == attributes { array } else { array.with_attributes(attributes) }
}

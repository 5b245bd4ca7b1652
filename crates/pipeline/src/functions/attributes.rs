//! Which functions leave the attributes of their input true.

use crate::build::Value;
use chunkwise_ops::{Array, cf};
use serde_json::{Map, Value as Json};

/// Functions that only move elements: whatever was said of them stays true.
const MOVES: &[&str] = &[
    "broadcast_to",
    "expand_dims",
    "flip",
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
];

fn first<'a>(values: &'a [Value], named: &'a [(String, Value)]) -> Option<&'a Value> {
    values.first().or_else(|| named.iter().find(|(n, _)| n == "x").map(|(_, v)| v))
}

/// The attributes of the result of a function, from its arguments.
pub(super) fn carried(function: &str, values: &[Value], named: &[(String, Value)]) -> Map<String, Json> {
    match first(values, named) {
        Some(Value::Array(a)) if MOVES.contains(&function) => a.attributes().clone(),
        Some(Value::Array(a)) if SAME_QUANTITY.contains(&function) && !cf::is_packed(a.attributes()) => a.attributes().clone(),
        Some(Value::List(items)) if matches!(function, "concat" | "stack") => {
            let of = |v: &Value| if let Value::Array(a) = v { Some(a.attributes().clone()) } else { None };
            let all: Vec<_> = items.iter().filter_map(of).collect();
            let same = all.len() == items.len() && all.windows(2).all(|w| w[0] == w[1]);
            all.into_iter().next().filter(|_| same).unwrap_or_default()
        }
        _ => Map::new(),
    }
}

/// The array with these attributes, if there are any.
pub(super) fn give(array: Array, attributes: Map<String, Json>) -> Array {
    if *array.attributes() == attributes { array } else { array.with_attributes(attributes) }
}

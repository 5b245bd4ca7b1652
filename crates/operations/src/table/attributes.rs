//! What becomes of the attributes of an operation's input.

use super::{Call, Kind, times};
use crate::{Array, Value, cf};
use serde_json::{Map, Value as Json};

/// Which attributes of the input are true of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attributes {
    /// None.
    None,
    /// All: elements are only moved.
    All,
    /// All, unless they tell of packed numbers: the result lies among the input.
    Quantity,
    /// The units.
    Units,
    /// Of times, the unit of their differences.
    Difference,
    /// Those that all arrays of a list have, if they have no others.
    Alike,
    /// Those that all operands have alike.
    Common,
    /// The units, if all operands have the same.
    CommonUnits,
    /// As [`Attributes::CommonUnits`]; of two times, the unit of their difference.
    CommonDifference,
}

/// The units alone. Of times, such as days since a date, a sum or a difference is no time, and they are not true of it.
fn units_of(mut attributes: Map<String, Json>) -> Map<String, Json> {
    attributes.retain(|k, v| k == "units" && !v.as_str().is_some_and(|u| u.contains(" since ")));
    attributes
}

/// The attributes that arrays have alike; none if the numbers of one are packed, which operations do not keep.
fn common(arrays: &[&Array]) -> Map<String, Json> {
    let Some(first) = arrays.first().filter(|_| !arrays.iter().any(|a| cf::is_packed(a.attributes()))) else { return Map::new() };
    let mut common = first.attributes().clone();
    common.retain(|k, v| arrays.iter().all(|a| a.attributes().get(k) == Some(v)));
    common
}

impl Attributes {
    /// The attributes of the result of a call.
    pub(super) fn of(self, call: &Call<'_>) -> Map<String, Json> {
        let first = || call.values().next().and_then(Value::as_array);
        let own = || first().map(|a| a.attributes().clone()).unwrap_or_default();
        let packed = || first().is_some_and(|a| cf::is_packed(a.attributes()));
        let operands: Vec<&Array> = call.of_kind(Kind::Operand).filter_map(Value::as_array).collect();
        match self {
            Attributes::All => own(),
            Attributes::Quantity if !packed() => own(),
            Attributes::Units if !packed() => units_of(own()),
            Attributes::Difference => first().filter(|a| a.is_time()).map(times::difference).unwrap_or_default(),
            Attributes::Alike => match call.values().next() {
                Some(Value::List(items)) => {
                    let all: Vec<_> = items.iter().filter_map(|v| v.as_array().map(|a| a.attributes().clone())).collect();
                    let same = all.len() == items.len() && all.windows(2).all(|w| w[0] == w[1]);
                    all.into_iter().next().filter(|_| same).unwrap_or_default()
                }
                _ => Map::new(),
            },
            Attributes::Common => common(&operands),
            Attributes::CommonDifference if operands.len() == 2 && operands.iter().all(|a| a.is_time()) => times::difference(operands[0]),
            Attributes::CommonUnits | Attributes::CommonDifference => units_of(common(&operands)),
            Attributes::None | Attributes::Quantity | Attributes::Units => Map::new(),
        }
    }
}

/// The array with these attributes, if it has others.
pub(super) fn give(array: Array, attributes: Map<String, Json>) -> Array {
    if *array.attributes() == attributes { array } else { array.with_attributes(attributes) }
}

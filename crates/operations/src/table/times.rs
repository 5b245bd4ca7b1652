//! What operations may do with times: compare, choose and subtract them, order and average them, but not add them up.

use super::{Call, Kind};
use crate::{Array, CallError, Value, calendar};
use serde_json::{Map, Value as Json};

/// What an operation does to times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Nothing that depends on it.
    Ignored,
    /// It has no meaning for them.
    Refused,
    /// It makes of them what has no meaning, in words: "a sum of times".
    Nonsense(&'static str),
    /// All operands must be times that are told alike.
    Alike,
    /// As [`Times::Alike`], or NaN, where there is no time.
    AlikeOrNone,
}

fn text<'a>(a: &'a Array, name: &str) -> &'a str {
    a.attributes().get(name).and_then(Json::as_str).unwrap_or_default()
}

fn time(v: &Value) -> Option<&Array> {
    v.as_array().filter(|a| a.is_time())
}

/// Refuses what has no meaning for times, such as their sum, or a time and a number.
pub(super) fn check(call: &Call<'_>) -> Result<(), CallError> {
    let name = call.operation.name;
    match call.operation.times {
        Times::Ignored => Ok(()),
        // Sums, products and variances of times are no times and have no other meaning, as in NumPy.
        Times::Nonsense(what) => {
            let Some(first) = call.values().find_map(time) else { return Ok(()) };
            let message = format!("{name}() is not defined for times ({}): {what} has no meaning", text(first, "units"));
            let help = "mean, min, max and differences of times have one, and sums of differences; with `decode_cf: false` an input is read \
                        as numbers";
            Err(CallError::new(message).with_help(help))
        }
        rule => {
            let operands: Vec<&Value> = call.of_kind(Kind::Operand).collect();
            // A comparison with a date is not asked about.
            let date = rule == Times::Alike && operands.iter().any(|v| matches!(v, Value::Str(_)));
            if date { Ok(()) } else { alike(name, &operands, rule) }
        }
    }
}

fn alike(name: &str, operands: &[&Value], rule: Times) -> Result<(), CallError> {
    let times: Vec<&Array> = operands.iter().filter_map(|v| time(v)).collect();
    let Some(first) = times.first() else { return Ok(()) };
    let help = "subtract times from each other, compare them with each other or with dates such as \"2019-06-15\", or group by their parts; \
                with `decode_cf: false` an input is read as numbers";
    let units = text(first, "units");
    if rule == Times::Refused {
        return Err(CallError::new(format!("{name} is not defined for times ({units}); {help}")));
    }
    if let Some(other) = times.iter().find(|t| text(t, "units") != units || !calendar::alike(text(t, "calendar"), text(first, "calendar")))
    {
        let of = |t: &Array| {
            let c = text(t, "calendar");
            format!("'{}'{}", text(t, "units"), if c.is_empty() { String::new() } else { format!(" in the calendar '{c}'") })
        };
        return Err(CallError::new(format!("these times are told in different ways: {} and {}", of(first), of(other))));
    }
    let none = |v: &&&Value| rule == Times::AlikeOrNone && matches!(v, Value::Scalar(s) if s.as_f64().is_nan());
    if operands.iter().any(|v| time(v).is_none() && !none(&v)) {
        return Err(CallError::new(format!("{name} has a time ({units}) and a number; {help}")));
    }
    Ok(())
}

/// The attributes of the difference of times: their units, such as days.
pub(super) fn difference(first: &Array) -> Map<String, Json> {
    let unit = text(first, "units").split(" since ").next().unwrap_or_default().trim().to_string();
    Map::from_iter([("units".to_string(), Json::String(unit))])
}

//! What functions may do with times: compare, choose and subtract them, order and average them, but not add them up.

use super::super::build::{BuildError, Value, fail};
use chunkwise_kernels::ElementOp;
use chunkwise_ops::{Array, calendar};
use serde_json::{Map, Value as Json};
use std::ops::Range;

fn text<'a>(a: &'a Array, name: &str) -> &'a str {
    a.attributes().get(name).and_then(Json::as_str).unwrap_or_default()
}

fn time(v: &Value) -> Option<&Array> {
    if let Value::Array(a) = v { Some(a).filter(|a| a.is_time()) } else { None }
}

/// Refuses what has no meaning for times, such as their sum, or a time and a number. Comparisons with dates are not asked about.
pub(crate) fn check(op: ElementOp, operands: &[&Value], span: &Range<usize>) -> Result<(), BuildError> {
    use ElementOp::{
        Equal, Greater, GreaterEqual, Isfinite, Isinf, Isnan, Less, LessEqual, Maximum, Minimum, NotEqual, Positive, Subtract, Where,
    };
    let chosen = if op == Where { operands.get(1..).unwrap_or_default() } else { operands };
    let times: Vec<&Array> = chosen.iter().filter_map(|v| time(v)).collect();
    let Some(first) = times.first() else { return Ok(()) };
    let help = "subtract times from each other, compare them with each other or with dates such as \"2019-06-15\", or group by their parts; \
                with `decode_cf: false` an input is read as numbers";
    let units = text(first, "units");
    if matches!(op, Isfinite | Isinf | Isnan | Positive) {
        return Ok(());
    }
    if !matches!(op, Equal | Greater | GreaterEqual | Less | LessEqual | Maximum | Minimum | NotEqual | Subtract | Where) {
        return fail(span, format!("{} is not defined for times ({units}); {help}", op.name()));
    }
    if let Some(other) = times.iter().find(|t| text(t, "units") != units || !calendar::alike(text(t, "calendar"), text(first, "calendar")))
    {
        let of = |t: &Array| {
            let c = text(t, "calendar");
            format!("'{}'{}", text(t, "units"), if c.is_empty() { String::new() } else { format!(" in the calendar '{c}'") })
        };
        return fail(span, format!("these times are told in different ways: {} and {}", of(first), of(other)));
    }
    // Where no time is, there may be none.
    let none = |v: &&&Value| op == Where && matches!(v, Value::Scalar(s) if s.as_f64().is_nan());
    if chosen.iter().any(|v| time(v).is_none() && !none(&v)) {
        return fail(span, format!("{} has a time ({units}) and a number; {help}", op.name()));
    }
    Ok(())
}

/// What a function adds up or multiplies, in words; `None` if it does neither.
fn adds(function: &str) -> Option<&'static str> {
    let plain = ["nan", "groupby_", "resample_", "moving_"].iter().find_map(|p| function.strip_prefix(p)).unwrap_or(function);
    Some(match plain {
        "sum" => "a sum of times",
        "prod" | "matmul" | "outer" | "vecdot" | "tensordot" | "einsum" | "qr_q" | "qr_r" => "a product of times",
        "var" | "std" => "a variance of times",
        "stencil" | "convolve" => "a weighted sum of times",
        _ => return None,
    })
}

/// Refuses sums, products and variances of times, which are no times and have no other meaning, as NumPy does.
pub(crate) fn check_function(function: &str, values: &[Value], named: &[(String, Value)], span: &Range<usize>) -> Result<(), BuildError> {
    let Some(what) = adds(function) else { return Ok(()) };
    let Some(first) = values.iter().chain(named.iter().map(|(_, v)| v)).find_map(time) else { return Ok(()) };
    let message = format!("{function}() is not defined for times ({}): {what} has no meaning", text(first, "units"));
    let help =
        "mean, min, max and differences of times have one, and sums of differences; with `decode_cf: false` an input is read as numbers";
    Err(BuildError { message, span: span.clone(), help: Some(help.into()) })
}

/// The attributes of the difference of times: their units, such as days.
pub(super) fn difference(first: &Array) -> Map<String, Json> {
    let unit = text(first, "units").split(" since ").next().unwrap_or_default().trim().to_string();
    Map::from_iter([("units".to_string(), Json::String(unit))])
}

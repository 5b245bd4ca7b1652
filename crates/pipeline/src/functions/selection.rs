//! Selection by label and by index along named dimensions, and dates in comparisons.

use super::args::Args;
use crate::build::{BuildError, Scope, Value, at, build_expr, fail, no_dim};
use crate::{Expr, ExprKind, IndexItem};
use chunkwise_ops::select::{Label, Method, Place, Wanted, date_fields, find};
use chunkwise_ops::{Array, calendar, index};
use chunkwise_types::Scalar;
use std::ops::Range;

fn label(v: &Value, span: &Range<usize>) -> Result<Option<Label>, BuildError> {
    match v {
        Value::Scalar(s) if !matches!(s, Scalar::Complex(..)) => Ok(Some(Label::Number(s.as_f64()))),
        Value::Str(t) => Ok(Some(Label::Text(t.clone()))),
        Value::None => Ok(None),
        _ => fail(span, "a label is a number or a text"),
    }
}

fn wanted(v: &Value, span: &Range<usize>) -> Result<Wanted, BuildError> {
    let some = |v: &Value| label(v, span)?.map_or_else(|| fail(span, "a label is a number or a text"), Ok);
    Ok(match v {
        Value::List(items) => Wanted::Several(items.iter().map(some).collect::<Result<_, _>>()?),
        Value::Slice(parts) => {
            let step = if matches!(parts[2], Value::None) { 1 } else { parts[2].int(span)? };
            Wanted::Between(label(&parts[0], span)?, label(&parts[1], span)?, step)
        }
        v => Wanted::One(some(v)?),
    })
}

/// What an item of an index by name selects: `time="2019-06"`, `lat=10.0:20.0`, `lat=nearest(12.3)`.
pub(crate) fn of_item(item: &IndexItem, scope: &Scope<'_>) -> Result<(Wanted, Method), BuildError> {
    let part = |e: &Option<Expr>| e.as_ref().map_or(Ok(Value::None), |e| build_expr(e, scope));
    let span = item.span();
    match item {
        IndexItem::At(Expr { kind: ExprKind::Call { function, args, kwargs, .. }, .. }) if function == "nearest" => {
            match (&args[..], &kwargs[..]) {
                ([one], []) => Ok((wanted(&build_expr(one, scope)?, &span)?, Method::Nearest(None))),
                _ => fail(&span, "nearest() takes one label, or a list of labels"),
            }
        }
        IndexItem::At(e) => Ok((wanted(&build_expr(e, scope)?, &span)?, Method::Exact)),
        IndexItem::Slice { start, stop, step, .. } => {
            let slice = Value::Slice(Box::new([part(start)?, part(stop)?, part(step)?]));
            Ok((wanted(&slice, &span)?, Method::Exact))
        }
        _ => fail(&span, "a label, a list of labels or a range of labels is needed here"),
    }
}

fn axis_of(a: &Array, dim: &str, span: &Range<usize>) -> Result<usize, BuildError> {
    a.axis_named(dim).map_or_else(|| fail(span, no_dim(a, dim)), Ok)
}

/// The elements with these labels along a dimension; by index if the dimension has no labels.
pub(crate) fn along(a: &Array, dim: &str, wanted: &Wanted, method: Method, span: &Range<usize>) -> Result<Array, BuildError> {
    let axis = axis_of(a, dim, span)?;
    let Some(coord) = a.index_of(dim) else { return by_index(a, dim, axis, wanted, span) };
    let place = find(coord, wanted, method).or_else(|e| fail(span, e))?;
    match place {
        Place::At(i) => index::item(a, axis, i as i64),
        Place::Range { start, len, step } => {
            let stop = start as i64 + len as i64 * step;
            index::slice(a, axis, Some(start as i64), Some(stop), Some(step))
        }
        Place::List(list) => index::take(a, &list.iter().map(|i| *i as i64).collect::<Vec<_>>(), axis),
    }
    .map_err(at(span))
}

/// A dimension without labels is indexed, as in xarray.
fn by_index(a: &Array, dim: &str, axis: usize, wanted: &Wanted, span: &Range<usize>) -> Result<Array, BuildError> {
    let whole = |l: &Label| match l {
        Label::Number(v) if v.fract() == 0.0 && v.abs() < 9e15 => Ok(*v as i64),
        l => fail(span, format!("'{dim}' has no labels, so {l} cannot be found in it; give an index")),
    };
    match wanted {
        Wanted::One(l) => index::item(a, axis, whole(l)?),
        Wanted::Several(list) => index::take(a, &list.iter().map(whole).collect::<Result<Vec<_>, _>>()?, axis),
        Wanted::Between(from, to, step) => {
            index::slice(a, axis, from.as_ref().map(whole).transpose()?, to.as_ref().map(whole).transpose()?, Some(*step))
        }
    }
    .map_err(at(span))
}

/// `isel(x, time=0, lat=2:8)`: by index.
pub(super) fn isel(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let named = std::mem::take(&mut a.named);
    if named.is_empty() {
        return fail(span, "isel() needs the indices of a dimension, such as isel(x, time=0) or isel(x, time=0:12)");
    }
    let mut out = x.clone();
    for (dim, v) in &named {
        let axis = axis_of(&out, dim, span)?;
        let part = |v: &Value| if matches!(v, Value::None) { Ok(None) } else { v.int(span).map(Some) };
        out = match v {
            Value::List(_) => index::take(&out, &v.ints(span)?, axis),
            Value::Slice(p) => index::slice(&out, axis, part(&p[0])?, part(&p[1])?, part(&p[2])?),
            Value::Str(t) => {
                let message = format!("isel() takes indices, and \"{t}\" is a label");
                return Err(BuildError { message, span: span.clone(), help: Some(format!("write sel(x, {dim}=\"{t}\")")) });
            }
            v => index::item(&out, axis, v.int(span)?),
        }
        .map_err(at(span))?;
    }
    Ok(out)
}

/// `sel(x, lat=12.3, method="nearest", tolerance=0.5)`: by label.
pub(super) fn sel(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    if a.values.iter().any(|v| matches!(v, Value::Str(t) if t.contains('.'))) {
        return fail(
            span,
            "sel() takes labels, such as sel(x, time=\"2019-06\"); to look up the group of each time write lookup(x, \"time.month\")",
        );
    }
    let tolerance = a.optional(usize::MAX, "tolerance").map(|v| match v {
        Value::Scalar(s) => Ok(s.as_f64()),
        _ => fail(span, "'tolerance' must be a number"),
    });
    let tolerance = tolerance.transpose()?;
    let method = match a.text(usize::MAX, "method")?.as_deref() {
        None if tolerance.is_some() => return fail(span, "'tolerance' needs method=\"nearest\""),
        None => Method::Exact,
        Some("nearest") => Method::Nearest(tolerance),
        Some(other) => return fail(span, format!("there is no method '{other}'; there is nearest")),
    };
    let named = std::mem::take(&mut a.named);
    if named.is_empty() {
        return fail(span, "sel() needs the labels of a dimension, such as sel(x, time=\"2019-06\") or sel(x, lat=10.0:20.0)");
    }
    named.iter().try_fold(x, |x, (dim, v)| along(&x, dim, &wanted(v, span)?, method, span))
}

/// A comparison of times with a date: the date as a number in the units of the times. `None` if it is none.
pub(crate) fn dates(a: &Value, b: &Value, span: &Range<usize>) -> Result<Option<(Value, Value)>, BuildError> {
    let number = |x: &Array, text: &str| {
        let of = |name: &str| x.attributes().get(name).and_then(|v| v.as_str()).unwrap_or_default();
        if !of("units").contains(" since ") {
            return fail(span, format!("\"{text}\" is a text, and the array holds numbers; only times can be compared with a date"));
        }
        let Some(fields) = date_fields(text) else {
            return fail(span, format!("\"{text}\" is not a date such as \"2019-06-15\""));
        };
        let n = calendar::encode(fields, of("units"), of("calendar")).or_else(|e| fail(span, e))?;
        let whole = x.dtype().is_integer() && n.fract() == 0.0;
        Ok(Value::Scalar(if whole { Scalar::Int(n as i128) } else { Scalar::Float(n) }))
    };
    Ok(match (a, b) {
        (Value::Array(x), Value::Str(t)) => Some((a.clone(), number(x, t)?)),
        (Value::Str(t), Value::Array(x)) => Some((number(x, t)?, b.clone())),
        _ => None,
    })
}

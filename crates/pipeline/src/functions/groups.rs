//! Groups by labels or by parts of a time, and the selection that undoes them.

use super::args::Args;
use crate::build::{BuildError, Scope, Value, at, fail};
use chunkwise_ops::group::{GroupOp, Groups, groupby};
use chunkwise_ops::{Array, calendar, index};

/// The operation of an array that was selected for every index of an input's own time.
pub const SELECTED: &str = "sel by time";

/// The dimension, if it is named; the group of each index; the value of each group; the part of time.
type Labels = (Option<String>, Vec<i64>, Vec<i64>, Option<String>);

fn group_labels(a: &mut Args<'_>, scope: &Scope<'_>, of: Option<&Array>) -> Result<Labels, BuildError> {
    let span = a.span;
    match a.need(1, "by")? {
        Value::Str(text) => {
            let Some((dim, part)) = text.split_once('.') else { return fail(span, format!("'{text}' must be like \"time.month\"")) };
            let place = of.and_then(|x| x.axis_named(dim).map(|axis| (x, axis)));
            let time = (scope.time)(place, dim).or_else(|e| fail(span, e))?;
            let moments = calendar::decode(&time.values, &time.units, &time.calendar).or_else(|e| fail(span, e))?;
            let (labels, values) = calendar::labels(&moments, part).or_else(|e| fail(span, e))?;
            Ok((Some(dim.into()), labels, values, Some(part.into())))
        }
        v => {
            let labels = v.ints(span)?;
            let groups = labels.iter().max().map_or(0, |m| m + 1).max(0);
            Ok((None, labels, (0..groups).collect(), None))
        }
    }
}

/// `groupby_mean(x, "time.month")` and its siblings.
pub(super) fn grouped(a: &mut Args<'_>, scope: &Scope<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let (dim, labels, values, part) = group_labels(a, scope, Some(&x))?;
    let axis = match &dim {
        Some(d) => a.axis_of(&x, &Value::Str(d.clone()), 0)?,
        None => a.axis(&x, 2, 0, 0)?,
    };
    let count = values.len() as u64;
    if let Some(part) = &part {
        scope.groups.borrow_mut().insert(part.clone(), values);
    }
    let skip_nan = a.flag(usize::MAX, "skipna", true)?;
    let correction = match a.function {
        "groupby_var" | "groupby_std" if a.named.iter().any(|(n, _)| n == "ddof") => a.float(usize::MAX, "ddof", 0.0)?,
        "groupby_var" | "groupby_std" => a.float(usize::MAX, "correction", 0.0)?,
        _ => 0.0,
    };
    let function = match a.function {
        "groupby_sum" => GroupOp::Sum,
        "groupby_prod" => GroupOp::Prod,
        "groupby_mean" => GroupOp::Mean,
        "groupby_var" => GroupOp::Var(correction),
        "groupby_std" => GroupOp::Std(correction),
        "groupby_min" => GroupOp::Min,
        "groupby_max" => GroupOp::Max,
        "groupby_any" => GroupOp::Any,
        "groupby_all" => GroupOp::All,
        _ => GroupOp::Count,
    };
    let by = Groups { axis, labels: &labels, count, dim: part.as_deref() };
    groupby(&x, by, function, skip_nan).map_err(at(span))
}

/// `sel(climatology, "time.month")`: the labels are those of the inputs' own time, or those of the array `like`.
pub(super) fn select(a: &mut Args<'_>, scope: &Scope<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let like = a.get(usize::MAX, "like").map(|v| v.array(span)).transpose()?;
    let (dim, labels, _, part) = group_labels(a, scope, like.as_ref())?;
    let axis = match &part {
        Some(p) => a.axis_of(&x, &Value::Str(p.clone()), 0)?,
        None => a.axis(&x, 2, 0, 0)?,
    };
    let out = index::take(&x, &labels, axis).map_err(at(span))?;
    let mut dims = out.dims().to_vec();
    if dim.is_some() {
        dims[axis] = dim;
    }
    // By this name it is known whose labels they are, when it meets other arrays.
    let operation = if part.is_some() && like.is_none() { SELECTED } else { "sel" };
    Ok(out.with_dims(dims).with_operation(operation))
}

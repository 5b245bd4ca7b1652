//! Groups by labels, by parts of a time or by periods, and the look-up that undoes them.

use super::args::Args;
use crate::build::{BuildError, Scope, Value, at, fail, no_dim};
use chunkwise_kernels::ElementOp;
use chunkwise_ops::calendar::{self, DateTime};
use chunkwise_ops::elementwise::{astype, elementwise};
use chunkwise_ops::group::{GroupOp, Groups, groupby};
use chunkwise_ops::{Array, Coord, OpError, create, index};
use chunkwise_types::{DType, Scalar};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// The group of each index, and what the groups are.
struct Labels {
    /// The dimension of the times, and their coordinate.
    time: Option<(String, Arc<Coord>)>,
    /// The group of each index.
    of: Vec<i64>,
    /// The number of groups.
    count: u64,
    /// The coordinate of the groups, which has their dimension's name.
    groups: Option<Coord>,
}

/// The times of a dimension: those of an array, or without one those that all inputs agree on.
fn times(dim: &str, array: Option<&Array>, scope: &Scope<'_>, span: &Range<usize>) -> Result<Arc<Coord>, BuildError> {
    let usable = |c: &Arc<Coord>| -> Result<Arc<Coord>, BuildError> {
        if c.labels == chunkwise_ops::Labels::Lost {
            return fail(span, format!("the times of '{dim}' are not known any more: the array was joined, padded or shifted"));
        }
        if !c.is_time() {
            return fail(span, format!("'{dim}' holds no times: its coordinate has no units such as \"days since 1970-01-01\""));
        }
        Ok(c.clone())
    };
    if let Some(a) = array.filter(|a| a.axis_named(dim).is_some()) {
        return match a.index_of(dim) {
            Some(c) => usable(c),
            None => fail(span, format!("'{dim}' has no coordinate that says the time of each index")),
        };
    }
    let mut found: Vec<&Arc<Coord>> = Vec::new();
    for c in scope.inputs.iter().filter_map(|a| a.index_of(dim)) {
        if !found.iter().any(|f| f.difference(c).is_none()) {
            found.push(c);
        }
    }
    match found[..] {
        [one] => usable(one),
        [] => fail(span, format!("there is no coordinate '{dim}' of the inputs, which says the time of each index")),
        [a, b, ..] => Err(BuildError {
            message: format!("the inputs have different times: {} and {}", a.summary(), b.summary()),
            span: span.clone(),
            help: Some("name the array whose times are meant: lookup(x, \"time.month\", like=that array)".into()),
        }),
    }
}

const SEASONS: [&str; 4] = ["DJF", "MAM", "JJA", "SON"];

/// The coordinate of groups by a part of a date.
fn part_coord(part: &str, values: &[i64]) -> Coord {
    let mut attributes = serde_json::Map::new();
    match part {
        "season" => return Coord::texts(part, values.iter().map(|v| SEASONS[v.rem_euclid(4) as usize].into()).collect()),
        "date" => {
            // Whole days, as a date is: a time of its own.
            let units = "days since 1970-01-01";
            let day = |v: &i64| {
                let fields = [v.div_euclid(10000) as f64, (v.rem_euclid(10000) / 100) as f64, v.rem_euclid(100) as f64, 0.0, 0.0, 0.0];
                calendar::encode(fields, units, "proleptic_gregorian").ok().map(|d| d as i64)
            };
            if let Some(days) = values.iter().map(day).collect::<Option<Vec<_>>>() {
                attributes.insert("units".into(), units.into());
                attributes.insert("calendar".into(), "proleptic_gregorian".into());
                return Coord::integers(part, &days, attributes);
            }
            attributes.insert("long_name".into(), "date as year * 10000 + month * 100 + day".into());
        }
        _ => {}
    }
    Coord::integers(part, values, attributes)
}

fn group_labels(a: &mut Args<'_>, scope: &Scope<'_>, of: Option<&Array>) -> Result<Labels, BuildError> {
    let span = a.span;
    match a.need(1, "by")? {
        Value::Str(text) => {
            let Some((dim, part)) = text.split_once('.') else {
                return fail(&a.here, format!("'{text}' must name the dimension of the times and the part, like \"time.month\""));
            };
            let time = times(dim, of, scope, span)?;
            let moments = moments(&time, span)?;
            let (labels, values) = calendar::labels(&moments, part).or_else(|e| fail(span, e))?;
            let groups = part_coord(part, &values);
            Ok(Labels { time: Some((dim.into(), time)), of: labels, count: values.len() as u64, groups: Some(groups) })
        }
        v => {
            let labels = v.ints(span)?;
            let count = labels.iter().max().map_or(0, |m| m + 1).max(0) as u64;
            Ok(Labels { time: None, of: labels, count, groups: None })
        }
    }
}

fn moments(time: &Coord, span: &Range<usize>) -> Result<Vec<DateTime>, BuildError> {
    let values = time.floats().unwrap_or_default();
    calendar::decode(&values, time.text_attribute("units"), time.text_attribute("calendar")).or_else(|e| fail(span, e))
}

/// The reduction that a function is, such as `groupby_mean` or `resample_mean`.
fn function(a: &mut Args<'_>) -> Result<GroupOp, BuildError> {
    let name = a.function.split_once('_').map_or("", |(_, n)| n);
    let correction =
        if matches!(name, "var" | "std") { a.correction(if a.function.starts_with("groupby_") { 3 } else { usize::MAX })? } else { 0.0 };
    Ok(match name {
        "sum" => GroupOp::Sum,
        "prod" => GroupOp::Prod,
        "mean" => GroupOp::Mean,
        "var" => GroupOp::Var(correction),
        "std" => GroupOp::Std(correction),
        "min" => GroupOp::Min,
        "max" => GroupOp::Max,
        "any" => GroupOp::Any,
        "all" => GroupOp::All,
        _ => GroupOp::Count,
    })
}

/// Whether NaN is left out, of which functions that do not compute with the values have no choice.
fn skips_nan(a: &mut Args<'_>, function: GroupOp) -> Result<bool, BuildError> {
    let position = match function {
        GroupOp::Any | GroupOp::All | GroupOp::Count => return Ok(true),
        _ if a.function.starts_with("resample_") => usize::MAX,
        GroupOp::Var(_) | GroupOp::Std(_) => 4,
        _ => 3,
    };
    a.flag(position, "skipna", true)
}

/// `groupby_mean(x, "time.month")` and its siblings.
pub(super) fn grouped(a: &mut Args<'_>, scope: &Scope<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let labels = group_labels(a, scope, Some(&x))?;
    let axis = match &labels.time {
        Some((d, _)) => a.axis_of(&x, &Value::Str(d.clone()), 0)?,
        None => a.axis(&x, 2, 0, 0)?,
    };
    let function = function(a)?;
    let skip_nan = skips_nan(a, function)?;
    let dim = labels.groups.as_ref().map(|g| g.name.clone());
    let by = Groups { axis, labels: &labels.of, count: labels.count, dim: dim.as_deref() };
    let out = groupby(&x, by, function, skip_nan).map_err(at(span))?;
    Ok(with_groups(&out, &x, axis, labels.groups))
}

/// The groups of an array with its coordinates along the other dimensions, and that of the groups.
fn with_groups(out: &Array, x: &Array, axis: usize, groups: Option<Coord>) -> Array {
    let along = |c: &Arc<Coord>| x.dims()[axis].as_ref().is_some_and(|d| c.dims.contains(d));
    let mut coords: Vec<Arc<Coord>> = x.coords().iter().filter(|c| !along(c)).cloned().collect();
    coords.extend(groups.map(Arc::new));
    out.with_coords(coords)
}

/// `lookup(climatology, "time.month")`: the group of each time of the inputs, or of the array `like`.
pub(super) fn lookup(a: &mut Args<'_>, scope: &Scope<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let like = a.optional(3, "like").map(|v| v.array(span)).transpose()?;
    let labels = group_labels(a, scope, like.as_ref())?;
    let Some(((dim, time), groups)) = labels.time.zip(labels.groups) else {
        let axis = a.axis(&x, 2, 0, 0)?;
        return index::take(&x, &labels.of, axis).map_err(at(span));
    };
    let Some(axis) = x.axis_named(&groups.name) else {
        let message = no_dim(&x, &groups.name);
        let help =
            Some(format!("lookup() takes what a group function made: lookup(groupby_mean(x, \"{dim}.{0}\"), \"{dim}.{0}\")", groups.name));
        return Err(BuildError { message, span: span.clone(), help });
    };
    let mut list = labels.of;
    // The groups that `x` has may be others than those of these times.
    if let Some(own) = x.index_of(&groups.name).filter(|own| own.difference(&groups).is_some()) {
        let (there, wanted) = (own.shown(), groups.shown());
        let place = |w: &String| match there.iter().position(|t| t == w) {
            Some(i) => Ok(i as i64),
            None => fail(span, format!("there is no group {w} in {}, but times that belong to it", own.summary())),
        };
        let places = wanted.iter().map(place).collect::<Result<Vec<i64>, _>>()?;
        list = list.iter().map(|&l| places.get(l as usize).copied().unwrap_or(0)).collect();
    }
    let out = index::take(&x, &list, axis).map_err(at(span))?;
    let mut dims = out.dims().to_vec();
    dims[axis] = Some(dim);
    Ok(out.with_dims(dims).with_coord((*time).clone()))
}

/// A period such as `1M`: how many, and of what (`Y`, `Q`, `M`, `D`, `h`).
fn period(text: &str, span: &Range<usize>) -> Result<(i64, char), BuildError> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let count = if count.is_empty() { Some(1) } else { count.parse::<i64>().ok() };
    let unit = match unit {
        "Y" | "YS" | "A" | "AS" | "year" | "years" => 'Y',
        "Q" | "QS" => 'Q',
        "M" | "MS" | "month" | "months" => 'M',
        "D" | "d" | "day" | "days" => 'D',
        "h" | "H" | "hour" | "hours" => 'h',
        _ => '?',
    };
    match count {
        Some(n @ 1..=1_000_000) if unit != '?' => Ok((n, unit)),
        _ => fail(span, format!("'{text}' is not a period; write a number and Y, Q, M, D or h, such as \"1M\" or \"6h\"")),
    }
}

/// The reduction of each period, NaN where no time is in one, whatever the reduction: xarray adds these periods to its result as missing ones. Integers and
/// bool become floats then.
fn periods(x: &Array, by: Groups<'_>, function: GroupOp, skip_nan: bool) -> Result<Array, OpError> {
    let used: HashSet<i64> = by.labels.iter().copied().collect();
    if used.len() as u64 == by.count {
        return groupby(x, by, function, skip_nan);
    }
    let short = x.dtype().is_integer() && x.dtype().size() <= 2;
    let own = if short { DType::Float32 } else { DType::Float64 };
    let extreme = matches!(function, GroupOp::Min | GroupOp::Max) && !x.dtype().is_inexact();
    let out = if extreme { groupby(&astype(x, own)?, by, function, skip_nan)? } else { groupby(x, by, function, skip_nan)? };
    let out = if out.dtype().is_inexact() { out } else { astype(&out, DType::Float64)? };
    let mut shape = vec![1; out.rank()];
    shape[by.axis] = by.count;
    let there = create::constant((0..by.count as i64).map(|g| Scalar::Bool(used.contains(&g))).collect(), &shape, DType::Bool)?;
    let missing = Scalar::Float(f64::NAN).into();
    Ok(elementwise(ElementOp::Where, &[(&there).into(), (&out).into(), missing])?.with_missing())
}

/// `resample_mean(x, time="1M")` and its siblings. Each period has the label of its beginning; a period without a time is NaN.
pub(super) fn resampled(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let function = function(a)?;
    let skip_nan = skips_nan(a, function)?;
    let named = std::mem::take(&mut a.named);
    let [(dim, Value::Str(text))] = &named[..] else {
        return fail(span, format!("{}() needs one dimension and its period, such as {}(x, time=\"1M\")", a.function, a.function));
    };
    a.whole();
    let axis = a.axis_of(&x, &Value::Str(dim.clone()), 0)?;
    let time = match x.index_of(dim) {
        Some(c) if c.is_time() => c.clone(),
        _ => return fail(span, format!("'{dim}' has no coordinate that says the time of each index")),
    };
    let (n, unit) = period(text, span)?;
    let dates = moments(&time, span)?;
    if let Some(w) = dates.windows(2).find(|w| w[0].fields() > w[1].fields()) {
        let message = format!("'{dim}' does not ascend, so it cannot be cut into periods: {} stands before {}", w[0], w[1]);
        let descends = dates.windows(2).all(|w| w[0].fields() >= w[1].fields());
        let help = match descends {
            true => format!("turn it round first: {}(isel(x, {dim}=::-1), {dim}=\"{text}\")", a.function),
            false => format!("put the times in order first: isel(x, {dim}=[...]) takes them in another order"),
        };
        return Err(BuildError { message, span: span.clone(), help: Some(help) });
    }
    let (units, calendar) = (time.text_attribute("units"), time.text_attribute("calendar"));
    let encode = |f: [f64; 6]| calendar::encode(f, units, calendar).or_else(|e| fail(span, e));
    let months = |d: &DateTime| d.year * 12 + i64::from(d.month) - 1;
    // The period that each time is in, counted from that of the first one, and where each begins.
    let (labels, starts): (Vec<i64>, Vec<f64>) = match (unit, dates.first()) {
        (_, None) => (Vec::new(), Vec::new()),
        ('Y' | 'Q' | 'M', Some(first)) => {
            let length = n * match unit {
                'Y' => 12,
                'Q' => 3,
                _ => 1,
            };
            let origin = match unit {
                'Y' => first.year * 12,
                'Q' => months(first).div_euclid(3) * 3,
                _ => months(first),
            };
            let labels: Vec<i64> = dates.iter().map(|d| (months(d) - origin).div_euclid(length)).collect();
            let start = |k: i64| {
                let m = origin + k * length;
                encode([m.div_euclid(12) as f64, (m.rem_euclid(12) + 1) as f64, 1.0, 0.0, 0.0, 0.0])
            };
            let starts = (0..=labels.last().copied().unwrap_or(0)).map(start).collect::<Result<_, _>>()?;
            (labels, starts)
        }
        (_, Some(first)) => {
            let midnight = encode([first.year as f64, first.month.into(), first.day.into(), 0.0, 0.0, 0.0])?;
            // In seconds, and divided last: an hour is no float of days.
            let scale = calendar::seconds(units, calendar).or_else(|e| fail(span, e))?;
            let length = n as f64 * if unit == 'D' { 86400.0 } else { 3600.0 };
            let values = time.floats().unwrap_or_default();
            let labels: Vec<i64> = values.iter().map(|v| ((v - midnight) * scale / length + 1e-9).floor() as i64).collect();
            // The first period is the first that has a time.
            let skipped = labels.first().copied().unwrap_or(0);
            let starts = (skipped..=labels.last().copied().unwrap_or(0)).map(|k| midnight + k as f64 * length / scale).collect();
            (labels.iter().map(|l| l - skipped).collect(), starts)
        }
    };
    if starts.len() > 1 << 24 {
        return fail(span, "there would be too many periods");
    }
    let by = Groups { axis, labels: &labels, count: starts.len() as u64, dim: Some(dim) };
    let out = periods(&x, by, function, skip_nan).map_err(at(span))?;
    let mut attributes = time.attributes.clone();
    attributes.remove("bounds");
    let whole = starts.iter().all(|v| v.fract() == 0.0 && v.abs() < 9e15);
    let coord = if whole {
        Coord::integers(dim, &starts.iter().map(|v| *v as i64).collect::<Vec<_>>(), attributes)
    } else {
        let bytes = starts.iter().flat_map(|v| v.to_ne_bytes()).collect();
        Coord::numbers(dim, dim, DType::Float64, bytes, attributes)
    };
    Ok(with_groups(&out, &x, axis, Some(coord)))
}

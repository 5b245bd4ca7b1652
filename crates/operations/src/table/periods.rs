//! Reductions of successive periods of a dimension of times.

use super::call::axis_named;
use super::groups::{chosen, moments, options, with_groups};
use super::parameter::{Parameter, x};
use super::{Call, Category, Each, Operation};
use crate::calendar::{self, DateTime};
use crate::elementwise::{astype, elementwise};
use crate::group::{GroupOp, Groups, groupby};
use crate::value::fail;
use crate::{Array, CallError, Coord, OpError, Value, create};
use chunkwise_kernels::ElementOp;
use chunkwise_types::{DType, Scalar};
use std::collections::HashSet;

static PERIODS: Category = Category {
    title: "Periods",
    about: r#"
These functions reduce successive periods of one dimension of times. A period is a number and `Y`, `Q`, `M`, `D` or `h`: `"1M"` is each month, `"10D"` ten
days, `"6h"` six hours. The first period begins with the year, quarter, month or day of the first time; hours count from midnight. The dimension keeps its
name, and each period has the label of its beginning. Times must ascend.

NaN is left out, unless `skipna=False`; to `any` and `all` NaN is true. A period that has times but only NaN has the sum and the count 0, the product 1, and NaN
otherwise. **A period without any time is NaN, whatever the function**, as in xarray: integers and conditions become floats where there is one.
"#,
};

/// A period such as `1M`: how many, and of what (`Y`, `Q`, `M`, `D`, `h`).
fn period(text: &str) -> Result<(i64, char), CallError> {
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
        _ => fail(format!("'{text}' is not a period; write a number and Y, Q, M, D or h, such as \"1M\" or \"6h\"")),
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
fn resampled(c: &Call<'_>, function: GroupOp) -> Result<Array, CallError> {
    let (x, name) = (c.array("x")?, c.operation.name);
    let (function, skip_nan) = chosen(c, function)?;
    let [(dim, Value::Str(text), _)] = c.dimensions() else {
        return fail(format!("{name}() needs one dimension and its period, such as {name}(x, time=\"1M\")"));
    };
    let axis = axis_named(&x, dim)?;
    let time = match x.index_of(dim) {
        Some(c) if c.is_time() => c.clone(),
        _ => return fail(format!("'{dim}' has no coordinate that says the time of each index")),
    };
    let (n, unit) = period(text)?;
    let dates = moments(&time)?;
    if let Some(w) = dates.windows(2).find(|w| w[0].fields() > w[1].fields()) {
        let message = format!("'{dim}' does not ascend, so it cannot be cut into periods: {} stands before {}", w[0], w[1]);
        let descends = dates.windows(2).all(|w| w[0].fields() >= w[1].fields());
        let help = match descends {
            true => format!("turn it round first: {}(isel(x, {dim}=::-1), {dim}=\"{text}\")", name),
            false => format!("put the times in order first: isel(x, {dim}=[...]) takes them in another order"),
        };
        return Err(CallError::new(message).with_help(help));
    }
    let (units, calendar) = (time.text_attribute("units"), time.text_attribute("calendar"));
    let encode = |f: [f64; 6]| calendar::encode(f, units, calendar).map_err(CallError::new);
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
            let scale = calendar::seconds(units, calendar).map_err(CallError::new)?;
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
        return fail("there would be too many periods");
    }
    let by = Groups { axis, labels: &labels, count: starts.len() as u64, dim: Some(dim) };
    let out = periods(&x, by, function, skip_nan)?;
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

fn resample(name: &'static str, function: GroupOp, text: &'static str) -> Operation {
    let needs = format!("{name}() needs one dimension and its period, such as {name}(x, time=\"1M\")");
    let mut parameters = vec![x(), Parameter::by_dimension(Each::Period, "time=\"1M\"").missing(needs)];
    parameters.extend(options(function).into_iter().map(Parameter::by_name));
    Operation::new(name, &PERIODS, text, parameters, move |c| resampled(c, function)).grouped_by(function)
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        resample(
            "resample_mean",
            GroupOp::Mean,
            r#"
The mean of each period.

>>> resample_mean(t, time="1M")
float64 (time: 3, lat: 2) [[21, 10.5], [23, 13.5], [25, 18]]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: t.resample(time="1MS").mean()
>>> resample_mean(m, time="1M", skipna=False)
float64 (time: 3) [nan, 3.5, nan]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: m.resample(time="1MS").mean(skipna=False)
"#,
        ),
        resample(
            "resample_sum",
            GroupOp::Sum,
            r#"
The sum of each period.

>>> resample_sum(m, time="1M")
float64 (time: 3) [1, 7, 0]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: m.resample(time="1MS").sum()
>>> resample_sum(isel(m, time=[0, 4]), time="1M")
float64 (time: 3) [1, nan, 0]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: m.isel(time=[0, 4]).resample(time="1MS").sum()
"#,
        ),
        resample(
            "resample_prod",
            GroupOp::Prod,
            r#"
The product of each period.

>>> resample_prod(m, time="1M")
float64 (time: 3) [1, 12, 1]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: m.resample(time="1MS").prod()
"#,
        ),
        resample(
            "resample_count",
            GroupOp::Count,
            r#"
How many elements of each period are not NaN: int64.

>>> resample_count(m, time="1M")
int64 (time: 3) [1, 2, 0]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: m.resample(time="1MS").count()
"#,
        ),
        resample(
            "resample_min",
            GroupOp::Min,
            r#"
The least element of each period.

>>> resample_min(m, time="1Q")
float64 (time: 1) [1]
time: [2020-01-01]
# xarray: m.resample(time="1QS").min()
"#,
        ),
        resample(
            "resample_max",
            GroupOp::Max,
            r#"
The greatest element of each period.

>>> resample_max(t, time="2M")
float64 (time: 2, lat: 2) [[25, 14], [26, 19]]
time: [2020-01-01, 2020-03-01]
# xarray: t.resample(time="2MS").max()
"#,
        ),
        resample(
            "resample_var",
            GroupOp::Var(0.0),
            r#"
The variance of each period; `correction` as for `var`.

>>> resample_var(t, time="1M")
float64 (time: 3, lat: 2) [[1, 0.25], [4, 0.25], [1, 1]]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: t.resample(time="1MS").var()
"#,
        ),
        resample(
            "resample_std",
            GroupOp::Std(0.0),
            r#"
The standard deviation of each period.

>>> resample_std(t, time="1M")
float64 (time: 3, lat: 2) [[1, 0.5], [2, 0.5], [1, 1]]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: t.resample(time="1MS").std()
"#,
        ),
        resample(
            "resample_any",
            GroupOp::Any,
            r#"
Whether any element of each period is true.

>>> resample_any(wet, time="1M")
bool (time: 3) [True, True, False]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: wet.resample(time="1MS").any()
>>> resample_any(wet[2:4], time="5D")
float64 (time: 4) [1, nan, nan, 1]
time: [2020-02-01, 2020-02-06, 2020-02-11, 2020-02-16]
# xarray: wet[2:4].resample(time="5D").any()
"#,
        ),
        resample(
            "resample_all",
            GroupOp::All,
            r#"
Whether all elements of each period are true.

>>> resample_all(wet, time="1M")
bool (time: 3) [False, True, False]
time: [2020-01-01, 2020-02-01, 2020-03-01]
# xarray: wet.resample(time="1MS").all()
"#,
        ),
    ]
}

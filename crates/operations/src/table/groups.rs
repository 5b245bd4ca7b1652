//! Groups by labels or by parts of a time, and the look-up that undoes them. The reductions are in [`crate::group`].

use super::call::axis_named;
use super::parameter::{Default, Parameter, axis, correction, skipna, x};
use super::reductions::{PRODUCT, SUM, VARIANCE};
use super::{Attributes, Call, Category, Kind, Operation, no_dim};
use crate::calendar::{self, DateTime};
use crate::group::{GroupOp, Groups, groupby};
use crate::value::fail;
use crate::{Array, CallError, Coord, Value, index};
use std::sync::Arc;

static GROUPS: Category = Category {
    title: "Groups of times",
    about: r#"
These functions reduce the elements of each group along one dimension. Groups are parts of a time, `"time.month"`, or are given as a list of integers,
one for each index.

The parts are `year`, `month`, `day`, `dayofyear`, `season`, `hour` and `date`. The dimension is replaced by one with the name of the part and a coordinate
with those groups that occur, in ascending order; seasons are DJF, MAM, JJA, SON. Integers are the positions of the groups in the result, which has no
labels there; an element with -1 is in no group.

NaN is left out, unless `skipna=False`. A group in which all is NaN is NaN. To `any` and `all` NaN is true.
"#,
};

impl Operation {
    /// What a reduction of groups does to attributes and times, whatever the groups are.
    pub(super) fn grouped_by(self, function: GroupOp) -> Operation {
        match function {
            GroupOp::Sum => self.attributes(Attributes::Units).no_times(SUM),
            GroupOp::Prod => self.no_times(PRODUCT),
            GroupOp::Var(_) => self.no_times(VARIANCE),
            GroupOp::Std(_) => self.attributes(Attributes::Units).no_times(VARIANCE),
            GroupOp::Mean | GroupOp::Min | GroupOp::Max => self.attributes(Attributes::Quantity),
            GroupOp::Count | GroupOp::Any | GroupOp::All => self,
        }
    }
}

/// The options of a reduction of groups: functions that do not compute with the values leave NaN out, without a choice.
pub(super) fn options(function: GroupOp) -> Vec<Parameter> {
    match function {
        GroupOp::Any | GroupOp::All | GroupOp::Count => Vec::new(),
        GroupOp::Var(_) | GroupOp::Std(_) => vec![correction(), skipna()],
        _ => vec![skipna()],
    }
}

/// The reduction with its options: what is taken off the number of elements, and whether NaN is left out.
pub(super) fn chosen(c: &Call<'_>, function: GroupOp) -> Result<(GroupOp, bool), CallError> {
    Ok(match function {
        GroupOp::Any | GroupOp::All | GroupOp::Count => (function, true),
        GroupOp::Var(_) => (GroupOp::Var(c.real("correction")?), c.flag("skipna")?),
        GroupOp::Std(_) => (GroupOp::Std(c.real("correction")?), c.flag("skipna")?),
        _ => (function, c.flag("skipna")?),
    })
}

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
fn times(dim: &str, array: Option<&Array>, inputs: &[Array]) -> Result<Arc<Coord>, CallError> {
    let usable = |c: &Arc<Coord>| -> Result<Arc<Coord>, CallError> {
        if c.labels == crate::Labels::Lost {
            return fail(format!("the times of '{dim}' are not known any more: the array was joined, padded or shifted"));
        }
        if !c.is_time() {
            return fail(format!("'{dim}' holds no times: its coordinate has no units such as \"days since 1970-01-01\""));
        }
        Ok(c.clone())
    };
    if let Some(a) = array.filter(|a| a.axis_named(dim).is_some()) {
        return match a.index_of(dim) {
            Some(c) => usable(c),
            None => fail(format!("'{dim}' has no coordinate that says the time of each index")),
        };
    }
    let mut found: Vec<&Arc<Coord>> = Vec::new();
    for c in inputs.iter().filter_map(|a| a.index_of(dim)) {
        if !found.iter().any(|f| f.difference(c).is_none()) {
            found.push(c);
        }
    }
    match found[..] {
        [one] => usable(one),
        [] => fail(format!("there is no coordinate '{dim}' of the inputs, which says the time of each index")),
        [a, b, ..] => Err(CallError::new(format!("the inputs have different times: {} and {}", a.summary(), b.summary()))
            .with_help("name the array whose times are meant: lookup(x, \"time.month\", like=that array)")),
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

fn group_labels(c: &Call<'_>, of: Option<&Array>) -> Result<Labels, CallError> {
    c.read("by", &[Kind::Groups, Kind::Lookup], |by, _| match by {
        Value::Str(text) => {
            let Some((dim, part)) = text.split_once('.') else {
                return fail(format!("'{text}' must name the dimension of the times and the part, like \"time.month\""));
            };
            let time = times(dim, of, c.context.inputs)?;
            let moments = moments(&time)?;
            let (labels, values) = calendar::labels(&moments, part).map_err(CallError::new)?;
            let groups = part_coord(part, &values);
            Ok(Labels { time: Some((dim.into(), time)), of: labels, count: values.len() as u64, groups: Some(groups) })
        }
        v => {
            let labels = v.ints()?;
            let count = labels.iter().max().map_or(0, |m| m + 1).max(0) as u64;
            Ok(Labels { time: None, of: labels, count, groups: None })
        }
    })
}

pub(super) fn moments(time: &Coord) -> Result<Vec<DateTime>, CallError> {
    let values = time.floats().unwrap_or_default();
    calendar::decode(&values, time.text_attribute("units"), time.text_attribute("calendar")).map_err(CallError::new)
}

fn grouped(c: &Call<'_>, function: GroupOp) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let labels = group_labels(c, Some(&x))?;
    let axis = match &labels.time {
        Some((d, _)) => axis_named(&x, d)?,
        None => c.axis("axis", &x)?,
    };
    let (function, skip_nan) = chosen(c, function)?;
    let dim = labels.groups.as_ref().map(|g| g.name.clone());
    let by = Groups { axis, labels: &labels.of, count: labels.count, dim: dim.as_deref() };
    let out = groupby(&x, by, function, skip_nan)?;
    Ok(with_groups(&out, &x, axis, labels.groups))
}

/// The groups of an array with its coordinates along the other dimensions, and that of the groups.
pub(super) fn with_groups(out: &Array, x: &Array, axis: usize, groups: Option<Coord>) -> Array {
    let along = |c: &Arc<Coord>| x.dims()[axis].as_ref().is_some_and(|d| c.dims.contains(d));
    let mut coords: Vec<Arc<Coord>> = x.coords().iter().filter(|c| !along(c)).cloned().collect();
    coords.extend(groups.map(Arc::new));
    out.with_coords(coords)
}

/// `lookup(climatology, "time.month")`: the group of each time of the inputs, or of the array `like`.
fn lookup(c: &Call<'_>) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let like = c.read("like", &[Kind::Array], |v, _| if v.is_none() { Ok(None) } else { v.array().map(Some) })?;
    let labels = group_labels(c, like.as_ref())?;
    let Some(((dim, time), groups)) = labels.time.zip(labels.groups) else {
        return Ok(index::take(&x, &labels.of, c.axis("axis", &x)?)?);
    };
    let Some(axis) = x.axis_named(&groups.name) else {
        let help = format!("lookup() takes what a group function made: lookup(groupby_mean(x, \"{dim}.{0}\"), \"{dim}.{0}\")", groups.name);
        return Err(CallError::new(no_dim(&x, &groups.name)).with_help(help));
    };
    let mut list = labels.of;
    // The groups that `x` has may be others than those of these times.
    if let Some(own) = x.index_of(&groups.name).filter(|own| own.difference(&groups).is_some()) {
        let (there, wanted) = (own.shown(), groups.shown());
        let place = |w: &String| match there.iter().position(|t| t == w) {
            Some(i) => Ok(i as i64),
            None => fail(format!("there is no group {w} in {}, but times that belong to it", own.summary())),
        };
        let places = wanted.iter().map(place).collect::<Result<Vec<i64>, _>>()?;
        list = list.iter().map(|&l| places.get(l as usize).copied().unwrap_or(0)).collect();
    }
    let out = index::take(&x, &list, axis)?;
    let mut dims = out.dims().to_vec();
    dims[axis] = Some(dim);
    Ok(out.with_dims(dims).with_coord((*time).clone()))
}

fn group(name: &'static str, function: GroupOp, text: &'static str) -> Operation {
    let mut parameters = vec![x(), Parameter::new("by", Kind::Groups), axis(0)];
    parameters.extend(options(function));
    Operation::new(name, &GROUPS, text, parameters, move |c| grouped(c, function))
        .such_as(format!("{name}(x, \"time.month\")"))
        .grouped_by(function)
}

pub(super) fn operations() -> Vec<Operation> {
    let like = Parameter::or("like", Kind::Array, Default::None);
    let by = Parameter::new("by", Kind::Lookup);
    vec![
        group("groupby_mean", GroupOp::Mean, r#"
The mean of each group.

>>> groupby_mean(t, "time.month")
float64 (month: 3, lat: 2) [[21, 10.5], [23, 13.5], [25, 18]]
month: [1, 2, 3]
# xarray: t.groupby("time.month").mean()
>>> groupby_mean(m, "time.month", skipna=False)
float64 (month: 3) [nan, 3.5, nan]
month: [1, 2, 3]
# xarray: m.groupby("time.month").mean(skipna=False)
>>> groupby_mean(t, "time.season")
float64 (season: 2, lat: 2) [[22, 12], [25, 18]]
season: [DJF, MAM]
# xarray: t.groupby("time.season").mean()
"#),
        group("groupby_sum", GroupOp::Sum, r#"
The sum of each group; 0 where all is left out.

>>> groupby_sum(m, "time.month")
float64 (month: 3) [1, 7, 0]
month: [1, 2, 3]
# xarray: m.groupby("time.month").sum()
>>> groupby_sum(p, [0, 0, 1, -1])
float64 (2) [1.5, 2]
# numpy: [p[:2].sum(), p[2]]
"#),
        group("groupby_prod", GroupOp::Prod, r#"
The product of each group; 1 where all is left out.

>>> groupby_prod(t, "time.year")
float64 (year: 1, lat: 2) [[1.44144e+08, 6.46646e+06]]
year: [2020]
# xarray: t.groupby("time.year").prod()
"#),
        group("groupby_count", GroupOp::Count, r#"
How many elements of each group are not NaN: int64.

>>> groupby_count(m, "time.month")
int64 (month: 3) [1, 2, 0]
month: [1, 2, 3]
# xarray: m.groupby("time.month").count()
"#),
        group("groupby_min", GroupOp::Min, r#"
The least element of each group.

>>> groupby_min(t, "time.month")
float64 (month: 3, lat: 2) [[20, 10], [21, 13], [24, 17]]
month: [1, 2, 3]
# xarray: t.groupby("time.month").min()
"#),
        group("groupby_max", GroupOp::Max, r#"
The greatest element of each group.

>>> groupby_max(t, "time.month")
float64 (month: 3, lat: 2) [[22, 11], [25, 14], [26, 19]]
month: [1, 2, 3]
# xarray: t.groupby("time.month").max()
"#),
        group("groupby_var", GroupOp::Var(0.0), r#"
The variance of each group; `correction` as for `var`.

>>> groupby_var(t, "time.month")
float64 (month: 3, lat: 2) [[1, 0.25], [4, 0.25], [1, 1]]
month: [1, 2, 3]
# xarray: t.groupby("time.month").var()
"#),
        group("groupby_std", GroupOp::Std(0.0), r#"
The standard deviation of each group.

>>> groupby_std(t, "time.month", correction=1)
float64 (month: 3, lat: 2) [[1.41421, 0.707107], [2.82843, 0.707107], [1.41421, 1.41421]]
month: [1, 2, 3]
# xarray: t.groupby("time.month").std(ddof=1)
"#),
        group("groupby_any", GroupOp::Any, r#"
Whether any element of each group is true.

>>> groupby_any(wet, "time.month")
bool (month: 3) [True, True, False]
month: [1, 2, 3]
# xarray: wet.groupby("time.month").any()
>>> groupby_any(m, "time.month")
bool (month: 3) [True, True, True]
month: [1, 2, 3]
# xarray: m.groupby("time.month").any()
"#),
        group("groupby_all", GroupOp::All, r#"
Whether all elements of each group are true.

>>> groupby_all(wet, "time.month")
bool (month: 3) [False, True, False]
month: [1, 2, 3]
# xarray: wet.groupby("time.month").all()
"#),
        Operation {
            labels_advice: Some("lookup(..., like=x) has the times of x"),
            ..Operation::new("lookup", &GROUPS, r#"
The group of each time: the opposite of `groupby_mean`. With it anomalies are `t - lookup(climatology, "time.month")`. The times are those of the inputs,
which must agree; if they do not, `like=x` names the array whose times are meant. The result has the dimension of the times and their coordinate. With a
list of integers it takes these positions, as `take` does.

>>> t - lookup(groupby_mean(t, "time.month"), "time.month")
float64 (time: 6, lat: 2) [[-1, -0.5], [1, 0.5], [-2, -0.5], [2, 0.5], [-1, -1], [1, 1]]
# xarray: (t.groupby("time.month") - t.groupby("time.month").mean()).drop_vars("month")
>>> lookup(groupby_max(m, "time.month"), "time.month", like=m[time="2020-02"])
float64 (time: 2) [4, 4]
time: [2020-02-01, 2020-02-16]
# xarray: m.groupby("time.month").max().sel(month=m.sel(time="2020-02").time.dt.month).drop_vars("month")
"#, [x(), by, axis(0), like], lookup)
        }
        .such_as("lookup(climatology, \"time.month\", like=x)")
        .attributes(Attributes::All),
    ]
}

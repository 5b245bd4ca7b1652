//! Selection by label and by index along named dimensions. How labels are found is in [`crate::select`].

use super::call::{axis_meant, axis_named};
use super::parameter::{Default, Parameter, axis, x};
use super::{Attributes, Call, Category, Each, Kind, Operation};
use crate::lookup::take_along_axis;
use crate::select::{Label, Method, Place, Wanted, find};
use crate::value::fail;
use crate::{Array, CallError, Value, index, suggest};
use chunkwise_types::Scalar;

static SELECTION: Category = Category {
    title: "Selection",
    about: "The index `x[...]` selects too: [choosing elements](pipelines.md#choosing-elements). Labels, attributes and dtype stay with the elements.",
};

/// Says that an array has no such dimension, and which it has.
pub fn no_dim(a: &Array, dim: &str) -> String {
    let names: Vec<&str> = a.dims().iter().flatten().map(String::as_str).collect();
    let hint = suggest(dim, names.iter().copied()).map(|s| format!("; did you mean '{s}'?")).unwrap_or_default();
    if let Some(c) = a.coord(dim).filter(|c| c.own_dims().len() != 1 || !c.is_index()) {
        let along = if c.own_dims().is_empty() { "no dimension".into() } else { c.own_dims().join(", ") };
        return format!(
            "'{dim}' is no dimension but a coordinate along {along}; choose by it with where(), such as where(ds.{dim} > 10, x, nan)"
        );
    }
    if a.rank() == 0 {
        format!("there is no dimension '{dim}': the array has no dimensions any more")
    } else if names.is_empty() {
        format!("there is no dimension '{dim}': the array's dimensions have no names, so use axis=")
    } else {
        format!("there is no dimension '{dim}'; the array has {}{hint}", names.join(", "))
    }
}

fn label(v: &Value) -> Result<Option<Label>, CallError> {
    match v {
        Value::Scalar(s) if !matches!(s, Scalar::Complex(..)) => Ok(Some(Label::Number(s.as_f64()))),
        Value::Str(t) => Ok(Some(Label::Text(t.clone()))),
        Value::None => Ok(None),
        _ => fail("a label is a number or a text"),
    }
}

/// What a value selects: a label, a list of labels, or a range of them.
///
/// # Errors
/// If it is none of these.
pub fn wanted(v: &Value) -> Result<Wanted, CallError> {
    let some = |v: &Value| label(v)?.map_or_else(|| fail("a label is a number or a text"), Ok);
    Ok(match v {
        Value::List(items) => Wanted::Several(items.iter().map(some).collect::<Result<_, _>>()?),
        Value::Slice(parts) => {
            let step = if parts[2].is_none() { 1 } else { parts[2].int()? };
            Wanted::Between(label(&parts[0])?, label(&parts[1])?, step)
        }
        v => Wanted::One(some(v)?),
    })
}

/// The elements with these labels along a dimension; by index if the dimension has no labels.
///
/// # Errors
/// If there is no such dimension, or no such label.
pub fn along(a: &Array, dim: &str, wanted: &Wanted, method: Method) -> Result<Array, CallError> {
    let axis = axis_named(a, dim)?;
    let Some(coord) = a.index_of(dim) else { return by_index(a, dim, axis, wanted) };
    Ok(match find(coord, wanted, method).map_err(CallError::new)? {
        Place::At(i) => index::item(a, axis, i as i64),
        Place::Range { start, len, step } => {
            let stop = start as i64 + len as i64 * step;
            index::slice(a, axis, Some(start as i64), Some(stop), Some(step))
        }
        Place::List(list) => index::take(a, &list.iter().map(|i| *i as i64).collect::<Vec<_>>(), axis),
    }?)
}

/// A dimension without labels is indexed, as in xarray.
fn by_index(a: &Array, dim: &str, axis: usize, wanted: &Wanted) -> Result<Array, CallError> {
    let whole = |l: &Label| match l {
        Label::Number(v) if v.fract() == 0.0 && v.abs() < 9e15 => Ok(*v as i64),
        l => fail(format!("'{dim}' has no labels, so {l} cannot be found in it; give an index")),
    };
    Ok(match wanted {
        Wanted::One(l) => index::item(a, axis, whole(l)?),
        Wanted::Several(list) => index::take(a, &list.iter().map(whole).collect::<Result<Vec<_>, _>>()?, axis),
        Wanted::Between(from, to, step) => {
            index::slice(a, axis, from.as_ref().map(whole).transpose()?, to.as_ref().map(whole).transpose()?, Some(*step))
        }
    }?)
}

/// `isel(x, time=0, lat=2:8)`: by index.
fn isel(c: &Call<'_>) -> Result<Array, CallError> {
    let part = |v: &Value| if v.is_none() { Ok(None) } else { v.int().map(Some) };
    c.dimensions().iter().try_fold(c.array("x")?, |x, (dim, v, place)| {
        let axis = axis_meant(&x, dim)?;
        let out = || {
            Ok(match v {
                Value::List(_) => index::take(&x, &v.ints()?, axis),
                Value::Slice(p) => index::slice(&x, axis, part(&p[0])?, part(&p[1])?, part(&p[2])?),
                Value::Str(t) => {
                    let e = CallError::new(format!("isel() takes indices, and \"{t}\" is a label"));
                    return Err(e.with_help(format!("write sel(x, {dim}=\"{t}\")")));
                }
                v => index::item(&x, axis, v.int()?),
            }?)
        };
        out().map_err(|e: CallError| e.about(Some(place)))
    })
}

/// `sel(x, lat=12.3, method="nearest", tolerance=0.5)`: by label.
fn sel(c: &Call<'_>) -> Result<Array, CallError> {
    let tolerance = c.number("tolerance")?.map(|s| s.as_f64());
    let method = match c.choice("method")? {
        None if tolerance.is_some() => return fail("'tolerance' needs method=\"nearest\""),
        None => Method::Exact,
        Some(_) => Method::Nearest(tolerance),
    };
    c.dimensions().iter().try_fold(c.array("x")?, |x, (dim, v, place)| {
        axis_named(&x, dim)?;
        wanted(v).and_then(|w| along(&x, dim, &w, method)).map_err(|e| e.about(Some(place)))
    })
}

/// A part of a time is no label.
fn means_lookup(values: &[Value]) -> Option<CallError> {
    let part = values.iter().any(|v| matches!(v, Value::Str(t) if t.contains('.')));
    let message = "sel() takes labels, such as sel(x, time=\"2019-06\"); to look up the group of each time write lookup(x, \"time.month\")";
    part.then(|| CallError::new(message))
}

pub(super) fn operations() -> Vec<Operation> {
    let labels = Parameter::by_dimension(Each::Label, "time=\"2019-06\", lat=10.0:20.0")
        .missing("sel() needs the labels of a dimension, such as sel(x, time=\"2019-06\") or sel(x, lat=10.0:20.0)");
    let indices = Parameter::by_dimension(Each::Index, "time=0, lat=2:8")
        .missing("isel() needs the indices of a dimension, such as isel(x, time=0) or isel(x, time=0:12)");
    let method = Parameter::or("method", Kind::Choice(&["nearest"]), Default::None).by_name();
    let tolerance = Parameter::or("tolerance", Kind::Number, Default::None).by_name();
    vec![
        Operation {
            mistake: Some(means_lookup),
            ..Operation::new("sel", &SELECTION, r#"
The elements with these labels: one, a list, or a range whose both ends belong to it. A date may be given in part. `method="nearest"` takes the
nearest label, at most `tolerance` away. A dimension of which one label was taken vanishes, and its label stays as a scalar coordinate.

>>> sel(t, time="2020-02")
float64 (time: 2, lat: 2) [[21, 13], [25, 14]]
time: [2020-02-01, 2020-02-16]
# xarray: t.sel(time="2020-02")
>>> sel(t, time="2020-01-10":"2020-02-10", lat=10)
float64 (time: 2) [22, 21]
lat: 10
time: [2020-01-16, 2020-02-01]
# xarray: t.sel(time=slice("2020-01-10", "2020-02-10"), lat=10)
>>> sel(t, lat=12.3, method="nearest", tolerance=5)
float64 (time: 6) [20, 22, 21, 25, 24, 26]
lat: 10
# xarray: t.sel(lat=12.3, method="nearest", tolerance=5)
"#, [x(), labels, method, tolerance], sel)
        }
        .attributes(Attributes::All),
        Operation::new("isel", &SELECTION, r#"
The elements at these indices of named dimensions: one, a list, or a slice whose end does not belong to it. Negative indices count from the end.

>>> isel(t, time=0:2, lat=-1)
float64 (time: 2) [10, 11]
lat: 20
time: [2020-01-01, 2020-01-16]
# xarray: t.isel(time=slice(0, 2), lat=-1)
"#, [x(), indices], isel)
            .attributes(Attributes::All),
        Operation::new("take", &SELECTION, r#"
The elements at a list of indices along one dimension, in this order; an index may occur twice. It is `x[[2, 0]]` for any dimension.

>>> take(t, [5, 0], dim="time")
float64 (time: 2, lat: 2) [[26, 19], [20, 10]]
time: [2020-03-16, 2020-01-01]
# xarray: t.isel(time=[5, 0])
"#, [x(), Parameter::new("indices", Kind::Ints), axis(0)], |c| {
            let x = c.array("x")?;
            Ok(index::take(&x, &c.ints("indices")?, c.axis("axis", &x)?)?)
        })
        .attributes(Attributes::All),
        Operation::new("take_along_axis", &SELECTION, r#"
The elements at positions that another array holds, such as those that [`argmax`](#argmax) found. The positions have as many dimensions as `x`; the other ones
are broadcast. The dimension may be longer than memory. A position that is out of bounds ends the run with an error.

>>> take_along_axis(i, i % 4)
int64 (4) [5, 12, 3, 6]
# numpy: np.take_along_axis(i, i % 4, axis=0)
>>> take_along_axis(a, argmin(a, axis=1, keepdims=True), axis=1)
int64 (2, 1) [[1], [4]]
# numpy: a.min(axis=1, keepdims=True)
"#, [x(), Parameter::new("indices", Kind::Array), axis(-1)], |c| {
            let x = c.array("x")?;
            Ok(take_along_axis(&x, &c.array("indices")?, c.axis("axis", &x)?)?)
        })
        .attributes(Attributes::Quantity),
    ]
}

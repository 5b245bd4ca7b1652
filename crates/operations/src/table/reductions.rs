//! Reductions over any dimensions. The rules for dtypes and NaN are in [`crate::reduce`].

use super::parameter::{Default, Parameter, correction, dim, x};
use super::{Attributes, Call, Category, Kind, Operation};
use crate::{Array, CallError, reduce};
use chunkwise_kernels::ReduceOp;

static REDUCTIONS: Category = Category {
    title: "Reductions",
    about: r#"
A reduction makes one element of all elements along the dimensions `dim`: a name, a position, or a list of these. Without `dim` it is that of the whole
array, which has no dimension. The dimensions vanish with their coordinates, unless `keepdims=True`, which keeps them with length 1.

`skipna` says whether NaN is left out. By default it is if the array comes from an input that declares missing values, as `t` and `m` do here, or from
`where(..., x, nan)`; else one NaN makes the result NaN, as `w` shows. The functions whose names begin with `nan` always leave it out. See [missing
values](numbers.md#missing-values).
"#,
};

pub(super) const SUM: &str = "a sum of times";
pub(super) const PRODUCT: &str = "a product of times";
pub(super) const VARIANCE: &str = "a variance of times";

/// A reduction, plain or as a mean or a variance.
#[derive(Clone, Copy)]
enum Function {
    Plain(ReduceOp),
    Mean,
    Var,
    Std,
}

/// What is done with NaN.
#[derive(Clone, Copy, PartialEq)]
enum Nan {
    /// It is true.
    True,
    /// As the user says, or as is usual for the array.
    Asked,
    /// It is left out.
    Skipped,
}

fn reduction(name: &'static str, function: Function, nan: Nan, text: &'static str) -> Operation {
    let mut parameters = vec![x(), dim()];
    if matches!(function, Function::Var | Function::Std) {
        parameters.push(correction());
    }
    parameters.push(Parameter::or("keepdims", Kind::Flag, Default::Flag(false)));
    if nan == Nan::Asked {
        parameters.push(Parameter::or("skipna", Kind::SkipNa, Default::None));
    }
    Operation::new(name, &REDUCTIONS, text, parameters, move |c| build(c, function, nan))
}

fn build(c: &Call<'_>, function: Function, nan: Nan) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let axes = c.axes("dim", &x)?;
    let (axes, keep) = (axes.as_deref(), c.flag("keepdims")?);
    let skip = match nan {
        Nan::True => false,
        Nan::Asked => c.skips_nan(&x)?,
        Nan::Skipped => true,
    };
    Ok(match function {
        Function::Plain(op) if skip => reduce::nan_reduce(&x, op, axes, keep),
        Function::Plain(op) => reduce::reduce(&x, op, axes, keep),
        Function::Mean if skip => reduce::nanmean(&x, axes, keep),
        Function::Mean => reduce::mean(&x, axes, keep),
        Function::Var => reduce::var(&x, axes, c.real("correction")?, keep, skip),
        Function::Std => reduce::std(&x, axes, c.real("correction")?, keep, skip),
    }?)
}

pub(super) fn operations() -> Vec<Operation> {
    use Function::{Mean, Plain, Std, Var};
    use Nan::{Asked, Skipped, True};
    vec![
        reduction(
            "sum",
            Plain(ReduceOp::Sum),
            Asked,
            r#"
The sum. Of integers and bool it is int64 or uint64, of floats their dtype. Where all is left out it is 0.

>>> sum(t, dim="time")
float64 (lat: 2) [138, 84]
# xarray: t.sum("time")
>>> sum(a, dim=1, keepdims=True)
int64 (2, 1) [[6], [15]]
# numpy: a.sum(axis=1, keepdims=True)
>>> sum(m)
float64 () 8
# xarray: m.sum()
>>> sum(w[:3])
float64 () nan
# numpy: w[:3].sum()
>>> sum(w[:3], skipna=True)
float64 () 5
# numpy: np.nansum(w[:3])
"#,
        )
        .attributes(Attributes::Units)
        .no_times(SUM),
        reduction(
            "prod",
            Plain(ReduceOp::Prod),
            Asked,
            r#"
The product, with the dtypes of `sum`. Where all is left out it is 1.

>>> prod(a, dim=0)
int64 (3) [4, 10, 18]
# numpy: a.prod(axis=0)
"#,
        )
        .no_times(PRODUCT),
        reduction(
            "mean",
            Mean,
            Asked,
            r#"
The mean. Of integers and bool it is float64, of floats their dtype.

>>> mean(t, dim="time")
float64 (lat: 2) [23, 14]
# xarray: t.mean("time")
>>> mean(m, skipna=False)
float64 () nan
# xarray: m.mean(skipna=False)
>>> mean(ds.t, dim=["time", "lat"])
float64 () 18.5
# xarray: ds.t.mean(["time", "lat"])
"#,
        )
        .attributes(Attributes::Quantity),
        reduction(
            "var",
            Var,
            Asked,
            r#"
The variance: the mean square of the distance from the mean. The sum of squares is divided by the number of elements minus `correction`.

>>> var(t, dim="time")
float64 (lat: 2) [4.66667, 10]
# xarray: t.var("time")
>>> var(p, correction=1)
float64 () 2.39583
# numpy: p.var(ddof=1)
"#,
        )
        .no_times(VARIANCE),
        reduction(
            "std",
            Std,
            Asked,
            r#"
The standard deviation, which is the root of `var`. It has the units of `x`.

>>> std(t, dim="time")
float64 (lat: 2) [2.16025, 3.16228]
# xarray: t.std("time")
"#,
        )
        .attributes(Attributes::Units)
        .no_times(VARIANCE),
        reduction(
            "min",
            Plain(ReduceOp::Min),
            Asked,
            r#"
The least element. Not for complex numbers. Without elements it is an error.

>>> min(t, dim="time")
float64 (lat: 2) [20, 10]
# xarray: t.min("time")
"#,
        )
        .attributes(Attributes::Quantity),
        reduction(
            "max",
            Plain(ReduceOp::Max),
            Asked,
            r#"
The greatest element. Not for complex numbers. Without elements it is an error.

>>> max(m)
float64 () 4
# xarray: m.max()
>>> max(a, dim=1, keepdims=True)
int64 (2, 1) [[3], [6]]
# numpy: a.max(axis=1, keepdims=True)
"#,
        )
        .attributes(Attributes::Quantity),
        reduction(
            "any",
            Plain(ReduceOp::Any),
            True,
            r#"
Whether any element is true, that is, not 0. NaN is true.

>>> any(t > 20, dim="time")
bool (lat: 2) [True, False]
# xarray: (t > 20).any("time")
"#,
        ),
        reduction(
            "all",
            Plain(ReduceOp::All),
            True,
            r#"
Whether all elements are true, that is, not 0. NaN is true.

>>> all(t > 15, dim="time")
bool (lat: 2) [True, False]
# xarray: (t > 15).all("time")
"#,
        ),
        reduction(
            "count_nonzero",
            Plain(ReduceOp::CountNonzero),
            True,
            r#"
How many elements are not 0, or of conditions, how many are true: int64. To count values that are not missing write `count_nonzero(~isnan(x), dim=...)`.

>>> count_nonzero(t > 20, dim="time")
int64 (lat: 2) [5, 0]
# xarray: (t > 20).sum("time")
"#,
        ),
        reduction(
            "argmin",
            Plain(ReduceOp::ArgMin),
            Asked,
            r#"
The position of the least element as int64, the first one if there are several. Without `dim` the position is that in the flattened array. NaN is left out
as for other reductions; where there is nothing but NaN, the position is -1. (xarray raises an error there, which a run that has begun could not.) Where NaN is not left
out, the first NaN is the position, as in NumPy.

>>> argmin(t, dim="time")
int64 (lat: 2) [0, 0]
# xarray: t.argmin("time")
>>> argmin(m)
int64 () 0
# xarray: m.argmin("time")
>>> argmin(m[time="2020-03"])
int64 () -1
>>> argmin(w, skipna=False)
int64 () 1
# numpy: w.argmin()
"#,
        ),
        reduction(
            "argmax",
            Plain(ReduceOp::ArgMax),
            Asked,
            r#"
The position of the greatest element; see `argmin`.

>>> argmax(a)
int64 () 5
# numpy: a.argmax()
"#,
        ),
        reduction(
            "nanargmin",
            Plain(ReduceOp::ArgMin),
            Skipped,
            r#"
`argmin` without NaN: the same as `skipna=True`.

>>> nanargmin(w)
int64 () 0
# numpy: np.nanargmin(w)
"#,
        ),
        reduction(
            "nanargmax",
            Plain(ReduceOp::ArgMax),
            Skipped,
            r#"
`argmax` without NaN: the same as `skipna=True`.

>>> nanargmax(w)
int64 () 3
# numpy: np.nanargmax(w)
"#,
        ),
        reduction(
            "nansum",
            Plain(ReduceOp::Sum),
            Skipped,
            r#"
`sum` without NaN: the same as `skipna=True`.

>>> nansum(w[:3])
float64 () 5
# numpy: np.nansum(w[:3])
"#,
        )
        .attributes(Attributes::Units)
        .no_times(SUM),
        reduction(
            "nanprod",
            Plain(ReduceOp::Prod),
            Skipped,
            r#"
`prod` without NaN.

>>> nanprod(w[:3])
float64 () 4
# numpy: np.nanprod(w[:3])
"#,
        )
        .no_times(PRODUCT),
        reduction(
            "nanmean",
            Mean,
            Skipped,
            r#"
`mean` without NaN. Where all is NaN it is NaN.

>>> nanmean(w[:3])
float64 () 2.5
# numpy: np.nanmean(w[:3])
"#,
        )
        .attributes(Attributes::Quantity),
        reduction(
            "nanvar",
            Var,
            Skipped,
            r#"
`var` without NaN.

>>> nanvar(w[:3])
float64 () 2.25
# numpy: np.nanvar(w[:3])
"#,
        )
        .no_times(VARIANCE),
        reduction(
            "nanstd",
            Std,
            Skipped,
            r#"
`std` without NaN.

>>> nanstd(w[:3])
float64 () 1.5
# numpy: np.nanstd(w[:3])
"#,
        )
        .attributes(Attributes::Units)
        .no_times(VARIANCE),
        reduction(
            "nanmin",
            Plain(ReduceOp::Min),
            Skipped,
            r#"
`min` without NaN. Where all is NaN it is NaN.

>>> nanmin(w[:3])
float64 () 1
# numpy: np.nanmin(w[:3])
"#,
        )
        .attributes(Attributes::Quantity),
        reduction(
            "nanmax",
            Plain(ReduceOp::Max),
            Skipped,
            r#"
`max` without NaN. Where all is NaN it is NaN.

>>> nanmax(w[:3])
float64 () 4
# numpy: np.nanmax(w[:3])
"#,
        )
        .attributes(Attributes::Quantity),
    ]
}

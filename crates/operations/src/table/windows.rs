//! Functions of a window around each element, differences, and padding. What they compute is in [`crate::stencil`].

use super::call::lengths;
use super::parameter::{Default, Parameter, axis, dim, fill, mode, x};
use super::reductions::SUM;
use super::{Attributes, Call, Category, Each, Kind, Operation};
use crate::stencil::{Boundary, Moving, moving, weighted};
use crate::value::fail;
use crate::{Array, CallError, Value, manipulate};
use chunkwise_kernels::PadMode;
use chunkwise_types::Scalar;

static WINDOWS: Category = Category {
    title: "Windows and differences",
    about: r#"
A window moves along one or more dimensions. `mode` says what is done at the ends. `"none"` computes only where the whole window lies in the array: the
result is shorter, and its labels are those of the elements in the middle of the windows (the later of two). The other modes keep the length and extend the array:
`"constant"` with `value`, `"edge"` with the last element, `"reflect"` and `"symmetric"` with its mirror image without or with the last element, and
`"wrap"` from the other end. NaN in a window gives NaN.
"#,
};

/// The modes of padding.
const PAD: &[&str] = &["constant", "edge", "reflect", "symmetric", "wrap"];
/// Those of windows, of which the first computes only what lies in the array.
const MODES: &[&str] = &["none", "constant", "edge", "reflect", "symmetric", "wrap"];

/// The mode that a parameter names; `None` for that of windows alone.
fn pad_mode(c: &Call<'_>) -> Result<Option<PadMode>, CallError> {
    Ok(match c.choice("mode")? {
        Some("constant") => Some(PadMode::Constant),
        Some("edge") => Some(PadMode::Edge),
        Some("reflect") => Some(PadMode::Reflect),
        Some("symmetric") => Some(PadMode::Symmetric),
        Some("wrap") => Some(PadMode::Wrap),
        _ => None,
    })
}

fn value(c: &Call<'_>) -> Result<Scalar, CallError> {
    Ok(c.number("value")?.unwrap_or(Scalar::Int(0)))
}

fn boundary(c: &Call<'_>) -> Result<Boundary, CallError> {
    let value = value(c)?;
    Ok(pad_mode(c)?.map_or(Boundary::None, |mode| Boundary::Pad(mode, value)))
}

/// `pad(x, [[before, after], ...], mode, value)`.
fn pad(c: &Call<'_>) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let widths = c.read("widths", &[Kind::Widths], |v, p| {
        let wrong = "the widths must be a list of [before, after]";
        let Value::List(items) = v else { return fail(wrong) };
        let pair = |v: &Value| match lengths(v, p.name)?.as_slice() {
            [before, after] => Ok((*before, *after)),
            _ => fail(wrong),
        };
        items.iter().map(pair).collect::<Result<Vec<(u64, u64)>, _>>()
    })?;
    Ok(manipulate::pad(&x, &widths, pad_mode(c)?.unwrap_or(PadMode::Constant), value(c)?)?)
}

/// Spreads the lengths of some axes over all of them, 1 elsewhere.
fn spread(x: &Array, axes: Option<Vec<usize>>, lengths: &[u64]) -> Result<Vec<u64>, CallError> {
    let axes = axes.unwrap_or_else(|| (0..x.rank()).collect());
    if axes.len() != lengths.len() {
        let (n, s) = (lengths.len(), if lengths.len() == 1 { "" } else { "s" });
        return fail(format!("{n} length{s} for {} dimensions; say which are meant, such as dim=\"time\" or axis=0", axes.len()));
    }
    let mut window = vec![1; x.rank()];
    for (i, (&axis, &n)) in axes.iter().zip(lengths).enumerate() {
        if axes[..i].contains(&axis) {
            return fail(format!("axis {axis} is named twice"));
        }
        window[axis] = n;
    }
    Ok(window)
}

/// `moving_mean(x, time=5)` or `moving_mean(x, 5, axis=0)`, and its siblings.
fn moving_function(c: &Call<'_>, function: Moving) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let boundary = boundary(c)?;
    let window = if c.optional("window")?.is_none() {
        let mut window = vec![1; x.rank()];
        let named = c.by_axis(&x, |axis, dim, n| Ok((axis, lengths(&Value::List(vec![n.clone()]), dim)?)))?;
        if named.is_empty() {
            return fail(format!("{}() needs the length of the window, such as time=5", c.operation.name));
        }
        for (axis, n) in named {
            window[axis] = n.first().copied().unwrap_or(1);
        }
        window
    } else if let Some((name, ..)) = c.dimensions().first() {
        return Err(c.operation.unknown(name));
    } else {
        spread(&x, c.axes("axis", &x)?, &c.lengths("window")?)?
    };
    Ok(moving(&x, function, &window, boundary)?)
}

/// The shape and the elements of nested lists of numbers.
fn nested(v: &Value, shape: &mut Vec<u64>, depth: usize, out: &mut Vec<f64>) -> Result<(), CallError> {
    match v {
        Value::Scalar(s) if depth == shape.len() && !matches!(s, Scalar::Complex(..)) => {
            out.push(s.as_f64());
            Ok(())
        }
        Value::List(items) => {
            let n = items.len() as u64;
            if depth == shape.len() && out.is_empty() {
                shape.push(n);
            }
            if shape.get(depth) != Some(&n) {
                return fail("the lists of the weights must have equal lengths");
            }
            items.iter().try_for_each(|i| nested(i, shape, depth + 1, out))
        }
        _ => fail("the weights must be numbers in nested lists, one level for each axis"),
    }
}

/// `stencil(x, [[...], ...], dim=..., mode=...)`, and `convolve`, which turns the weights round.
fn weighted_sum(c: &Call<'_>, turned: bool) -> Result<Array, CallError> {
    let x = c.array("x")?;
    let (shape, weights) = c.read("weights", &[Kind::Weights], |v, _| {
        let (mut shape, mut weights) = (Vec::new(), Vec::new());
        nested(v, &mut shape, 0, &mut weights).map(|()| (shape, weights))
    })?;
    let axes = c.axes("dim", &x)?;
    if axes.as_ref().is_some_and(|l| l.windows(2).any(|w| w[0] > w[1])) {
        return fail("the axes of the weights must be named in the order of the array's");
    }
    let window = spread(&x, axes, &shape)?;
    Ok(weighted(&x, &window, &weights, turned, boundary(c)?)?)
}

/// A function of the elements in a window. There are two forms: lengths by dimension, and lengths with axes.
fn window(name: &'static str, function: Moving, text: &'static str) -> Operation {
    let parameters = [
        x(),
        Parameter::or("window", Kind::Lengths, Default::None).form(2).shown("window"),
        Parameter::or("axis", Kind::Dims, Default::None).form(2),
        Parameter::by_dimension(Each::Window, "time=5").form(1),
        mode(MODES, "none").synonyms(&[("valid", "none")]),
        fill(),
    ];
    Operation::new(name, &WINDOWS, text, parameters, move |c| moving_function(c, function))
}

fn weights(name: &'static str, turned: bool, text: &'static str) -> Operation {
    let mode = mode(MODES, "none").synonyms(&[("valid", "none")]);
    let parameters = [x(), Parameter::new("weights", Kind::Weights), dim(), mode, fill()];
    Operation::new(name, &WINDOWS, text, parameters, move |c| weighted_sum(c, turned)).no_times("a weighted sum of times")
}

pub(super) fn operations() -> Vec<Operation> {
    let times = Parameter::or("n", Kind::Int, Default::Int(1));
    vec![
        window("moving_mean", Moving::Mean, r#"
The mean of the elements in a window of this length. Several dimensions may be named: `moving_mean(x, lat=3, lon=3)`.

>>> moving_mean(t, time=3)
float64 (time: 4, lat: 2) [[21, 11.3333], [22.6667, 12.6667], [23.3333, 14.6667], [25, 16.6667]]
time: [2020-01-16, 2020-02-01, 2020-02-16, 2020-03-01]
# xarray: t.rolling(time=3, center=True).mean().isel(time=slice(1, -1))
>>> moving_mean(p, 2, axis=0)
float64 (3) [0.75, 1.5, 3]
# numpy: (p[:-1] + p[1:]) / 2
>>> moving_mean(v, 3, axis=0, mode="edge")
float64 (4) [-1.16667, -0.5, 0.833333, 1.83333]
# numpy: np.convolve(np.pad(v, 1, "edge"), np.full(3, 1 / 3), "valid")
"#)
            .attributes(Attributes::Quantity),
        window("moving_sum", Moving::Sum, r#"
The sum of the elements in a window.

>>> moving_sum(i, 2, axis=0)
int64 (3) [9, 8, 17]
# numpy: i[:-1] + i[1:]
"#)
            .attributes(Attributes::Units)
            .no_times(SUM),
        window("moving_min", Moving::Min, r#"
The least element in a window.

>>> moving_min(t, time=3, mode="edge")
float64 (time: 6, lat: 2) [[20, 10], [20, 10], [21, 11], [21, 13], [24, 14], [24, 17]]
# xarray: t.rolling(time=3, center=True, min_periods=1).min()
"#)
            .attributes(Attributes::Quantity),
        window("moving_max", Moving::Max, r#"
The greatest element in a window.

>>> moving_max(i, 3, axis=0, mode="constant", value=7)
int64 (4) [7, 6, 12, 12]
# numpy: np.lib.stride_tricks.sliding_window_view(np.pad(i, 1, constant_values=7), 3).max(axis=1)
"#)
            .attributes(Attributes::Quantity),
        weights("stencil", false, r#"
The sum of the elements around each one, times weights: nested lists of numbers, one level for each dimension. Without `dim` there is a level for each
dimension of `x`.

>>> stencil(v, [1, -2, 1])
float64 (2) [0, 1]
# numpy: v[:-2] - 2 * v[1:-1] + v[2:]
>>> stencil(t, [-1, 0, 1], dim="time")
float64 (time: 4, lat: 2) [[1, 3], [3, 3], [3, 4], [1, 5]]
time: [2020-01-16, 2020-02-01, 2020-02-16, 2020-03-01]
# xarray: (t.shift(time=-1) - t.shift(time=1)).isel(time=slice(1, -1))
"#)
            .such_as("stencil(x, [[0, 1, 0], [1, -4, 1], [0, 1, 0]])"),
        weights("convolve", true, r#"
The convolution with weights. It is `stencil` with the weights in reverse order.

>>> convolve(v, [1, 2])
float64 (3) [-3.5, -0.5, 3.5]
# numpy: np.convolve(v, [1, 2], "valid")
"#),
        Operation::new("diff", &WINDOWS, r#"
The difference of successive elements along one dimension, by default the last one, `n` times. The result is shorter by `n`, and has the labels of the
later elements.

>>> diff(t, dim="time")
float64 (time: 5, lat: 2) [[2, 1], [-1, 2], [4, 1], [-1, 3], [2, 2]]
time: [2020-01-16, 2020-02-01, 2020-02-16, 2020-03-01, 2020-03-16]
# xarray: t.diff("time")
>>> diff(i, 2)
int64 (2) [5, 5]
# numpy: np.diff(i, 2)
"#, [x(), times, axis(-1)], |c| {
            let x = c.array("x")?;
            Ok(manipulate::diff(&x, c.int("n")?.max(0) as u64, c.axis("axis", &x)?)?)
        })
        .attributes(Attributes::Difference),
        Operation::new("pad", &WINDOWS, r#"
The array with more elements before and after, a pair of lengths for each dimension. The modes are those of windows, without `"none"`; the default is
`"constant"` with `value`. Dimensions that become longer lose their coordinates.

>>> pad(v, [[1, 2]], mode="edge")
float64 (7) [-1.5, -1.5, -0.5, 0.5, 2.5, 2.5, 2.5]
# numpy: np.pad(v, [[1, 2]], mode="edge")
>>> pad(i, [[0, 1]], value=-1)
int64 (5) [6, 3, 5, 12, -1]
# numpy: np.pad(i, [[0, 1]], constant_values=-1)
"#, [x(), Parameter::new("widths", Kind::Widths), mode(PAD, "constant"), fill()], pad)
            .such_as("pad(x, [[1, 1], [0, 2]])")
            .attributes(Attributes::All),
    ]
}

//! Padding, and functions of a window around each element.

use super::args::Args;
use crate::build::{BuildError, Value, at, fail};
use chunkwise_kernels::PadMode;
use chunkwise_ops::stencil::{Boundary, Moving, moving, weighted};
use chunkwise_ops::{Array, manipulate};
use chunkwise_types::Scalar;
use std::ops::Range;

/// The modes of [`PadMode`] by name.
const MODES: [(&str, PadMode); 5] = [
    ("constant", PadMode::Constant),
    ("edge", PadMode::Edge),
    ("reflect", PadMode::Reflect),
    ("symmetric", PadMode::Symmetric),
    ("wrap", PadMode::Wrap),
];

fn pad_mode(name: &str, span: &Range<usize>, more: &str) -> Result<PadMode, BuildError> {
    match MODES.iter().find(|(n, _)| *n == name) {
        Some((_, mode)) => Ok(*mode),
        None => fail(span, format!("there is no mode '{name}'; there are {more}constant, edge, reflect, symmetric, wrap")),
    }
}

fn value(a: &mut Args<'_>, position: usize) -> Result<Scalar, BuildError> {
    match a.get(position, "value") {
        Some(Value::Scalar(s)) => Ok(s),
        None => Ok(Scalar::Int(0)),
        Some(_) => fail(a.span, "the value must be a number"),
    }
}

/// `pad(x, [[before, after], ...], mode, value)`.
pub(super) fn pad(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let Value::List(items) = a.need(1, "widths")? else { return fail(span, "the widths must be a list of [before, after]") };
    let mut widths = Vec::new();
    for item in &items {
        match a.lengths(item, "widths")?.as_slice() {
            [before, after] => widths.push((*before, *after)),
            _ => return fail(span, "the widths must be a list of [before, after]"),
        }
    }
    let mode = a.text(2, "mode")?.map_or(Ok(PadMode::Constant), |m| pad_mode(&m, span, ""))?;
    let fill = value(a, 3)?;
    manipulate::pad(&x, &widths, mode, fill).map_err(at(span))
}

fn boundary(a: &mut Args<'_>) -> Result<Boundary, BuildError> {
    let mode = a.text(3, "mode")?;
    let fill = value(a, 4)?;
    Ok(match mode.as_deref() {
        None | Some("none" | "valid") => Boundary::None,
        Some(name) => Boundary::Pad(pad_mode(name, a.span, "none, ")?, fill),
    })
}

/// Spreads the lengths of some axes over all of them, 1 elsewhere.
fn spread(a: &Args<'_>, x: &Array, axes: Option<Vec<usize>>, lengths: &[u64]) -> Result<Vec<u64>, BuildError> {
    let axes = axes.unwrap_or_else(|| (0..x.rank()).collect());
    if axes.len() != lengths.len() {
        let (n, s) = (lengths.len(), if lengths.len() == 1 { "" } else { "s" });
        let message = format!("{n} length{s} for {} dimensions; say which are meant, such as dim=\"time\" or axis=0", axes.len());
        return fail(a.span, message);
    }
    let mut window = vec![1; x.rank()];
    for (i, (&axis, &n)) in axes.iter().zip(lengths).enumerate() {
        if axes[..i].contains(&axis) {
            return fail(a.span, format!("axis {axis} is named twice"));
        }
        window[axis] = n;
    }
    Ok(window)
}

/// `moving_mean(x, time=5)` or `moving_mean(x, 5, axis=0)`, and its siblings.
pub(super) fn moving_function(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let function = match a.function {
        "moving_sum" => Moving::Sum,
        "moving_mean" => Moving::Mean,
        "moving_min" => Moving::Min,
        _ => Moving::Max,
    };
    let boundary = boundary(a)?;
    let window = match a.get(1, "window") {
        None | Some(Value::None) => {
            a.whole();
            let mut window = vec![1; x.rank()];
            let named = std::mem::take(&mut a.named);
            if named.is_empty() {
                return fail(span, format!("{}() needs the length of the window, such as time=5", a.function));
            }
            for (dim, n) in named {
                let axis = a.axis_of(&x, &Value::Str(dim.clone()), 0)?;
                window[axis] = a.lengths(&Value::List(vec![n]), &dim)?[0];
            }
            window
        }
        Some(v) => {
            let lengths = a.lengths(&v, "window")?;
            let axes = a.axes(&x, 2)?;
            spread(a, &x, axes, &lengths)?
        }
    };
    moving(&x, function, &window, boundary).map_err(at(span))
}

/// The shape and the elements of nested lists of numbers.
fn nested(v: &Value, shape: &mut Vec<u64>, depth: usize, out: &mut Vec<f64>, span: &Range<usize>) -> Result<(), BuildError> {
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
                return fail(span, "the lists of the weights must have equal lengths");
            }
            items.iter().try_for_each(|i| nested(i, shape, depth + 1, out, span))
        }
        _ => fail(span, "the weights must be numbers in nested lists, one level for each axis"),
    }
}

/// `stencil(x, [[...], ...], dim=..., mode=...)`, and `convolve`, which turns the weights round.
pub(super) fn weighted_sum(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let (x, span) = (a.array(0, "x")?, a.span);
    let (mut shape, mut weights) = (Vec::new(), Vec::new());
    nested(&a.need(1, "weights")?, &mut shape, 0, &mut weights, span)?;
    let axes = a.axes(&x, 2)?;
    if axes.as_ref().is_some_and(|l| l.windows(2).any(|w| w[0] > w[1])) {
        return fail(span, "the axes of the weights must be named in the order of the array's");
    }
    let window = spread(a, &x, axes, &shape)?;
    let boundary = boundary(a)?;
    weighted(&x, &window, &weights, a.function == "convolve", boundary).map_err(at(span))
}

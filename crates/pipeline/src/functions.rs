//! The functions of the expression language.

mod args;
mod attributes;
mod elsewhere;
mod groups;
mod products;
pub(crate) mod selection;
mod table;
pub(crate) mod times;
mod windows;

use crate::build::{BuildError, Scope, Value, apply, at, build_expr, fail};
use crate::{Expr, ast::ExprKind};
use args::Args;
use chunkwise_kernels::{Distribution, ElementOp, ReduceOp};
use chunkwise_ops::align::by_label;
use chunkwise_ops::{Array, create, elementwise, index, manipulate, reduce};
use chunkwise_types::{AxisChunks, ChunkGrid, DType, Scalar};
pub use elsewhere::instead;
use std::ops::Range;
use table::{ALIASES, operands, signature};
pub use table::{FUNCTIONS, called, like};

/// Applies a function by name.
pub(crate) fn call(
    name: &str,
    name_span: &Range<usize>,
    args: &[Expr],
    kwargs: &[(String, Expr)],
    span: &Range<usize>,
    scope: &Scope<'_>,
) -> Result<Value, BuildError> {
    let name = ALIASES.iter().find(|(a, _)| *a == name).map_or(name, |(_, n)| n);
    let element = ElementOp::ALL.iter().find(|op| op.name() == name);
    if element.is_none() && !FUNCTIONS.iter().any(|(n, _)| *n == name) {
        let near = || like(name).map_or("`chunkwise functions` lists them all".into(), |s| format!("did you mean '{s}'?"));
        let help = Some(elsewhere::instead(name).map_or_else(near, String::from));
        return Err(BuildError { message: format!("there is no function '{name}'"), span: name_span.clone(), help });
    }
    // Dtype names may be written without quotes in other tools; here they are texts.
    debug_assert!(!matches!(args.first().map(|a| &a.kind), Some(ExprKind::Name(n)) if n.is_empty()));
    let values = args.iter().map(|e| build_expr(e, scope)).collect::<Result<Vec<_>, _>>()?;
    let named = kwargs.iter().map(|(n, e)| Ok((n.clone(), build_expr(e, scope)?))).collect::<Result<Vec<_>, BuildError>>()?;
    // A function of a dataset is the function of each variable.
    let all: Vec<Value> = values.iter().cloned().chain(named.iter().map(|(_, v)| v.clone())).collect();
    let positional = values.len();
    let lifted = all.iter().any(|v| matches!(v, Value::Dataset(_)));
    if lifted {
        crate::dataset::check_dims(&all, &dims_of(name, &values, &named), name, span)?;
    }
    crate::dataset::lift(&all, span, &mut |all| {
        let mut values = all[..positional].to_vec();
        let mut named: Vec<(String, Value)> = named.iter().map(|(n, _)| n.clone()).zip(all[positional..].iter().cloned()).collect();
        if lifted && !restrict(name, &mut values, &mut named) {
            return Ok(values.swap_remove(0));
        }
        apply_to(element, Args::new(name, values, named, span, (args, kwargs)), scope)
    })
}

/// Reductions, whose second argument may be the dimensions.
fn reduces(name: &str) -> bool {
    let plain = name.strip_prefix("nan").unwrap_or(name);
    reduction(plain).is_some() || ["mean", "var", "std"].contains(&plain)
}

/// Functions whose named arguments are dimensions, but for these options.
fn takes_dims(name: &str) -> bool {
    ["isel", "sel", "rechunk"].contains(&name) || name.starts_with("resample_") || name.starts_with("moving_")
}

const OPTIONS: [&str; 9] = ["method", "tolerance", "skipna", "correction", "ddof", "mode", "value", "dim", "axis"];

/// The dimensions that the arguments of a function name.
fn dims_of<'a>(name: &str, values: &'a [Value], named: &'a [(String, Value)]) -> Vec<&'a str> {
    fn texts(v: &Value) -> Vec<&str> {
        match v {
            Value::Str(d) => vec![d],
            Value::List(items) => items.iter().flat_map(texts).collect(),
            _ => Vec::new(),
        }
    }
    // Those of new dimensions are not there yet.
    let old = |n: &str| (n == "dim" || n == "axis") && name != "expand_dims" && name != "stack";
    let mut out: Vec<&str> = named.iter().filter(|(n, _)| old(n)).flat_map(|(_, v)| texts(v)).collect();
    if reduces(name) || name == "squeeze" {
        out.extend(values.get(1).into_iter().flat_map(texts));
    }
    if takes_dims(name) {
        out.extend(named.iter().map(|(n, _)| n.as_str()).filter(|n| !OPTIONS.contains(n)));
    }
    if name.starts_with("groupby_")
        && let Some(Value::Str(t)) = values.get(1)
    {
        out.extend(t.split_once('.').map(|(dim, _)| dim));
    }
    out
}

/// Leaves those dimensions out of the arguments that a variable of a dataset does not have. False if it has none of them: such a variable
/// stays as it is.
fn restrict(name: &str, values: &mut [Value], named: &mut Vec<(String, Value)>) -> bool {
    let Some(Value::Array(a)) = values.first().cloned() else { return true };
    let wanted = dims_of(name, values, named);
    if wanted.is_empty() {
        return true;
    }
    if !wanted.iter().any(|d| a.axis_named(d).is_some()) {
        return false;
    }
    if takes_dims(name) {
        named.retain(|(n, _)| OPTIONS.contains(&n.as_str()) || a.axis_named(n).is_some());
    }
    let positional = values.get_mut(1).filter(|_| reduces(name));
    for v in named.iter_mut().filter(|(n, _)| n == "dim" || n == "axis").map(|(_, v)| v).chain(positional) {
        if let Value::List(items) = v {
            items.retain(|v| if let Value::Str(d) = v { a.axis_named(d).is_some() } else { true });
        }
    }
    true
}

fn apply_to(element: Option<&ElementOp>, mut a: Args<'_>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    let (name, span) = (a.function, a.span);
    if let Some(op) = element {
        // By position, then by name, as they are printed.
        let mut values = std::mem::take(&mut a.values);
        let more: Vec<Value> = operands(*op).iter().skip(values.len()).map_while(|n| a.get(usize::MAX, n)).collect();
        values.extend(more);
        a.done()?;
        if values.len() != op.arity() {
            let many = if op.arity() == 1 { "1 argument".into() } else { format!("{} arguments", op.arity()) };
            return fail(span, format!("{name}() takes {many}, not {}; it is called as {}", values.len(), signature(name)));
        }
        if let ([x, y], true) = (&values[..], elementwise::compares(*op))
            && let Some((x, y)) = selection::dates(x, y, span)?
        {
            return apply(*op, &[x.operand(span)?, y.operand(span)?], span, scope);
        }
        let refs: Vec<&Value> = values.iter().collect();
        times::check(*op, &refs, span)?;
        let operands = values.iter().map(|v| v.operand(span)).collect::<Result<Vec<_>, _>>()?;
        let out = of_operator(*op, &refs, apply(*op, &operands, span, scope)?);
        // A user who writes NaN into a choice means that there is nothing.
        let nothing = |v: &&Value| matches!(v, Value::Scalar(s) if s.as_f64().is_nan());
        return Ok(match out {
            Value::Array(a) if *op == ElementOp::Where && refs[1..].iter().any(nothing) => Value::Array(a.with_missing()),
            out => out,
        });
    }
    times::check_function(name, &a.values, &a.named, span)?;
    let carried = attributes::carried(name, &a.values, &a.named);
    let out = match name {
        "rechunk" => rechunk(&mut a)?,
        _ if name.starts_with("groupby_") => groups::grouped(&mut a, scope)?,
        _ if name.starts_with("resample_") => groups::resampled(&mut a)?,
        "lookup" => groups::lookup(&mut a, scope)?,
        "isel" => selection::isel(&mut a)?,
        "sel" => selection::sel(&mut a)?,
        _ => plain(&mut a, scope)?,
    };
    a.done()?;
    Ok(Value::Array(attributes::give(out, carried)))
}

/// The result of an element-wise function with those attributes of its operands that are still true.
pub(crate) fn of_operator(op: ElementOp, operands: &[&Value], out: Value) -> Value {
    match out {
        Value::Array(out) => Value::Array(attributes::give(out, attributes::of_elementwise(op, operands))),
        other => other,
    }
}

fn reduction(name: &str) -> Option<ReduceOp> {
    Some(match name {
        "sum" => ReduceOp::Sum,
        "prod" => ReduceOp::Prod,
        "min" => ReduceOp::Min,
        "max" => ReduceOp::Max,
        "any" => ReduceOp::Any,
        "all" => ReduceOp::All,
        "count_nonzero" => ReduceOp::CountNonzero,
        "argmin" => ReduceOp::ArgMin,
        "argmax" => ReduceOp::ArgMax,
        _ => return None,
    })
}

/// Whether a reduction leaves NaN out: by its name, or as `skipna=` says, or as is usual for the array.
fn skips_nan(a: &mut Args<'_>, position: usize, x: &Array) -> Result<bool, BuildError> {
    if a.function.starts_with("nan") {
        return Ok(true);
    }
    match a.optional(position, "skipna") {
        None => Ok(reduce::skipna_default(x)),
        Some(Value::Scalar(Scalar::Bool(skip))) => Ok(skip),
        Some(v) => fail(&a.here, format!("'skipna' must be True, False or None, not {}", v.shown())),
    }
}

fn plain(a: &mut Args<'_>, scope: &Scope<'_>) -> Result<Array, BuildError> {
    let span = a.span;
    let name = a.function;
    if let Some(op) = reduction(name.strip_prefix("nan").unwrap_or(name)) {
        let x = a.array(0, "x")?;
        let (axes, keep) = (a.axes(&x, 1)?, a.flag(2, "keepdims", false)?);
        let truth = matches!(op, ReduceOp::Any | ReduceOp::All | ReduceOp::CountNonzero);
        let skip = !truth && skips_nan(a, 3, &x)?;
        let f = if skip { reduce::nan_reduce } else { reduce::reduce };
        return f(&x, op, axes.as_deref(), keep).map_err(at(span));
    }
    match name {
        "mean" | "nanmean" => {
            let x = a.array(0, "x")?;
            let (axes, keep) = (a.axes(&x, 1)?, a.flag(2, "keepdims", false)?);
            let f = if skips_nan(a, 3, &x)? { reduce::nanmean } else { reduce::mean };
            f(&x, axes.as_deref(), keep)
        }
        "var" | "std" | "nanvar" | "nanstd" => {
            let x = a.array(0, "x")?;
            let (axes, correction, keep) = (a.axes(&x, 1)?, a.correction(2)?, a.flag(3, "keepdims", false)?);
            let f = if name.ends_with("var") { reduce::var } else { reduce::std };
            f(&x, axes.as_deref(), correction, keep, skips_nan(a, 4, &x)?)
        }
        "astype" => {
            let x = a.array(0, "x")?;
            let Some(dtype) = a.dtype(1)? else { return fail(span, "astype() needs a dtype such as \"float32\"") };
            elementwise::astype(&x, dtype)
        }
        "clip" => {
            let x = a.array(0, "x")?;
            let mut bound = |i, n| a.optional(i, n).map(|v| v.operand(&a.here)).transpose();
            let (low, high) = (bound(1, "low")?, bound(2, "high")?);
            elementwise::clip(&x, low, high)
        }
        "broadcast_to" => {
            let (x, shape) = (a.array(0, "x")?, a.need(1, "shape")?);
            elementwise::broadcast_to(&x, &a.lengths(&shape, "shape")?)
        }
        "zeros" | "ones" | "full" => {
            let shape = a.need(0, "shape")?;
            let shape = a.lengths(&shape, "shape")?;
            let value = match name {
                "zeros" => Scalar::Int(0),
                "ones" => Scalar::Int(1),
                _ => match a.need(1, "value")? {
                    Value::Scalar(s) => s,
                    _ => return fail(span, "the value must be a number"),
                },
            };
            let default = if name == "full" { value.default_dtype() } else { DType::Float64 };
            let dtype = a.dtype(if name == "full" { 2 } else { 1 })?.unwrap_or(default);
            create::full(&shape, value, dtype, a.chunks(if name == "full" { 3 } else { 2 })?.as_deref())
        }
        "arange" | "linspace" => {
            let mut number = |i, n| match a.get(i, n) {
                None => Ok(None),
                Some(Value::Scalar(s)) => Ok(Some(s)),
                Some(_) => fail(span, format!("'{n}' must be a number")),
            };
            let (first, second, third) =
                (number(0, "start")?, number(1, "stop")?, number(2, if name == "arange" { "step" } else { "num" })?);
            let (start, stop) = match (first, second) {
                (Some(start), Some(stop)) => (start, stop),
                (Some(stop), None) | (None, Some(stop)) if name == "arange" => (Scalar::Int(0), stop),
                _ => return fail(span, format!("{name}() needs where to start and where to stop; it is called as {}", signature(name))),
            };
            if name == "arange" {
                create::arange(start, stop, third.unwrap_or(Scalar::Int(1)), a.dtype(3)?, a.chunks(4)?.as_deref())
            } else {
                let num = match third.unwrap_or(Scalar::Int(50)) {
                    Scalar::Int(n) => u64::try_from(n).ok(),
                    _ => None,
                };
                let Some(num) = num else { return fail(span, "'num' must be an integer that is not negative") };
                create::linspace(start, stop, num, a.flag(3, "endpoint", true)?, a.chunks(4)?.as_deref())
            }
        }
        "eye" => {
            let n = a.need(0, "n")?.int(span)?;
            let (m, k) = (a.optional(1, "m").map_or(Ok(n), |v| v.int(span))?, a.int(2, "k", 0)?);
            if n < 0 || m < 0 {
                return fail(span, "lengths must not be negative");
            }
            create::eye(n as u64, m as u64, k, a.dtype(3)?.unwrap_or(DType::Float64), a.chunks(4)?.as_deref())
        }
        "random" => {
            let shape = a.need(0, "shape")?;
            let shape = a.lengths(&shape, "shape")?;
            let Ok(seed) = u64::try_from(a.int(1, "seed", 0)?) else { return fail(span, "'seed' must not be negative") };
            let kind = match a.text(2, "distribution")?.as_deref() {
                None | Some("uniform") => Distribution::Uniform,
                Some("normal") => Distribution::Normal,
                Some(other) => return fail(span, format!("there is no distribution '{other}'; there are uniform and normal")),
            };
            create::random(&shape, seed, kind, a.dtype(3)?.unwrap_or(DType::Float64), a.chunks(4)?.as_deref())
        }
        "concat" | "stack" => {
            let Value::List(items) = a.need(0, "arrays")? else { return fail(span, format!("{name}() takes a list of arrays")) };
            let arrays = items.iter().map(|v| v.array(span)).collect::<Result<Vec<_>, _>>()?;
            let Some(first) = arrays.first().cloned() else { return fail(span, "at least one array is needed") };
            if name == "stack" {
                let (axis, dim) = a.new_axis(&first, 1)?;
                let arrays = by_label(name, arrays, None, scope.join).map_err(at(span))?;
                return dim
                    .map_or_else(|| manipulate::stack(&arrays, axis), |d| manipulate::stack_named(&arrays, axis, &d))
                    .map_err(at(span));
            }
            let axis = a.axis(&first, 1, 0, 0).map_err(|e| match e.message.starts_with("there is no dimension") {
                true => BuildError { help: Some("stack([x, y], dim=\"a name\") puts arrays along a new dimension".into()), ..e },
                false => e,
            })?;
            let arrays = by_label(name, arrays, first.dims()[axis].as_deref(), scope.join).map_err(at(span))?;
            manipulate::concat(&arrays, axis)
        }
        "diff" => {
            let x = a.array(0, "x")?;
            let n = a.int(1, "n", 1)?;
            let axis = a.axis(&x, 2, -1, 0)?;
            manipulate::diff(&x, n.max(0) as u64, axis)
        }
        "expand_dims" | "squeeze" | "take" | "roll" => {
            let x = a.array(0, "x")?;
            match name {
                "expand_dims" => match a.new_axis(&x, 1)? {
                    (axis, Some(dim)) => manipulate::expand_dims_named(&x, axis, &dim),
                    (axis, None) => manipulate::expand_dims(&x, axis),
                },
                "squeeze" => {
                    let short = || (0..x.rank()).filter(|&i| x.shape()[i] == 1).collect();
                    let mut axes: Vec<usize> = a.axes(&x, 1)?.unwrap_or_else(short);
                    axes.sort_unstable();
                    axes.dedup();
                    axes.into_iter().rev().try_fold(x, |x, axis| manipulate::squeeze(&x, axis))
                }
                "take" => {
                    let list = a.need(1, "indices")?.ints(span)?;
                    index::take(&x, &list, a.axis(&x, 2, 0, 0)?)
                }
                _ => {
                    let shifts = a.need(1, "shift")?.ints(span)?;
                    // NumPy's axis=None rolls the flattened array, which is another thing.
                    let none = matches!(a.values.get(2), Some(Value::None)) || a.named.iter().any(|(_, v)| matches!(v, Value::None));
                    let axes = match a.axes(&x, 2)? {
                        Some(axes) => axes,
                        None if none => return fail(span, "roll() needs an axis; reshape(x, [-1]) makes one of all"),
                        None => (0..x.rank().min(1)).collect(),
                    };
                    if shifts.len() != axes.len() && shifts.len() != 1 {
                        return fail(span, "there must be one shift, or one for each axis");
                    }
                    axes.iter().enumerate().try_fold(x, |x, (i, &axis)| manipulate::roll(&x, shifts[i % shifts.len()], axis))
                }
            }
        }
        "flip" => {
            let x = a.array(0, "x")?;
            let axes = a.axes(&x, 1)?.unwrap_or_else(|| (0..x.rank()).collect());
            manipulate::flip(&x, &axes)
        }
        "permute_dims" => {
            let x = a.array(0, "x")?;
            let axes = match a.optional(1, "axes") {
                None => (0..x.rank()).rev().collect(),
                Some(Value::List(items)) => items.iter().map(|v| a.axis_of(&x, v, 0)).collect::<Result<Vec<_>, _>>()?,
                Some(_) => return fail(span, "'axes' must be a list"),
            };
            manipulate::permute_dims(&x, &axes)
        }
        "reshape" => {
            let x = a.array(0, "x")?;
            manipulate::reshape(&x, &a.need(1, "shape")?.ints(span)?)
        }
        "tile" => {
            let (x, times) = (a.array(0, "x")?, a.need(1, "repetitions")?);
            manipulate::tile(&x, &a.lengths(&times, "repetitions")?)
        }
        "repeat" => {
            let (mut x, times) = (a.array(0, "x")?, a.need(1, "repeats")?);
            let axes = a.axes(&x, 2)?;
            let axis = match axes.as_deref() {
                Some(&[axis]) => axis,
                Some(_) => return fail(span, "repeat() takes one axis"),
                None => {
                    if x.rank() != 1 {
                        x = manipulate::reshape(&x, &[-1]).map_err(at(span))?;
                    }
                    0
                }
            };
            match a.lengths(&times, "repeats")?.as_slice() {
                [times] => manipulate::repeat(&x, *times, axis),
                list => manipulate::repeat_each(&x, list, axis),
            }
        }
        "pad" => return windows::pad(a),
        "moving_sum" | "moving_mean" | "moving_min" | "moving_max" => return windows::moving_function(a),
        "stencil" | "convolve" => return windows::weighted_sum(a),
        "matmul" | "outer" | "vecdot" | "tensordot" | "einsum" | "qr_q" | "qr_r" => return products::call(a),
        other => return fail(span, format!("there is no function '{other}'")),
    }
    .map_err(at(span))
}

fn rechunk(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let x = a.array(0, "x")?;
    let mut grid = x.chunks().clone();
    a.whole();
    for (dim, v) in std::mem::take(&mut a.named) {
        let axis = a.axis_of(&x, &Value::Str(dim), 0)?;
        let (n, size) = (x.shape()[axis], v.int(a.span)?);
        if size == 0 || size < -1 {
            return fail(a.span, "a chunk length must be at least 1, or -1 for the whole dimension");
        }
        grid.0[axis] = AxisChunks::regular(n, if size < 0 { n } else { (size as u64).min(n) });
    }
    Ok(x.rechunked(ChunkGrid(grid.0)))
}

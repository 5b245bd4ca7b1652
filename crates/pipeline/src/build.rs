//! From the syntax tree to lazy arrays: names are looked up, operators and calls go to the table of operations, and what is refused there is
//! pointed at in the text.

use crate::constant;
use crate::{BinaryOp, Expr, ExprKind, IndexItem, UnaryOp};
use chunkwise_kernels::ElementOp;
use chunkwise_ops::index::{Index, index, unambiguous};
use chunkwise_ops::select::{Method, Wanted};
use chunkwise_ops::table::{self, Arguments, Context};
use chunkwise_ops::{Array, CallError, OpError, Place, Value, check_dims, coordinate, lift, suggest};
use chunkwise_types::Scalar;
use std::ops::Range;

/// What expressions may refer to.
pub struct Scope<'a> {
    /// The value of a name.
    pub names: &'a dyn Fn(&str) -> Option<Value>,
    /// What operations may know besides their arguments.
    pub context: Context<'a>,
}

/// An expression that cannot be built.
#[derive(Debug, Clone)]
pub struct BuildError {
    /// What is wrong.
    pub message: String,
    /// Where in the expression.
    pub span: Range<usize>,
    /// What may help.
    pub help: Option<String>,
}

/// Says where a call is that is refused.
fn at<E: Into<CallError>>(span: &Range<usize>) -> impl Fn(E) -> BuildError + '_ {
    move |e| {
        let CallError { message, help, .. } = e.into();
        BuildError { message, span: span.clone(), help }
    }
}

/// Says where the argument of a call is that is refused.
fn within<'a>(args: &'a [Expr], kwargs: &'a [(String, Expr)], span: &'a Range<usize>) -> impl Fn(CallError) -> BuildError + 'a {
    move |e| {
        let argument = match &e.argument {
            Some(Place::Position(i)) => args.get(*i),
            Some(Place::Name(name)) => kwargs.iter().find(|(n, _)| n == name).map(|(_, e)| e),
            None => None,
        };
        at(argument.map_or(span, |e| &e.span))(e)
    }
}

fn fail<T>(span: &Range<usize>, message: impl Into<String>) -> Result<T, BuildError> {
    Err(BuildError { message: message.into(), span: span.clone(), help: None })
}

/// The value of a name that stands for a number, unless the user gives it to something else.
///
/// ```
/// assert_eq!(chunkwise_pipeline::named_constant("pi"), Some(std::f64::consts::PI));
/// assert_eq!(chunkwise_pipeline::named_constant("x"), None);
/// ```
pub fn named_constant(name: &str) -> Option<f64> {
    match name {
        "pi" => Some(std::f64::consts::PI),
        "e" => Some(std::f64::consts::E),
        _ => None,
    }
}

/// Builds the value of an expression.
pub fn build_expr(expr: &Expr, scope: &Scope<'_>) -> Result<Value, BuildError> {
    let span = &expr.span;
    Ok(match &expr.kind {
        ExprKind::Name(name) => match (scope.names)(name).or_else(|| named_constant(name).map(|c| Value::Scalar(Scalar::Float(c)))) {
            Some(v) => v,
            None => return fail(span, format!("'{name}' is not defined")),
        },
        ExprKind::Int(v) => Value::Scalar(Scalar::Int(*v)),
        ExprKind::Float(v) => Value::Scalar(Scalar::Float(*v)),
        ExprKind::Imag(v) => Value::Scalar(Scalar::Complex(0.0, *v)),
        ExprKind::Str(s) => Value::Str(s.clone()),
        ExprKind::Bool(b) => Value::Scalar(Scalar::Bool(*b)),
        ExprKind::None => Value::None,
        ExprKind::List(items) | ExprKind::Tuple(items) => {
            Value::List(items.iter().map(|e| build_expr(e, scope)).collect::<Result<_, _>>()?)
        }
        ExprKind::Member { base, name } => match build_expr(base, scope)? {
            Value::Dataset(d) => Value::Array(d.variable(name).map_err(at(span))?),
            Value::Array(a) => Value::Array(member(&a, name, span)?),
            _ => return fail(span, format!("'.{name}' needs a dataset before it")),
        },
        ExprKind::Slice(parts) => {
            let part = |e: &Option<Expr>| e.as_ref().map_or(Ok(Value::None), |e| build_expr(e, scope));
            Value::Slice(Box::new([part(&parts[0])?, part(&parts[1])?, part(&parts[2])?]))
        }
        ExprKind::Call { function, function_span, args, kwargs } => {
            let operation = table::named(function).map_err(at(function_span))?;
            let positional = args.iter().map(|e| build_expr(e, scope)).collect::<Result<Vec<_>, _>>()?;
            let named = kwargs.iter().map(|(n, e)| Ok((n.clone(), build_expr(e, scope)?))).collect::<Result<Vec<_>, BuildError>>()?;
            operation.call(&Arguments { positional, named }, &scope.context).map_err(within(args, kwargs, span))?
        }
        ExprKind::Unary { op, operand } => match (op, build_expr(operand, scope)?) {
            (_, Value::Scalar(s)) => constant::unary(*op, s).map(Value::Scalar).or_else(|e| fail(span, e))?,
            (UnaryOp::Pos, value) => value,
            (UnaryOp::Neg, value) => element(ElementOp::Negative, [value], span, scope)?,
            (UnaryOp::Invert, value) => element(ElementOp::BitwiseInvert, [value], span, scope)?,
        },
        ExprKind::Binary { op, left, right } => {
            let sides = [build_expr(left, scope)?, build_expr(right, scope)?];
            binary(*op, sides, span, scope).map_err(|e| {
                let made_by = |side: &Expr| if let ExprKind::Call { function, .. } = &side.kind { table::find(function) } else { None };
                let advice = [left, right].into_iter().find_map(|side| made_by(side)?.labels_advice);
                match e.help.is_none() && e.message.contains("labels") {
                    true => BuildError { help: advice.map(String::from), ..e },
                    false => e,
                }
            })?
        }
        ExprKind::Index { base, items } => match (build_expr(base, scope)?, items.as_slice()) {
            (Value::Dataset(d), [IndexItem::At(Expr { kind: ExprKind::Str(name), .. })]) => {
                Value::Array(d.variable(name).map_err(at(span))?)
            }
            (value, _) => indexed_value(&value, items, &base.span, span, scope)?,
        },
    })
}

/// A coordinate of an array, by its name.
fn member(a: &Array, name: &str, span: &Range<usize>) -> Result<Array, BuildError> {
    if let Some(c) = coordinate(a, name).map_err(at(span))? {
        return Ok(c);
    }
    let names: Vec<&str> = a.coords().iter().map(|c| c.name.as_str()).collect();
    let has = if names.is_empty() { "it has none".into() } else { format!("it has {}", names.join(", ")) };
    let help = match (table::instead(name), suggest(name, names.iter().copied())) {
        _ if table::find(name).is_some() => format!("a method is called: write .{name}(…)"),
        (Some(instead), _) => instead.into(),
        (None, Some(near)) => format!("did you mean '{near}'?"),
        (None, None) => "only coordinates, and methods with parentheses, can follow '.'".into(),
    };
    Err(BuildError { message: format!("the array has no coordinate '{name}'; {has}"), span: span.clone(), help: Some(help) })
}

/// Applies the element-wise function of an operator. What is refused is the whole of it.
fn element<const N: usize>(op: ElementOp, operands: [Value; N], span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    table::element(op).and_then(|o| o.call(&Arguments::of(operands), &scope.context)).map_err(at(span))
}

fn binary(op: BinaryOp, sides: [Value; 2], span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    let [a, b] = &sides;
    if let (Value::Scalar(x), Value::Scalar(y)) = (a, b)
        && op != BinaryOp::MatMul
    {
        return constant::binary(op, *x, *y).map(Value::Scalar).or_else(|e| fail(span, e));
    }
    let inexact = |v: &Value| matches!(v, Value::Array(x) if x.dtype().is_inexact()) || matches!(v, Value::Scalar(Scalar::Float(_)));
    let floats = inexact(a) || inexact(b);
    match (op, b) {
        (BinaryOp::MatMul, _) => {
            return table::named("matmul").and_then(|o| o.call(&Arguments::of(sides), &scope.context)).map_err(at(span));
        }
        // As an operator of NumPy: the square of bool is int8, unlike pow(x, 2).
        (BinaryOp::Pow, Value::Scalar(Scalar::Int(2))) => return element(ElementOp::Square, [a.clone()], span, scope),
        // As in NumPy, also where the two differ: at -inf.
        (BinaryOp::Pow, Value::Scalar(Scalar::Float(0.5))) => return element(ElementOp::Sqrt, [a.clone()], span, scope),
        _ => {}
    }
    element(function(op), sides, span, scope).map_err(|e| {
        let help = match op {
            BinaryOp::BitXor => "powers are written x ** 2",
            BinaryOp::BitAnd | BinaryOp::BitOr => "& and | are tighter than comparisons, which need parentheses: (a > 0) & (b > 0)",
            _ => return e,
        };
        if e.help.is_none() && floats { BuildError { help: Some(help.into()), ..e } } else { e }
    })
}

/// The element-wise function of an operator.
fn function(op: BinaryOp) -> ElementOp {
    match op {
        BinaryOp::Lt => ElementOp::Less,
        BinaryOp::Le => ElementOp::LessEqual,
        BinaryOp::Gt => ElementOp::Greater,
        BinaryOp::Ge => ElementOp::GreaterEqual,
        BinaryOp::Eq => ElementOp::Equal,
        BinaryOp::Ne => ElementOp::NotEqual,
        BinaryOp::BitOr => ElementOp::BitwiseOr,
        BinaryOp::BitXor => ElementOp::BitwiseXor,
        BinaryOp::BitAnd => ElementOp::BitwiseAnd,
        BinaryOp::Shl => ElementOp::BitwiseLeftShift,
        BinaryOp::Shr => ElementOp::BitwiseRightShift,
        BinaryOp::Add => ElementOp::Add,
        BinaryOp::Sub => ElementOp::Subtract,
        BinaryOp::Mul | BinaryOp::MatMul => ElementOp::Multiply,
        BinaryOp::Div => ElementOp::Divide,
        BinaryOp::FloorDiv => ElementOp::FloorDivide,
        BinaryOp::Mod => ElementOp::Remainder,
        BinaryOp::Pow => ElementOp::Pow,
    }
}

fn one_index(item: &IndexItem, scope: &Scope<'_>) -> Result<Index, BuildError> {
    let part = |e: &Option<Expr>| -> Result<Option<i64>, BuildError> {
        e.as_ref()
            .map(|e| {
                build_expr(e, scope).and_then(|v| if matches!(v, Value::None) { Ok(None) } else { v.int().map(Some).map_err(at(&e.span)) })
            })
            .transpose()
            .map(Option::flatten)
    };
    Ok(match item {
        IndexItem::At(e) => match build_expr(e, scope)? {
            Value::List(items) => Index::Take(Value::List(items).ints().map_err(at(&e.span))?),
            // As NumPy's x[x > 0], whose length depends on the values.
            Value::Array(_) => {
                let message = "an array cannot be an index: the length of the result would depend on its values";
                let help = Some(
                    "where(x > 0, x, nan) keeps the elements that fulfil a condition; take(x, [0, 2], axis=0) takes some by index".into(),
                );
                return Err(BuildError { message: message.into(), span: e.span.clone(), help });
            }
            v => Index::At(v.int().map_err(at(&e.span))?),
        },
        IndexItem::Slice { start, stop, step, .. } => Index::Slice(part(start)?, part(stop)?, part(step)?),
        IndexItem::Ellipsis(_) => Index::Ellipsis,
        IndexItem::NewAxis(_) => Index::NewAxis,
        IndexItem::Keyword { item, .. } => one_index(item, scope)?,
    })
}

/// What an item of an index by name selects: `time="2019-06"`, `lat=10.0:20.0`, `lat=nearest(12.3)`.
fn of_item(item: &IndexItem, scope: &Scope<'_>) -> Result<(Wanted, Method), BuildError> {
    let part = |e: &Option<Expr>| e.as_ref().map_or(Ok(Value::None), |e| build_expr(e, scope));
    let span = item.span();
    let wanted = |v: &Value| table::wanted(v).map_err(at(&span));
    match item {
        IndexItem::At(Expr { kind: ExprKind::Call { function, args, kwargs, .. }, .. }) if function == "nearest" => {
            match (&args[..], &kwargs[..]) {
                ([one], []) => Ok((wanted(&build_expr(one, scope)?)?, Method::Nearest(None))),
                _ => fail(&span, "nearest() takes one label, or a list of labels"),
            }
        }
        IndexItem::At(e) => Ok((wanted(&build_expr(e, scope)?)?, Method::Exact)),
        IndexItem::Slice { start, stop, step, .. } => {
            Ok((wanted(&Value::Slice(Box::new([part(start)?, part(stop)?, part(step)?])))?, Method::Exact))
        }
        _ => fail(&span, "a label, a list of labels or a range of labels is needed here"),
    }
}

/// An index of an array, or of each variable of a dataset by the dimensions that it has.
fn indexed_value(
    value: &Value,
    items: &[IndexItem],
    base: &Range<usize>,
    span: &Range<usize>,
    scope: &Scope<'_>,
) -> Result<Value, BuildError> {
    let name = |i: &IndexItem| if let IndexItem::Keyword { dim, .. } = i { Some(dim.clone()) } else { None };
    let dims: Vec<String> = items.iter().filter_map(name).collect();
    let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
    check_dims(std::slice::from_ref(value), &dims, "index").map_err(at(span))?;
    // Where it is refused is known here alone.
    let mut place = None;
    let out = lift(std::slice::from_ref(value), &mut |v| {
        let there = |a: &Array, i: &IndexItem| name(i).is_none_or(|dim| a.axis_named(&dim).is_some());
        let one = |a: Array| match value {
            Value::Dataset(_) => indexed(&items.iter().filter(|i| there(&a, i)).cloned().collect::<Vec<_>>(), &a, span, scope),
            _ => indexed(items, &a, span, scope),
        };
        v[0].array().map_err(at(base)).and_then(one).map(Value::Array).map_err(|e| {
            place = Some(e.span);
            CallError { help: e.help, ..CallError::new(e.message) }
        })
    });
    out.map_err(|e| at(place.as_ref().unwrap_or(span))(e))
}

fn indexed(items: &[IndexItem], a: &Array, span: &Range<usize>, scope: &Scope<'_>) -> Result<Array, BuildError> {
    let mut positions: Vec<Index> = Vec::new();
    let mut out = a.clone();
    let mut labels = false;
    for item in items {
        if let IndexItem::Keyword { dim, item, span } = item {
            let (wanted, method) = of_item(item, scope)?;
            out = table::along(&out, dim, &wanted, method).map_err(at(span))?;
            labels = true;
        } else {
            positions.push(one_index(item, scope)?);
        }
    }
    unambiguous(&positions).map_err(at::<OpError>(span))?;
    if labels && !positions.is_empty() {
        return fail(span, "an index names either dimensions or positions, not both");
    }
    let out = index(&out, &positions).map_err(at::<OpError>(span))?;
    Ok(out.with_attributes(a.attributes().clone()))
}

//! From the syntax tree to lazy arrays: names are looked up and functions are applied.

use crate::functions::call;
use crate::{BinaryOp, Expr, ExprKind, IndexItem, UnaryOp};
use chunkwise_kernels::ElementOp;
use chunkwise_ops::elementwise::{Operand, elementwise};
use chunkwise_ops::index::{Index, index};
use chunkwise_ops::{Array, OpError, linalg};
use chunkwise_types::Scalar;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

/// What an expression is worth.
#[derive(Debug, Clone)]
pub enum Value {
    /// A lazy array.
    Array(Array),
    /// A number.
    Scalar(Scalar),
    /// A text.
    Str(String),
    /// A list or tuple.
    List(Vec<Value>),
    /// `None`.
    None,
}

/// A CF time coordinate.
#[derive(Debug, Clone)]
pub struct TimeCoordinate {
    /// The values.
    pub values: Vec<f64>,
    /// `days since ...`.
    pub units: String,
    /// The CF calendar.
    pub calendar: String,
}

/// Finds time coordinates.
pub type Times<'a> = dyn Fn(Option<(&Array, usize)>, &str) -> Result<TimeCoordinate, String> + 'a;

/// What expressions may refer to.
pub struct Scope<'a> {
    /// The value of a name.
    pub names: &'a dyn Fn(&str) -> Option<Value>,
    /// The time coordinate of a dimension: of an axis of an array, or, without one, of the inputs.
    pub time: &'a Times<'a>,
    /// The values of the dimensions that `groupby` made, by dimension name.
    pub groups: RefCell<HashMap<String, Vec<i64>>>,
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

pub(crate) fn at(span: &Range<usize>) -> impl Fn(OpError) -> BuildError + '_ {
    move |e| BuildError { message: e.to_string(), span: span.clone(), help: None }
}

pub(crate) fn fail<T>(span: &Range<usize>, message: impl Into<String>) -> Result<T, BuildError> {
    Err(BuildError { message: message.into(), span: span.clone(), help: None })
}

impl Value {
    /// As an operand of an element-wise function.
    pub(crate) fn operand(&self, span: &Range<usize>) -> Result<Operand, BuildError> {
        match self {
            Value::Array(a) => Ok(Operand::Array(a.clone())),
            Value::Scalar(s) => Ok(Operand::Scalar(*s)),
            _ => fail(span, "an array or a number is needed here"),
        }
    }

    /// As an array; a number becomes one without axes.
    pub(crate) fn array(&self, span: &Range<usize>) -> Result<Array, BuildError> {
        match self {
            Value::Array(a) => Ok(a.clone()),
            Value::Scalar(s) => chunkwise_ops::create::full(&[], *s, s.default_dtype(), None).map_err(at(span)),
            _ => fail(span, "an array is needed here"),
        }
    }

    pub(crate) fn int(&self, span: &Range<usize>) -> Result<i64, BuildError> {
        match self {
            Value::Scalar(Scalar::Int(v)) => i64::try_from(*v).or_else(|_| fail(span, "the number is too large")),
            _ => fail(span, "an integer is needed here"),
        }
    }

    pub(crate) fn ints(&self, span: &Range<usize>) -> Result<Vec<i64>, BuildError> {
        match self {
            Value::List(items) => items.iter().map(|v| v.int(span)).collect(),
            other => Ok(vec![other.int(span)?]),
        }
    }
}

/// Builds the value of an expression.
pub fn build_expr(expr: &Expr, scope: &Scope<'_>) -> Result<Value, BuildError> {
    let span = &expr.span;
    Ok(match &expr.kind {
        ExprKind::Name(name) => match (scope.names)(name) {
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
        ExprKind::Call { function, function_span, args, kwargs } => call(function, function_span, args, kwargs, span, scope)?,
        ExprKind::Unary { op, operand } => {
            let value = build_expr(operand, scope)?;
            match (op, &value) {
                (UnaryOp::Pos, _) => value,
                (UnaryOp::Neg, Value::Scalar(s)) => Value::Scalar(negate(*s)),
                (UnaryOp::Neg, _) => apply(ElementOp::Negative, &[value.operand(&operand.span)?], span)?,
                (UnaryOp::Invert, _) => apply(ElementOp::BitwiseInvert, &[value.operand(&operand.span)?], span)?,
            }
        }
        ExprKind::Binary { op, left, right } => binary(*op, &build_expr(left, scope)?, &build_expr(right, scope)?, span)?,
        ExprKind::Index { base, items } => indexed(&build_expr(base, scope)?.array(&base.span)?, items, span, scope)?,
    })
}

fn negate(s: Scalar) -> Scalar {
    match s {
        Scalar::Bool(b) => Scalar::Int(-i128::from(b)),
        Scalar::Int(v) => Scalar::Int(-v),
        Scalar::Float(v) => Scalar::Float(-v),
        Scalar::Complex(re, im) => Scalar::Complex(-re, -im),
    }
}

pub(crate) fn apply(op: ElementOp, args: &[Operand], span: &Range<usize>) -> Result<Value, BuildError> {
    elementwise(op, args).map(Value::Array).map_err(at(span))
}

/// Arithmetic on two numbers, as Python does it; `None` where an array function decides.
fn constant(op: BinaryOp, a: Scalar, b: Scalar) -> Option<Scalar> {
    if let (Scalar::Int(x), Scalar::Int(y)) = (a, b) {
        match op {
            BinaryOp::Add => return x.checked_add(y).map(Scalar::Int),
            BinaryOp::Sub => return x.checked_sub(y).map(Scalar::Int),
            BinaryOp::Mul => return x.checked_mul(y).map(Scalar::Int),
            BinaryOp::Pow if y >= 0 => return x.checked_pow(u32::try_from(y).ok()?).map(Scalar::Int),
            BinaryOp::Div => {}
            _ => return None,
        }
    }
    if matches!(a, Scalar::Complex(..)) || matches!(b, Scalar::Complex(..)) {
        let (x, y) = (a.as_complex(), b.as_complex());
        let z = match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            _ => return None,
        };
        return Some(Scalar::Complex(z.re, z.im));
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    Some(Scalar::Float(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Pow => x.powf(y),
        _ => return None,
    }))
}

fn binary(op: BinaryOp, a: &Value, b: &Value, span: &Range<usize>) -> Result<Value, BuildError> {
    if let (Value::Scalar(x), Value::Scalar(y)) = (a, b)
        && let Some(v) = constant(op, *x, *y)
    {
        return Ok(Value::Scalar(v));
    }
    let function = match op {
        BinaryOp::MatMul => return linalg::matmul(&a.array(span)?, &b.array(span)?).map(Value::Array).map_err(at(span)),
        // x ** 2 is by far the most common power, and a product is exact and fast.
        BinaryOp::Pow if matches!(b, Value::Scalar(Scalar::Int(2))) => return apply(ElementOp::Square, &[a.operand(span)?], span),
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
        BinaryOp::Mul => ElementOp::Multiply,
        BinaryOp::Div => ElementOp::Divide,
        BinaryOp::FloorDiv => ElementOp::FloorDivide,
        BinaryOp::Mod => ElementOp::Remainder,
        BinaryOp::Pow => ElementOp::Pow,
    };
    apply(function, &[a.operand(span)?, b.operand(span)?], span)
}

fn one_index(item: &IndexItem, scope: &Scope<'_>) -> Result<Index, BuildError> {
    let part = |e: &Option<Expr>| -> Result<Option<i64>, BuildError> {
        e.as_ref()
            .map(|e| build_expr(e, scope).and_then(|v| if matches!(v, Value::None) { Ok(None) } else { v.int(&e.span).map(Some) }))
            .transpose()
            .map(Option::flatten)
    };
    Ok(match item {
        IndexItem::At(e) => match build_expr(e, scope)? {
            Value::List(items) => Index::Take(Value::List(items).ints(&e.span)?),
            v => Index::At(v.int(&e.span)?),
        },
        IndexItem::Slice { start, stop, step, .. } => Index::Slice(part(start)?, part(stop)?, part(step)?),
        IndexItem::Ellipsis(_) => Index::Ellipsis,
        IndexItem::NewAxis(_) => Index::NewAxis,
        IndexItem::Keyword { item, .. } => one_index(item, scope)?,
    })
}

fn indexed(a: &Array, items: &[IndexItem], span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    let mut positions: Vec<Index> = Vec::new();
    let mut named: Vec<Option<Index>> = vec![None; a.rank()];
    for item in items {
        if let IndexItem::Keyword { dim, span, .. } = item {
            let Some(axis) = a.axis_named(dim) else { return fail(span, no_dim(a, dim)) };
            named[axis] = Some(one_index(item, scope)?);
        } else {
            positions.push(one_index(item, scope)?);
        }
    }
    if named.iter().any(Option::is_some) {
        if !positions.is_empty() {
            return fail(span, "an index names either dimensions or positions, not both");
        }
        positions = named.into_iter().map(|i| i.unwrap_or(Index::Slice(None, None, None))).collect();
    }
    let out = index(a, &positions).map_err(at(span))?;
    Ok(Value::Array(out.with_attributes(a.attributes().clone())))
}

pub(crate) fn no_dim(a: &Array, dim: &str) -> String {
    let names: Vec<&str> = a.dims().iter().flatten().map(String::as_str).collect();
    let hint = crate::suggest(dim, names.iter().copied()).map(|s| format!("; did you mean '{s}'?")).unwrap_or_default();
    if names.is_empty() {
        format!("there is no dimension '{dim}': the array's dimensions have no names, so use axis=")
    } else {
        format!("there is no dimension '{dim}'; the array has {}{hint}", names.join(", "))
    }
}

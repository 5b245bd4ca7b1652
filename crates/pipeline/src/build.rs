//! From the syntax tree to lazy arrays: names are looked up and functions are applied.

use crate::constant;
use crate::dataset::{self, Dataset};
use crate::functions::{call, selection, times};
use crate::{BinaryOp, Expr, ExprKind, IndexItem, UnaryOp};
use chunkwise_kernels::ElementOp;
use chunkwise_ops::align::{Join, meet};
use chunkwise_ops::elementwise::{Operand, elementwise};
use chunkwise_ops::index::{Index, index, unambiguous};
use chunkwise_ops::{Array, OpError, linalg};
use chunkwise_types::Scalar;
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
    /// The arrays of a group, by name.
    Dataset(Dataset),
    /// `start:stop:step`, each part a value or `None`.
    Slice(Box<[Value; 3]>),
    /// `None`.
    None,
}

/// What expressions may refer to.
pub struct Scope<'a> {
    /// The value of a name.
    pub names: &'a dyn Fn(&str) -> Option<Value>,
    /// The arrays that are read: where no other array says it, they say what time an index is.
    pub inputs: &'a [Array],
    /// What becomes of elements whose labels are not in every operand.
    pub join: Join,
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
    /// What it is, for messages.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Array(_) => "an array".into(),
            Value::Scalar(s) => s.to_string(),
            Value::Str(t) => format!("the text \"{t}\""),
            Value::List(_) => "a list".into(),
            Value::Dataset(_) => "a group of arrays".into(),
            Value::Slice(_) => "a slice".into(),
            Value::None => "None".into(),
        }
    }

    /// As an operand of an element-wise function.
    pub(crate) fn operand(&self, span: &Range<usize>) -> Result<Operand, BuildError> {
        match self {
            Value::Array(a) => Ok(Operand::Array(a.clone())),
            Value::Scalar(s) => Ok(Operand::Scalar(*s)),
            _ => fail(span, format!("an array or a number is needed here, not {}", self.shown())),
        }
    }

    /// As an array; a number becomes one without axes.
    pub(crate) fn array(&self, span: &Range<usize>) -> Result<Array, BuildError> {
        match self {
            Value::Array(a) => Ok(a.clone()),
            Value::Scalar(s) => chunkwise_ops::create::full(&[], *s, s.default_dtype(), None).map_err(at(span)),
            _ => fail(span, format!("an array is needed here, not {}", self.shown())),
        }
    }

    pub(crate) fn int(&self, span: &Range<usize>) -> Result<i64, BuildError> {
        match self {
            Value::Scalar(Scalar::Int(v)) => i64::try_from(*v).or_else(|_| fail(span, "the number is too large")),
            _ => fail(span, format!("an integer is needed here, not {}", self.shown())),
        }
    }

    pub(crate) fn ints(&self, span: &Range<usize>) -> Result<Vec<i64>, BuildError> {
        match self {
            Value::List(items) => items.iter().map(|v| v.int(span)).collect(),
            other => Ok(vec![other.int(span)?]),
        }
    }
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
            Value::Dataset(d) => d.variable(name, span)?,
            Value::Array(a) => Value::Array(dataset::coordinate(&a, name, span)?),
            _ => return fail(span, format!("'.{name}' needs a dataset before it")),
        },
        ExprKind::Slice(parts) => {
            let part = |e: &Option<Expr>| e.as_ref().map_or(Ok(Value::None), |e| build_expr(e, scope));
            Value::Slice(Box::new([part(&parts[0])?, part(&parts[1])?, part(&parts[2])?]))
        }
        ExprKind::Call { function, function_span, args, kwargs } => call(function, function_span, args, kwargs, span, scope)?,
        ExprKind::Unary { op, operand } => {
            let value = build_expr(operand, scope)?;
            dataset::lift(&[value], span, &mut |v| match (op, &v[0]) {
                (_, Value::Scalar(s)) => constant::unary(*op, *s).map(Value::Scalar).or_else(|e| fail(span, e)),
                (UnaryOp::Pos, _) => Ok(v[0].clone()),
                (UnaryOp::Neg, x) => function_of_one(ElementOp::Negative, x, span, scope),
                (UnaryOp::Invert, x) => function_of_one(ElementOp::BitwiseInvert, x, span, scope),
            })?
        }
        ExprKind::Binary { op, left, right } => {
            let sides = [build_expr(left, scope)?, build_expr(right, scope)?];
            let looked_up =
                [left, right].into_iter().any(|side| matches!(&side.kind, ExprKind::Call { function, .. } if function == "lookup"));
            let both = dataset::lift(&sides, span, &mut |v| binary(*op, &v[0], &v[1], span, scope));
            both.map_err(|e| match looked_up && e.help.is_none() && e.message.contains("labels") {
                true => BuildError { help: Some("lookup(..., like=x) has the times of x".into()), ..e },
                false => e,
            })?
        }
        ExprKind::Index { base, items } => match (build_expr(base, scope)?, items.as_slice()) {
            (Value::Dataset(d), [IndexItem::At(Expr { kind: ExprKind::Str(name), .. })]) => d.variable(name, span)?,
            (value, _) => {
                let mut dims: Vec<&str> = Vec::new();
                dims.extend(items.iter().filter_map(|i| if let IndexItem::Keyword { dim, .. } = i { Some(dim.as_str()) } else { None }));
                dataset::check_dims(std::slice::from_ref(&value), &dims, "index", span)?;
                dataset::lift(std::slice::from_ref(&value), span, &mut |v| {
                    let a = v[0].array(&base.span)?;
                    match &value {
                        Value::Dataset(_) => indexed(&dataset::present(&a, items), &a, span, scope),
                        _ => indexed(items, &a, span, scope),
                    }
                })?
            }
        },
    })
}

/// Applies an element-wise function to operands that meet by name and label.
pub(crate) fn apply(op: ElementOp, args: &[Operand], span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    meet(op.name(), args, scope.join).and_then(|met| elementwise(op, &met)).map(Value::Array).map_err(at(span))
}

fn function_of_one(op: ElementOp, x: &Value, span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    times::check(op, &[x], span)?;
    apply(op, &[x.operand(span)?], span, scope)
}

fn binary(op: BinaryOp, a: &Value, b: &Value, span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    if let (Value::Scalar(x), Value::Scalar(y)) = (a, b)
        && op != BinaryOp::MatMul
    {
        return constant::binary(op, *x, *y).map(Value::Scalar).or_else(|e| fail(span, e));
    }
    if op.is_comparison()
        && let Some((a, b)) = selection::dates(a, b, span)?
    {
        return combined(op, &a, &b, span, scope);
    }
    match op {
        BinaryOp::MatMul => times::check_function("matmul", &[a.clone(), b.clone()], &[], span)?,
        _ => times::check(function(op), &[a, b], span)?,
    }
    combined(op, a, b, span, scope)
}

fn combined(op: BinaryOp, a: &Value, b: &Value, span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    match op {
        BinaryOp::MatMul => return linalg::matmul(&a.array(span)?, &b.array(span)?).map(Value::Array).map_err(at(span)),
        // x ** 2 is by far the most common power, and a product is exact and fast.
        BinaryOp::Pow if matches!(b, Value::Scalar(Scalar::Int(2))) => return apply(ElementOp::Square, &[a.operand(span)?], span, scope),
        // As in NumPy, also where the two differ: at -inf.
        BinaryOp::Pow if matches!(b, Value::Scalar(Scalar::Float(0.5))) => return apply(ElementOp::Sqrt, &[a.operand(span)?], span, scope),
        _ => {}
    }
    let function = function(op);
    let out = apply(function, &[a.operand(span)?, b.operand(span)?], span, scope).map_err(|e| {
        let inexact = |v: &Value| matches!(v, Value::Array(x) if x.dtype().is_inexact()) || matches!(v, Value::Scalar(Scalar::Float(_)));
        let help = match op {
            BinaryOp::BitXor => "powers are written x ** 2",
            BinaryOp::BitAnd | BinaryOp::BitOr => "& and | are tighter than comparisons, which need parentheses: (a > 0) & (b > 0)",
            _ => return e,
        };
        if e.help.is_none() && (inexact(a) || inexact(b)) { BuildError { help: Some(help.into()), ..e } } else { e }
    })?;
    Ok(crate::functions::of_operator(function, &[a, b], out))
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
            .map(|e| build_expr(e, scope).and_then(|v| if matches!(v, Value::None) { Ok(None) } else { v.int(&e.span).map(Some) }))
            .transpose()
            .map(Option::flatten)
    };
    Ok(match item {
        IndexItem::At(e) => match build_expr(e, scope)? {
            Value::List(items) => Index::Take(Value::List(items).ints(&e.span)?),
            // As NumPy's x[x > 0], whose length depends on the values.
            Value::Array(_) => {
                let message = "an array cannot be an index: the length of the result would depend on its values";
                let help = Some(
                    "where(x > 0, x, nan) keeps the elements that fulfil a condition; take(x, [0, 2], axis=0) takes some by index".into(),
                );
                return Err(BuildError { message: message.into(), span: e.span.clone(), help });
            }
            v => Index::At(v.int(&e.span)?),
        },
        IndexItem::Slice { start, stop, step, .. } => Index::Slice(part(start)?, part(stop)?, part(step)?),
        IndexItem::Ellipsis(_) => Index::Ellipsis,
        IndexItem::NewAxis(_) => Index::NewAxis,
        IndexItem::Keyword { item, .. } => one_index(item, scope)?,
    })
}

fn indexed(items: &[IndexItem], a: &Array, span: &Range<usize>, scope: &Scope<'_>) -> Result<Value, BuildError> {
    let mut positions: Vec<Index> = Vec::new();
    let mut out = a.clone();
    let mut labels = false;
    for item in items {
        if let IndexItem::Keyword { dim, item, span } = item {
            let (wanted, method) = selection::of_item(item, scope)?;
            out = selection::along(&out, dim, &wanted, method, span)?;
            labels = true;
        } else {
            positions.push(one_index(item, scope)?);
        }
    }
    unambiguous(&positions).map_err(at(span))?;
    if labels && !positions.is_empty() {
        return fail(span, "an index names either dimensions or positions, not both");
    }
    out = index(&out, &positions).map_err(at(span))?;
    Ok(Value::Array(out.with_attributes(a.attributes().clone())))
}

pub(crate) fn no_dim(a: &Array, dim: &str) -> String {
    let names: Vec<&str> = a.dims().iter().flatten().map(String::as_str).collect();
    let hint = crate::suggest(dim, names.iter().copied()).map(|s| format!("; did you mean '{s}'?")).unwrap_or_default();
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

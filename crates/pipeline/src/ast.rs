//! The syntax tree of an expression.
//!
//! The tree says what was written, not what it means: names are not resolved and functions are not looked up. Every node carries the
//! byte range of the expression text it came from, so that later errors can point at it.

use std::ops::Range;

/// An expression and where it stands in the expression text.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What kind of expression it is.
    pub kind: ExprKind,
    /// Byte range in the expression text.
    pub span: Range<usize>,
}

/// The kinds of expression.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A name: an input, an array or a parameter.
    Name(String),
    /// An integer literal.
    Int(i128),
    /// A float literal, or one of `nan`, `inf`, `pi`, `e`.
    Float(f64),
    /// An imaginary literal such as `2j`.
    Imag(f64),
    /// A string literal.
    Str(String),
    /// `True` or `False`.
    Bool(bool),
    /// `None` (also `newaxis`).
    None,
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `(a, b)`.
    Tuple(Vec<Expr>),
    /// `f(a, key=b)`; a method call `x.f(a)` is `f(x, a)`.
    Call {
        /// The function's name.
        function: String,
        /// Where the function's name stands.
        function_span: Range<usize>,
        /// Positional arguments.
        args: Vec<Expr>,
        /// Keyword arguments, in the order written; no name occurs twice.
        kwargs: Vec<(String, Expr)>,
    },
    /// A unary operation.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// What it applies to.
        operand: Box<Expr>,
    },
    /// A binary operation.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// The left operand.
        left: Box<Expr>,
        /// The right operand.
        right: Box<Expr>,
    },
    /// `ds.name`: a variable of a dataset.
    Member {
        /// The dataset.
        base: Box<Expr>,
        /// The variable.
        name: String,
    },
    /// `start:stop:step` as the value of an argument, as in `isel(x, time=0:12)`.
    Slice(Box<[Option<Expr>; 3]>),
    /// `x[...]`.
    Index {
        /// What is indexed.
        base: Box<Expr>,
        /// The items between the brackets.
        items: Vec<IndexItem>,
    },
}

/// One item between the brackets of an index.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum IndexItem {
    /// An integer, a list of integers, or any other expression.
    At(Expr),
    /// `start:stop:step`, each part optional.
    Slice {
        /// The first position.
        start: Option<Expr>,
        /// The position after the last.
        stop: Option<Expr>,
        /// The step.
        step: Option<Expr>,
        /// Where it stands.
        span: Range<usize>,
    },
    /// `...`
    Ellipsis(Range<usize>),
    /// `None` or `newaxis`.
    NewAxis(Range<usize>),
    /// `dim=item`.
    Keyword {
        /// The name of the dimension.
        dim: String,
        /// Where the whole item stands.
        span: Range<usize>,
        /// The item: `At` or `Slice`.
        item: Box<IndexItem>,
    },
}

impl IndexItem {
    /// Where the item stands in the expression text.
    pub fn span(&self) -> Range<usize> {
        match self {
            IndexItem::At(e) => e.span.clone(),
            IndexItem::Slice { span, .. } | IndexItem::Keyword { span, .. } => span.clone(),
            IndexItem::Ellipsis(span) | IndexItem::NewAxis(span) => span.clone(),
        }
    }

    fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Expr)) {
        match self {
            IndexItem::At(e) => e.visit(f),
            IndexItem::Slice { start, stop, step, .. } => [start, stop, step].into_iter().flatten().for_each(|e| e.visit(f)),
            IndexItem::Keyword { item, .. } => item.visit(f),
            IndexItem::Ellipsis(_) | IndexItem::NewAxis(_) => {}
        }
    }
}

/// Unary operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `+x`
    Pos,
    /// `~x`
    Invert,
}

macro_rules! binary_ops {
    ($($name:ident $symbol:literal),* $(,)?) => {
        /// Binary operators.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum BinaryOp { $(#[doc = concat!("`", $symbol, "`")] $name),* }
        impl BinaryOp {
            /// How the operator is written.
            pub fn symbol(self) -> &'static str { match self { $(BinaryOp::$name => $symbol),* } }
            /// The operator written so.
            pub fn from_symbol(symbol: &str) -> Option<Self> { match symbol { $($symbol => Some(BinaryOp::$name),)* _ => None } }
        }
    };
}
binary_ops! {
    Lt "<", Le "<=", Gt ">", Ge ">=", Eq "==", Ne "!=", BitOr "|", BitXor "^", BitAnd "&", Shl "<<", Shr ">>",
    Add "+", Sub "-", Mul "*", Div "/", FloorDiv "//", Mod "%", MatMul "@", Pow "**",
}

impl BinaryOp {
    /// Binding strength: higher binds tighter, as in Python.
    pub(crate) fn precedence(self) -> u8 {
        use BinaryOp::*;
        match self {
            Lt | Le | Gt | Ge | Eq | Ne => 1,
            BitOr => 2,
            BitXor => 3,
            BitAnd => 4,
            Shl | Shr => 5,
            Add | Sub => 6,
            Mul | Div | FloorDiv | Mod | MatMul => 7,
            Pow => 9,
        }
    }

    /// Whether the operator compares.
    pub fn is_comparison(self) -> bool {
        self.precedence() == 1
    }
}

impl Expr {
    /// Calls `f` on this expression and all below it, outermost first.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Expr)) {
        f(self);
        match &self.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().for_each(|e| e.visit(f)),
            ExprKind::Call { args, kwargs, .. } => {
                args.iter().for_each(|e| e.visit(f));
                kwargs.iter().for_each(|(_, e)| e.visit(f));
            }
            ExprKind::Unary { operand, .. } => operand.visit(f),
            ExprKind::Member { base, .. } => base.visit(f),
            ExprKind::Slice(parts) => parts.iter().flatten().for_each(|e| e.visit(f)),
            ExprKind::Binary { left, right, .. } => {
                left.visit(f);
                right.visit(f);
            }
            ExprKind::Index { base, items } => {
                base.visit(f);
                items.iter().for_each(|i| i.visit(f));
            }
            _ => {}
        }
    }

    /// The names the expression refers to and where, in the order written. Functions are not among them.
    pub fn names(&self) -> Vec<(&str, Range<usize>)> {
        let mut out = Vec::new();
        self.visit(&mut |e| {
            if let ExprKind::Name(n) = &e.kind {
                out.push((n.as_str(), e.span.clone()));
            }
        });
        out
    }
}

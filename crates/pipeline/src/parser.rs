//! The parser: precedence climbing, with Python's precedences.
//!
//! Two bounds keep hostile text harmless: brackets, unary operators and powers nest at most [`MAX_DEPTH`] deep, and the tree (which
//! also grows by long chains such as `a + b + c + …`) is at most [`MAX_HEIGHT`] high, so recursion over it is safe.

use crate::SyntaxError;
use crate::ast::{BinaryOp, Expr, ExprKind, IndexItem, UnaryOp};
use crate::lexer::{Tok, Token, error, lex};
use std::ops::Range;

/// How deep an expression may nest.
pub const MAX_DEPTH: usize = 64;
/// How high the tree of an expression may be.
pub const MAX_HEIGHT: usize = 512;
/// How long a text may be, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Parses one expression.
///
/// ```
/// let e = chunkwise_pipeline::parse_expr("mean(u * v, dim=\"time\")").unwrap();
/// assert_eq!(e.names()[0], ("u", 5..6));
/// ```
pub fn parse_expr(text: &str) -> Result<Expr, SyntaxError> {
    if text.len() > MAX_BYTES {
        return Err(error(0..0, format!("the expression is longer than {MAX_BYTES} bytes"), None));
    }
    let mut p = Parser { tokens: lex(text)?, at: 0, depth: 0 };
    if p.peek() == &Tok::End {
        return Err(error(0..text.len(), "the expression is empty", None));
    }
    let (expr, _) = p.tuple_or_expr()?;
    match p.peek().clone() {
        Tok::End => Ok(expr),
        Tok::Op("=") => Err(error(p.span(), "unexpected '='", Some("use == to compare"))),
        Tok::Op(close @ (")" | "]")) => Err(error(p.span(), format!("unmatched '{close}'"), Some("remove it or add the opening bracket"))),
        Tok::Name(n) if n == "if" => Err(error(p.span(), "'if' is not supported", Some("use where(condition, a, b)"))),
        _ => Err(p.unexpected("an operator or the end of the expression")),
    }
}

/// Names that cannot be given to inputs, arrays or parameters, because the language uses them.
pub const RESERVED: &[&str] =
    &["True", "False", "None", "nan", "inf", "newaxis", "and", "or", "not", "if", "else", "in", "is", "lambda", "for"];

type Built = (Expr, usize);

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    // `lex` always ends with `End`, and `bump` never passes it.
    fn peek(&self) -> &Tok {
        self.tokens.get(self.at).map_or(&Tok::End, |t| &t.tok)
    }
    fn peek2(&self) -> &Tok {
        self.tokens.get(self.at + 1).map_or(&Tok::End, |t| &t.tok)
    }
    fn span(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(0..0, |t| t.span.clone())
    }
    fn last_end(&self) -> usize {
        self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map_or(0, |t| t.span.end)
    }
    fn bump(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }
    fn eat(&mut self, op: &'static str) -> bool {
        let found = self.peek() == &Tok::Op(op);
        if found {
            self.bump();
        }
        found
    }
    fn is(&self, op: &'static str) -> bool {
        self.peek() == &Tok::Op(op)
    }

    fn describe(&self) -> String {
        match self.peek() {
            Tok::Name(n) => format!("the name '{n}'"),
            Tok::Int(_) | Tok::Float(_) | Tok::Imag(_) => "a number".into(),
            Tok::Str(_) => "a string".into(),
            Tok::Op(op) => format!("'{op}'"),
            Tok::End => "the end of the expression".into(),
        }
    }
    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let word = matches!(self.peek(), Tok::Name(n) if matches!(n.as_str(), "and" | "or" | "not" | "in" | "is"));
        if word {
            return self.word_operator();
        }
        let before = self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map(|t| &t.tok);
        let help = match (before, self.peek()) {
            (Some(Tok::Op("&")), Tok::Op("&")) => Some("use one & and put the comparisons in parentheses: (a > 0) & (b > 0)"),
            (Some(Tok::Op("|")), Tok::Op("|")) => Some("use one | and put the comparisons in parentheses: (a > 0) | (b > 0)"),
            (Some(Tok::Op("^")), Tok::Op("^")) => Some("powers are written a ** 2"),
            (Some(Tok::Op("|")), Tok::Op(">")) => Some("functions are called as mean(x) or x.mean()"),
            (_, Tok::Name(n)) if n == "for" => Some("there are no loops: functions work on whole arrays"),
            (Some(Tok::Name(_)), Tok::Name(_)) if self.at > 1 && self.tokens[self.at - 2].tok == Tok::Op(".") => {
                Some("an operator is missing, such as *; a variable with a space in its name is written ds[\"air temp\"]")
            }
            (Some(Tok::Name(_) | Tok::Int(_) | Tok::Float(_) | Tok::Op(")" | "]")), Tok::Name(_) | Tok::Int(_) | Tok::Float(_)) => {
                Some("an operator is missing between them, such as *")
            }
            _ => None,
        };
        error(self.span(), format!("expected {wanted}, found {}", self.describe()), help)
    }
    fn word_operator(&self) -> SyntaxError {
        let Tok::Name(word) = self.peek() else { return error(self.span(), "unexpected text", None) };
        let help = match word.as_str() {
            "and" => "use & and put the comparisons in parentheses: (a > 0) & (b > 0)",
            "or" => "use | and put the comparisons in parentheses: (a > 0) | (b > 0)",
            "not" => "use ~ and put the comparison in parentheses: ~(a > 0)",
            "in" => "use == and |: (x == 1) | (x == 2)",
            _ => "use == to compare",
        };
        error(self.span(), format!("'{word}' does not work on arrays"), Some(help))
    }

    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, SyntaxError>) -> Result<T, SyntaxError> {
        if self.depth >= MAX_DEPTH {
            let message = format!("the expression nests more than {MAX_DEPTH} deep");
            return Err(error(self.span(), message, Some("give a part of it its own name under 'arrays'")));
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }
    fn build(&self, kind: ExprKind, start: usize, height: usize) -> Result<Built, SyntaxError> {
        let span = start..self.last_end();
        if height >= MAX_HEIGHT {
            return Err(error(span, "the expression is too long", Some("give a part of it its own name under 'arrays'")));
        }
        Ok((Expr { kind, span }, height + 1))
    }

    fn tuple_or_expr(&mut self) -> Result<Built, SyntaxError> {
        let start = self.span().start;
        let first = self.expr()?;
        if !self.is(",") {
            return Ok(first);
        }
        let (mut items, mut height) = (vec![first.0], first.1);
        while self.eat(",") {
            if matches!(self.peek(), Tok::End | Tok::Op(")")) {
                break;
            }
            let (e, h) = self.expr()?;
            items.push(e);
            height = height.max(h);
        }
        self.build(ExprKind::Tuple(items), start, height)
    }

    fn expr(&mut self) -> Result<Built, SyntaxError> {
        self.deeper(|p| p.binary(1))
    }

    fn binary(&mut self, min: u8) -> Result<Built, SyntaxError> {
        let start = self.span().start;
        let mut left = self.unary()?;
        let mut compared = false;
        loop {
            let op = match self.peek() {
                Tok::Op(symbol) => BinaryOp::from_symbol(symbol),
                Tok::Name(n) if matches!(n.as_str(), "and" | "or" | "not" | "in" | "is") => return Err(self.word_operator()),
                _ => None,
            };
            let Some(op) = op.filter(|op| op.precedence() >= min) else { return Ok(left) };
            if op.is_comparison() {
                if compared {
                    return Err(error(self.span(), "comparisons cannot be chained", Some("write (a < b) & (b < c)")));
                }
                compared = true;
            }
            self.bump();
            let right = self.binary(op.precedence() + 1)?;
            let kind = ExprKind::Binary { op, left: Box::new(left.0), right: Box::new(right.0) };
            left = self.build(kind, start, left.1.max(right.1))?;
        }
    }

    fn unary(&mut self) -> Result<Built, SyntaxError> {
        let op = match self.peek() {
            Tok::Op("-") => UnaryOp::Neg,
            Tok::Op("+") => UnaryOp::Pos,
            Tok::Op("~") => UnaryOp::Invert,
            _ => return self.power(),
        };
        let start = self.span().start;
        self.bump();
        let (operand, height) = self.deeper(Self::unary)?;
        self.build(ExprKind::Unary { op, operand: Box::new(operand) }, start, height)
    }

    fn power(&mut self) -> Result<Built, SyntaxError> {
        let start = self.span().start;
        let left = self.postfix()?;
        if !self.eat("**") {
            return Ok(left);
        }
        let right = self.deeper(Self::unary)?;
        let kind = ExprKind::Binary { op: BinaryOp::Pow, left: Box::new(left.0), right: Box::new(right.0) };
        self.build(kind, start, left.1.max(right.1))
    }

    fn postfix(&mut self) -> Result<Built, SyntaxError> {
        let start = self.span().start;
        let mut base = self.atom()?;
        loop {
            if self.is("[") {
                let (items, height) = self.index()?;
                base = self.build(ExprKind::Index { base: Box::new(base.0), items }, start, base.1.max(height))?;
            } else if self.is(".") {
                self.bump();
                let function_span = self.span();
                let Tok::Name(function) = self.peek().clone() else { return Err(self.unexpected("the name of a method after '.'")) };
                self.bump();
                if !self.is("(") {
                    if function == "T" {
                        return Err(error(function_span, "'.T' is not supported", Some("write transpose(x)")));
                    }
                    base = self.build(ExprKind::Member { base: Box::new(base.0), name: function }, start, base.1)?;
                    continue;
                }
                base = self.call(function, function_span, Some(base), start)?;
            } else if self.is("(") {
                return Err(error(base.0.span, "only a function can be called", Some("use * to multiply")));
            } else {
                return Ok(base);
            }
        }
    }

    /// Reads `item, item, …` and the closing bracket; the opening one is the current token.
    fn bracketed(&mut self, close: &'static str, item: &mut dyn FnMut(&mut Self) -> Result<(), SyntaxError>) -> Result<bool, SyntaxError> {
        let open = self.span();
        let what = if close == ")" { "parenthesis" } else { "bracket" };
        let unclosed =
            || error(open.clone(), format!("the {what} is not closed"), Some(if close == ")" { "add a ')'" } else { "add a ']'" }));
        self.bump();
        let mut comma = false;
        loop {
            if self.eat(close) {
                return Ok(comma);
            }
            if self.peek() == &Tok::End {
                return Err(unclosed());
            }
            item(self)?;
            match self.peek() {
                Tok::Op(",") => {
                    self.bump();
                    comma = true;
                }
                Tok::Op(op) if *op == close => {}
                Tok::End => return Err(unclosed()),
                Tok::Op("=") => return Err(error(self.span(), "unexpected '='", Some("use == to compare"))),
                _ => return Err(self.unexpected(&format!("',' or '{close}'"))),
            }
        }
    }

    fn call(&mut self, function: String, function_span: Range<usize>, first: Option<Built>, start: usize) -> Result<Built, SyntaxError> {
        let mut height = first.as_ref().map_or(0, |f| f.1);
        let mut args: Vec<Expr> = first.into_iter().map(|f| f.0).collect();
        let mut kwargs: Vec<(String, Expr)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        self.bracketed(")", &mut |p| {
            if let (Tok::Name(name), Tok::Op("=")) = (p.peek().clone(), p.peek2()) {
                if !seen.insert(name.clone()) {
                    return Err(error(p.span(), format!("the argument '{name}' is given twice"), None));
                }
                p.bump();
                p.bump();
                let mut h = 0;
                let value = p.argument(&mut h)?;
                height = height.max(h);
                kwargs.push((name, value));
                return Ok(());
            }
            if p.is("*") || p.is("**") {
                return Err(error(p.span(), "arguments cannot be unpacked", Some("write them out")));
            }
            let at = p.span();
            let (value, h) = p.expr()?;
            if !kwargs.is_empty() {
                return Err(error(at.start..value.span.end, "a positional argument cannot follow a keyword argument", None));
            }
            height = height.max(h);
            args.push(value);
            Ok(())
        })?;
        self.build(ExprKind::Call { function, function_span, args, kwargs }, start, height)
    }

    fn index(&mut self) -> Result<(Vec<IndexItem>, usize), SyntaxError> {
        let open = self.span().start;
        let (mut items, mut height, mut ellipsis) = (Vec::new(), 0, false);
        let mut dims = std::collections::HashSet::new();
        self.bracketed("]", &mut |p| {
            let start = p.span().start;
            if let (Tok::Name(dim), Tok::Op("=")) = (p.peek().clone(), p.peek2()) {
                if !dims.insert(dim.clone()) {
                    return Err(error(p.span(), format!("the dimension '{dim}' is indexed twice"), None));
                }
                p.bump();
                p.bump();
                let item = Box::new(p.index_item(&mut height)?);
                if matches!(*item, IndexItem::Ellipsis(_) | IndexItem::NewAxis(_)) {
                    return Err(error(item.span(), "expected an index or a slice after '='", None));
                }
                items.push(IndexItem::Keyword { dim, span: start..p.last_end(), item });
                return Ok(());
            }
            let item = p.index_item(&mut height)?;
            if !dims.is_empty() {
                return Err(error(item.span(), "a positional index cannot follow an index by name", None));
            }
            if matches!(item, IndexItem::Ellipsis(_)) && std::mem::replace(&mut ellipsis, true) {
                return Err(error(item.span(), "an index can have only one '...'", None));
            }
            items.push(item);
            Ok(())
        })?;
        if items.is_empty() {
            return Err(error(open..self.last_end(), "the index is empty", Some("write x[...] for the whole array")));
        }
        Ok((items, height))
    }

    /// The value of a named argument: an expression, or a slice.
    fn argument(&mut self, height: &mut usize) -> Result<Expr, SyntaxError> {
        let start = self.span().start;
        if !self.is(":") {
            let (e, h) = self.expr()?;
            *height = (*height).max(h);
            if !self.is(":") {
                return Ok(e);
            }
            return self.slice_after(Some(e), start, height);
        }
        self.slice_after(None, start, height)
    }

    fn slice_after(&mut self, first: Option<Expr>, start: usize, height: &mut usize) -> Result<Expr, SyntaxError> {
        let mut parts = [first, None, None];
        for part in &mut parts[1..] {
            if !self.eat(":") {
                break;
            }
            if !matches!(self.peek(), Tok::Op(":" | "," | ")") | Tok::End) {
                let (e, h) = self.expr()?;
                *height = (*height).max(h);
                *part = Some(e);
            }
        }
        Ok(self.build(ExprKind::Slice(Box::new(parts)), start, *height)?.0)
    }

    fn index_item(&mut self, height: &mut usize) -> Result<IndexItem, SyntaxError> {
        let start = self.span().start;
        if self.eat("...") {
            return Ok(IndexItem::Ellipsis(start..self.last_end()));
        }
        let mut part = |p: &mut Self| -> Result<Option<Expr>, SyntaxError> {
            if matches!(p.peek(), Tok::Op(":" | "," | "]") | Tok::End) {
                return Ok(None);
            }
            let (e, h) = p.expr()?;
            *height = (*height).max(h);
            Ok(Some(e))
        };
        let first = part(self)?;
        if !self.eat(":") {
            return match first {
                Some(Expr { kind: ExprKind::None, span }) => Ok(IndexItem::NewAxis(span)),
                Some(e) => Ok(IndexItem::At(e)),
                None => Err(self.unexpected("an index")),
            };
        }
        let stop = part(self)?;
        let step = if self.eat(":") { part(self)? } else { None };
        // `x[None:3]` means `x[:3]`.
        let given = |e: Option<Expr>| e.filter(|e| e.kind != ExprKind::None);
        Ok(IndexItem::Slice { start: given(first), stop: given(stop), step: given(step), span: start..self.last_end() })
    }

    fn atom(&mut self) -> Result<Built, SyntaxError> {
        let span = self.span();
        let kind = match self.peek().clone() {
            Tok::Int(v) => ExprKind::Int(v),
            Tok::Float(v) => ExprKind::Float(v),
            Tok::Imag(v) => ExprKind::Imag(v),
            Tok::Str(mut s) => {
                // Adjacent strings join, as in Python.
                while let Tok::Str(more) = self.peek2() {
                    s.push_str(more);
                    self.bump();
                }
                ExprKind::Str(s)
            }
            Tok::Name(name) => return self.name(name, span),
            Tok::Op("(") => return self.parenthesised(),
            Tok::Op("[") => {
                let (mut items, mut height) = (Vec::new(), 0);
                self.bracketed("]", &mut |p| {
                    let (e, h) = p.expr()?;
                    height = height.max(h);
                    items.push(e);
                    Ok(())
                })?;
                return self.build(ExprKind::List(items), span.start, height);
            }
            Tok::Op("=") => return Err(error(span, "unexpected '='", Some("use == to compare"))),
            Tok::Op("...") => return Err(error(span, "'...' can only stand in an index", Some("write x[...]"))),
            _ => return Err(self.unexpected("a value")),
        };
        self.bump();
        self.build(kind, span.start, 0)
    }

    fn name(&mut self, name: String, span: Range<usize>) -> Result<Built, SyntaxError> {
        let kind = match name.as_str() {
            "and" | "or" | "not" | "in" | "is" => return Err(self.word_operator()),
            "lambda" | "for" | "if" | "else" => {
                return Err(error(span, format!("'{name}' is not supported"), Some("use where(condition, a, b) to choose between values")));
            }
            _ if self.peek2() == &Tok::Op("(") => {
                self.bump();
                return self.call(name, span.clone(), None, span.start);
            }
            "True" | "False" => ExprKind::Bool(name == "True"),
            "None" | "newaxis" => ExprKind::None,
            "nan" => ExprKind::Float(f64::NAN),
            "inf" => ExprKind::Float(f64::INFINITY),
            _ => ExprKind::Name(name),
        };
        self.bump();
        self.build(kind, span.start, 0)
    }

    fn parenthesised(&mut self) -> Result<Built, SyntaxError> {
        let start = self.span().start;
        let (mut items, mut height) = (Vec::new(), 0);
        let comma = self.bracketed(")", &mut |p| {
            let (e, h) = p.expr()?;
            height = height.max(h);
            items.push(e);
            Ok(())
        })?;
        if !comma && let Some(inner) = items.pop() {
            return Ok((Expr { kind: inner.kind, span: start..self.last_end() }, height));
        }
        self.build(ExprKind::Tuple(items), start, height)
    }
}

//! Pipeline files and the expression language they are written in.
//!
//! A pipeline file names inputs, defines arrays by expressions over them and says where the results go. This crate turns the text of
//! such a file into a checked [`Document`]: every name is defined, there are no cycles, and every expression has been parsed. Errors
//! are [`PipelineError`]s that point at the place in the *file*, even when the mistake is inside an expression.
//!
//! - [`ast`], `lexer` and `parser`: a small, safe, Python-like expression language ([`parse_expr`]).
//! - [`document`]: the file itself, in YAML, JSON or TOML ([`parse_document`]).
//! - [`node`]: the one tree of values with spans that the three formats are read into.
//! - [`build_expr`]: from an expression to lazy arrays, by the table of operations ([`chunkwise_ops::table`]).
//! - [`error`]: the diagnostics.

pub mod ast;
mod build;
mod constant;
pub mod document;
pub mod error;
mod lexer;
mod mistakes;
pub mod node;
pub mod parser;

pub use ast::{BinaryOp, Expr, ExprKind, IndexItem, UnaryOp};
pub use build::{BuildError, Scope, build_expr, named_constant};
pub use document::{ArrayDef, ChunkSpec, Dim, Document, Format, Input, Output, Parameter, ParameterValue, Spec, TextMap, parse_document};
pub use error::{PipelineError, Spanned, SyntaxError};
pub use parser::parse_expr;

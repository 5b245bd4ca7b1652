//! Pipeline files and the expression language they are written in.
//!
//! A pipeline file names inputs, defines arrays by expressions over them and says where the results go. This crate turns the text of
//! such a file into a checked [`Document`]: every name is defined, there are no cycles, and every expression has been parsed. Errors
//! are [`PipelineError`]s that point at the place in the *file*, even when the mistake is inside an expression.
//!
//! - [`ast`], `lexer` and `parser`: a small, safe, Python-like expression language ([`parse_expr`]).
//! - [`document`]: the file itself, in YAML, JSON or TOML ([`parse_document`]).
//! - [`node`]: the one tree of values with spans that the three formats are read into.
//! - [`error`]: the diagnostics, and [`suggest`] for "did you mean".

pub mod ast;
mod build;
mod constant;
mod dataset;
pub mod document;
pub mod error;
mod functions;
mod lexer;
mod mistakes;
pub mod node;
pub mod parser;

pub use ast::{BinaryOp, Expr, ExprKind, IndexItem, UnaryOp};
pub use build::{BuildError, Scope, Value, build_expr, named_constant};
pub use dataset::Dataset;
pub use document::{ArrayDef, ChunkSpec, Dim, Document, Format, Input, Output, Parameter, ParameterValue, Spec, TextMap, parse_document};
pub use error::{PipelineError, Spanned, SyntaxError, suggest};
pub use functions::{FUNCTIONS, called, instead, like};
pub use parser::parse_expr;

//! Lazy arrays and the operations on them.
//!
//! An [`Array`] is a node of an expression graph. An operation is a function from arrays to an array: it *infers* the dtype, shape,
//! chunks and dimension names of its result and *lowers* itself to one or more kernels. One file a family.

pub mod align;
pub mod calendar;
pub mod cf;
pub mod coords;
pub mod create;
pub mod einsum;
pub mod elementwise;
mod error;
mod graph;
pub mod group;
pub mod index;
pub mod linalg;
mod literal;
pub mod manipulate;
pub mod qr;
pub mod reduce;
pub mod select;
pub mod stencil;

pub use coords::{Coord, Labels};
pub use error::OpError;
pub use graph::{Array, Definition, Source};

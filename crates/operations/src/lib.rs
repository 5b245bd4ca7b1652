//! Lazy arrays and the operations on them.
//!
//! An [`Array`] is a node of an expression graph. An operation is a function from arrays to an array: it *infers* the dtype, shape,
//! chunks and dimension names of its result and *lowers* itself to one or more kernels. One file a family.
//!
//! What users call is in [`table`]: the name of each operation, its parameters, its rules for attributes and times, and its description.
//! A call takes [`Value`]s and says what is wrong with them in a [`CallError`].

pub mod align;
pub mod calendar;
pub mod call;
pub mod cf;
pub mod coords;
pub mod create;
mod dataset;
pub mod einsum;
pub mod elementwise;
mod error;
mod graph;
pub mod group;
pub mod index;
mod lift;
pub mod linalg;
mod literal;
pub mod lookup;
pub mod manipulate;
mod near;
pub mod qr;
pub mod reduce;
pub mod scan;
pub mod select;
pub mod stencil;
pub mod table;
mod value;

pub use coords::{Coord, Labels};
pub use dataset::{Dataset, coordinate};
pub use error::OpError;
pub use graph::{Array, Definition, Source};
pub use lift::{check_dims, lift};
pub use near::suggest;
pub use value::{CallError, Place, Value};

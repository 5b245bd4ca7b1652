//! Kernels: pure functions on in-memory blocks. They know no plans and no storage.
//!
//! A [`Kernel`] answers *demand* (which regions of my inputs does this region of my output need?), *compute* (the output block
//! from those input blocks) or, for the foldable ones, *fold* (take the blocks along the contracted indices one step at a
//! time into an accumulator). Because demand is stated on regions, any chain of kernels fuses.

mod block;
mod call;
mod cast;
mod check;
mod concat;
mod contract;
mod convert;
mod create;
mod elementwise;
mod error;
mod gather;
mod group;
mod integer;
mod kernel;
mod kind;
mod lookup;
mod matmul;
mod points;
mod prefetch;
mod qr;
mod random;
mod reduce;
mod reshape;
mod rows;
mod scan;
mod simd;
mod stencil;
mod threads;
mod view;

pub use block::{Block, BlockElement};
pub use call::{Bound, Call, Function, FunctionError, Functions, InputAxis, Invocation};
pub use contract::Contract;
pub use convert::cast;
pub use create::Create;
pub use elementwise::{ElementOp, Fused, FusedOp, Operand, Scratch};
pub use error::KernelError;
pub use gather::{AxisMap, PadMode};
pub use kernel::{Kernel, Node};
pub use kind::{Along, ArrayType, Demand, DemandList, Fold, Map, Part, Rounds, Traits, Window, Work};
pub use points::Points;
pub use prefetch::expect_writes;
pub use qr::{Factor, Qr};
pub use random::Distribution;
pub use reduce::ReduceOp;
pub use scan::{Scan, ScanOp};
pub use stencil::{Stencil, StencilOp};
pub use threads::{Busy, Cores, Lent, borrow};
pub use view::ViewAxis;

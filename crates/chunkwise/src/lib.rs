//! Array computations that are larger than memory, in bounded memory.
//!
//! [`Expr`] writes arrays as formulas, and a [`Session`] plans and runs them inside a memory budget that is checked before anything is
//! read:
//!
//! ```
//! use chunkwise::{Expr, Session};
//! let u = Expr::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/winds.zarr/uwnd"))?;
//! let work = std::env::temp_dir().join("chunkwise-doc-lib");
//! let session = Session::new(500_000_000, 2, &work.display().to_string())?;
//!
//! let energy = (&u * &u / 2.0).mean(&["time"]);
//! let zonal = energy.mean(&["lon"]).compute::<f32>(&session)?;
//! assert_eq!(zonal.shape(), [73]);
//! # Ok::<(), chunkwise::Error>(())
//! ```
//!
//! Beneath are [`open`], which gives the lazy [`Array`] of a stored one, and the functions of [`ops`] on such arrays. [`pipeline`] does
//! the same for pipeline files, and [`verify_store`] proves that a store is whole. There are complete programs in `examples/rust`.

pub mod detached;
mod encoding;
mod expr;
mod inputs;
mod observer;
mod open;
mod outputs;
pub mod pipeline;
mod reserve;
pub mod results;
mod runtime;
mod session;
mod verify;

pub use chunkwise_executor as executor;
pub use chunkwise_executor::checksums::CHECKSUMS;
pub use chunkwise_kernels as kernels;
pub use chunkwise_ops as ops;
pub use chunkwise_ops::Array;
pub use chunkwise_plan as plan;
pub use chunkwise_planner::{Fusion, PlannerError, Request};
pub use chunkwise_report as report;
pub use chunkwise_storage as storage;
pub use chunkwise_task as task;
pub use chunkwise_types as types;
pub use chunkwise_types::{ByteSize, DType};
pub use expr::{Expr, Term};
pub use open::{decode_cf, open};
pub use reserve::{RESERVED, program_memory};
pub use runtime::{Runtime, RuntimeBuilder};
pub use session::{Error, PLANNING, Session, limit_allocator};
pub use verify::{VerifyReport, verify_plan, verify_store};

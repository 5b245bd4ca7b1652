//! Array computations that are larger than memory, in bounded memory.
//!
//! [`open`] gives a lazy array of a stored Zarr array; the functions of [`ops`] build expressions; a [`Session`] plans and runs
//! them inside a memory budget. [`pipeline`] does the same for pipeline files.

mod checksums;
mod coordinates;
mod open;
pub mod pipeline;
mod provenance;
mod session;
mod verify;

pub use checksums::CHECKSUMS;
pub use chunkwise_executor as executor;
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
pub use open::{decode_cf, open};
pub use session::{Error, RESERVED, Session};
pub use verify::{VerifyReport, verify_plan, verify_store};

//! Data types, shapes, regions and chunk grids: the vocabulary of every other crate. No I/O.

mod access;
mod bytesize;
mod dtype;
mod grid;
mod region;
mod scalar;
mod stores;

pub use access::{ArrayAccess, BLOSC_LARGEST, BLOSC_MOST, LARGE_CHUNK, STREAM_TABLES, blosc_scratch};
pub use bytesize::{ByteSize, ByteSizeError};
pub use dtype::{DType, DTypeKind};
pub use grid::{AxisChunks, ChunkGrid, GridError};
pub use region::{PerAxis, Region, ravel, unravel, volume};
pub use scalar::Scalar;
pub use stores::{PROGRAM_SCHEME, STORE_SCHEMES, StoreOptions, is_remote, secret_field, without_secrets};

/// The largest rank that any array may have. Bounds recursion and allocation on untrusted input.
pub const MAX_RANK: usize = 32;

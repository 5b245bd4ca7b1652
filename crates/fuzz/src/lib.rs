//! What strangers can hand in, as functions over bytes.
//!
//! Each target takes any bytes, does with them what the command, a worker or the function does with such a document, and panics if a promise is
//! broken: that bad input is an error, that what is accepted once is accepted again, that what is read in parts is what is read as a whole. It
//! reads and writes nothing but objects in memory ([`place`]). `tests/bounded.rs` runs the targets for a moment in every test run, and
//! `tests/fuzz` at the root of the repository runs them for as long as one likes, guided by coverage.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arrays;
mod chunk;
mod event;
mod group;
mod inputs;
mod metadata;
pub mod mutate;
mod pipeline;
mod place;
mod plan;
mod url;

pub use arrays::Kind;
pub use chunk::chunk;
pub use event::event;
pub use group::group;
pub use metadata::{metadata, metadata_v2};
pub use pipeline::pipeline;
pub use place::runtime;
pub use plan::plan;
pub use url::url;

/// A function that takes any bytes, and panics if they break a promise.
pub type Target = fn(&[u8]);

/// All targets by name. Their corpora are in `tests/fuzz/corpus`.
pub const TARGETS: [(&str, Target); 8] = [
    ("chunk", chunk),
    ("metadata", metadata),
    ("metadata_v2", metadata_v2),
    ("group", group),
    ("pipeline", pipeline),
    ("plan", plan),
    ("event", event),
    ("url", url),
];

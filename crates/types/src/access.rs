//! How tasks may read the chunks of a stored array. The storage layer finds it out, a plan carries it, and the memory of a task is
//! projected from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How the chunks of a stored array can be read, by their codecs.
///
/// The storage layer finds it out when it opens an array. A plan carries it, since the memory of a task follows from it; a task that opens the
/// array holds the plan to it with [`ArrayAccess::covers`].
///
/// ```
/// use chunkwise_types::ArrayAccess;
/// let whole = ArrayAccess::default();
/// assert!(whole.covers(ArrayAccess::Raw), "what is planned for whole chunks has room for parts of them");
/// assert!(!ArrayAccess::Raw.covers(whole));
/// assert_eq!(serde_json::to_string(&ArrayAccess::Stream { kept: 7 }).unwrap(), r#"{"stream":{"kept":7}}"#);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrayAccess {
    /// Chunks are stored as they are in memory, without shards: byte ranges of them can be read.
    Raw,
    /// A part of a chunk needs only the blocks of Blosc that it is in. A whole chunk is decoded right into its place. No shards.
    Blocks {
        /// Decoded bytes of a block.
        block: u64,
    },
    /// A chunk can be decoded from its beginning on. A whole chunk is decoded right into its place. No shards.
    Stream {
        /// Bytes that the decoder keeps.
        kept: u64,
    },
    /// A chunk, or a chunk inside a shard, is decoded as a whole.
    Whole {
        /// It is decoded right into its place, without a decoded copy beside it. No shards.
        #[serde(default)]
        in_place: bool,
        /// Bytes that the decoder takes beside the chunk and its encoded bytes, if they are many.
        #[serde(default)]
        scratch: u64,
    },
}

impl Default for ArrayAccess {
    /// What can be done with all codecs.
    fn default() -> Self {
        ArrayAccess::Whole { in_place: false, scratch: 0 }
    }
}

impl ArrayAccess {
    /// True if this is the default.
    pub fn is_default(&self) -> bool {
        *self == ArrayAccess::default()
    }

    /// True if tasks that are planned for this access can read an array of access `found` within their planned memory.
    pub fn covers(self, found: ArrayAccess) -> bool {
        match (self, found) {
            (ArrayAccess::Stream { kept: said }, ArrayAccess::Stream { kept }) => kept <= said,
            (ArrayAccess::Whole { in_place: said, scratch: most }, ArrayAccess::Whole { in_place, scratch }) => {
                in_place >= said && scratch <= most
            }
            (ArrayAccess::Whole { in_place, .. }, _) => !in_place,
            _ => self == found,
        }
    }

    /// Bytes that the decoder of a whole chunk takes beside the chunk and its encoded bytes, if they are many.
    pub fn scratch(self) -> u64 {
        match self {
            ArrayAccess::Whole { scratch, .. } => scratch,
            ArrayAccess::Raw | ArrayAccess::Blocks { .. } | ArrayAccess::Stream { .. } => 0,
        }
    }

    /// True if an encoded chunk is decoded directly into its destination.
    pub fn in_place(self) -> bool {
        match self {
            ArrayAccess::Whole { in_place, .. } => in_place,
            ArrayAccess::Blocks { .. } | ArrayAccess::Stream { .. } => true,
            ArrayAccess::Raw => false,
        }
    }
}

impl fmt::Display for ArrayAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayAccess::Raw => write!(f, "in byte ranges"),
            ArrayAccess::Blocks { block } => write!(f, "in blocks of {block} bytes"),
            ArrayAccess::Stream { kept } => write!(f, "from their beginning on, in {kept} bytes"),
            ArrayAccess::Whole { in_place: true, scratch } => write!(f, "as wholes in their places, with {scratch} bytes more"),
            ArrayAccess::Whole { in_place: false, scratch } => write!(f, "as wholes, with {scratch} bytes more"),
        }
    }
}

/// Memory of a stream decoder beside its window: tables, a block of output, and the bytes that are read of a file at a time.
pub const STREAM_TABLES: u64 = 1 << 20;

/// Chunks in files with more decoded bytes than this are always decoded from their beginning, if their codec can do that, and are never
/// held as a whole. It does not matter which part of them is wanted.
pub const LARGE_CHUNK: u64 = 64 << 20;

/// Blosc blocks of at most this size are decoded one by one. Blocks that a version of C-Blosc chooses by itself are not larger.
pub const BLOSC_LARGEST: u64 = 2 << 20;

/// Blosc buffers with at most this many blocks are decoded block by block, because the position of each block has to be kept.
pub const BLOSC_MOST: u64 = 1 << 19;

/// Blocks that Blosc chooses by itself are not larger than this. They are part of the allowance of every task.
const USUAL_BLOCK: u64 = 1 << 20;

/// Bytes that Blosc takes beside a chunk of `chunk` bytes to decode it, if the encoder was told to use blocks of `block` bytes: two
/// blocks.
///
/// ```
/// assert_eq!(chunkwise_types::blosc_scratch(8 << 20, 32 << 20), 16 << 20);
/// assert_eq!(chunkwise_types::blosc_scratch(0, 32 << 20), 0);
/// ```
pub fn blosc_scratch(block: u64, chunk: u64) -> u64 {
    if block > USUAL_BLOCK { block.min(chunk).saturating_mul(2) } else { 0 }
}

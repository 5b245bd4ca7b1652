//! Zarr arrays in filesystems and object stores.
//!
//! Bytes move through `object_store`; metadata and codecs are `zarrs`'. Nothing of zarrs' own storage layer is used: its filesystem
//! store truncates files in place, while a chunk that is written here is either whole or absent. The metadata of an array is
//! written last ([`publish_array`]), so an unfinished output cannot be opened by mistake.

mod age;
mod ahead;
mod allowed;
mod aside;
mod at_once;
mod aws_profile;
mod boxes;
mod chain;
mod chunks;
mod client;
mod codec;
mod cursor;
mod deflate;
mod error;
mod folder;
mod frame;
mod group;
mod half;
mod input;
mod local;
mod location;
mod meta;
mod new;
mod object;
mod pending;
mod permitted;
mod place;
mod raw;
mod read;
mod recognise;
mod remote;
mod replace;
mod shard;
mod small;
mod store;
mod stream;
mod tier;
mod trust;
mod upload;
mod uploads_left;
mod work_dir;
mod world;
mod write;
mod writer;
mod zstd;

pub use ahead::Reader;
pub use allowed::{check_allowed, restrict};
pub use at_once::at_once;
pub use boxes::Elements;
pub use chunks::{ArrayIo, StoredChunk, checksum};
pub use codec::one_codec_thread;
pub use cursor::Cursor;
pub use error::StorageError;
pub use group::{NodeKind, TreeNode, consolidate, consolidated_tree, group_format, list_tree, make_group};
pub use input::{InputWatch, Since, Stamp, check_input, has_grown};
pub use location::Location;
pub use meta::{ArrayMeta, open_array, publish_array};
pub use new::{CodecChoice, Form, NewArray, V2Form, new_meta, new_meta_as};
pub use permitted::{check_readable, check_writable};
pub use place::{Near, Place};
pub use read::{READ_BUFFER, READ_GAP, ReadStats};
pub use remote::{configure, configure_by_program, mount, unmount};
pub use replace::{Owned, REPLACED, is_chunk_key, replaceable};
pub use small::{SmallArray, TextChunk, Values, Version, read_small, text_chunks, write_small};
pub use store::{Counters, Store};
pub use tier::{MemoryTier, Spare};
pub use trust::{allow, allow_named, allowed};
pub use upload::Uploads;
pub use work_dir::{default_work_dir, prepare_work_dir};
pub use world::{Moment, Repeated, World, machine, now, process, process_start, repeat, simulate, sleep};
pub use write::ChunkWritten;
pub use writer::ObjectWriter;

//! The codecs of one chunk. They decode directly into the destination if that is possible.

use crate::ArrayMeta;
use crate::access::{Kind, access, kind_of, zstd_window_log};
use crate::blosc;
use crate::boxes;
use crate::chain::Chain;
use crate::deflate::{self, Deflate};
use crate::half;
use crate::stream::Decode;
use crate::zstd::{self, Windowed};
use bytes::Bytes;
use chunkwise_types::{ArrayAccess, LARGE_CHUNK, volume};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;
use zarrs::array::{Array, ArrayBytes, ArrayToBytesCodecTraits, CodecOptions};

/// Encodes and decodes chunks of one shape.
pub(crate) struct ChunkCodec {
    kind: Kind,
    array: Array<()>,
    chunk: Vec<NonZeroU64>,
    /// Shape of a chunk.
    pub shape: Vec<u64>,
    /// Decoded bytes of a chunk.
    pub bytes: usize,
    item: usize,
    fill: Vec<u8>,
    /// Blosc whose blocks are worth decoding one by one. Memory is planned for that.
    in_blocks: bool,
    /// The codecs of a chunk that is not decoded directly into its destination.
    chain: Option<Chain>,
    /// Elements are stored in half of the bytes that they have in memory.
    half: bool,
    options: CodecOptions,
}

/// Keeps the codec library from starting a thread for every core: it asks Rayon for the number of threads, and tasks do not use them.
/// Programs that do not use Rayon otherwise call this before anything else. Later it has no effect.
pub fn one_codec_thread() {
    // This fails if there are threads already. Then it is too late.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(1).build_global();
}

impl ChunkCodec {
    /// The codec of the stored chunks of an array.
    pub fn of_array(meta: &ArrayMeta) -> Result<ChunkCodec, String> {
        Self::new(&meta.metadata, meta.zarr_format, meta.grid.stored_shape(), meta.dtype.size())
    }

    /// The codec of the inner chunks of a shard. It takes their codecs, and the shard's document with its version and the bytes of an
    /// element in memory.
    pub fn inner((document, zarr_format, item): (&Value, u8, u64), inner: &[u64], codecs: &Value) -> Result<ChunkCodec, String> {
        let mut document = document.clone();
        let object = document.as_object_mut().ok_or("the metadata is not an object")?;
        object.insert("shape".into(), json!(inner));
        object.insert("chunk_grid".into(), json!({"name": "regular", "configuration": {"chunk_shape": inner}}));
        object.insert("codecs".into(), codecs.clone());
        // They are not needed here, and may be large.
        ["attributes", "dimension_names"].iter().for_each(|key| drop(object.remove(*key)));
        Self::new(&document, zarr_format, inner.to_vec(), item)
    }

    fn new(document: &Value, zarr_format: u8, shape: Vec<u64>, item: u64) -> Result<ChunkCodec, String> {
        let metadata = crate::meta::metadata_of(document)?;
        let array = Array::new_with_metadata(Arc::new(()), "/", metadata).map_err(|e| e.to_string())?;
        let chunk = shape.iter().map(|&n| NonZeroU64::new(n).ok_or("a chunk has length 0")).collect::<Result<Vec<_>, _>>()?;
        let half = half::is_half(document);
        let fill = array.fill_value().as_ne_bytes().to_vec();
        let fill = if half { half::widen(&fill) } else { fill };
        if fill.len() as u64 != item {
            return Err(format!("its fill value has {} bytes instead of {item}", fill.len()));
        }
        // One thread a task: the executor decides how many tasks run.
        let options = CodecOptions::default().with_concurrent_target(1).with_chunk_concurrent_minimum(1).with_store_empty_chunks(true);
        let bytes = (volume(&shape) * item) as usize;
        let kind = kind_of(document, zarr_format, item);
        let chain = match kind {
            Kind::Chain => Some(Chain::new(&array, &chunk, bytes, (document, zarr_format, item), half)?),
            _ => None,
        };
        let in_blocks = matches!(access(document, zarr_format, item, bytes as u64, false), ArrayAccess::Blocks { .. });
        Ok(ChunkCodec { kind, array, chunk, shape, bytes, item: item as usize, fill, in_blocks, chain, half, options })
    }

    /// The bytes of the fill value.
    pub fn fill(&self) -> &[u8] {
        &self.fill
    }

    /// True for Blosc over the elements as they are in memory.
    pub fn is_blosc(&self) -> bool {
        self.kind == Kind::Blosc
    }

    /// True for Blosc whose blocks, by its metadata, are worth decoding one by one. Such chunks are never decoded as a whole from files.
    pub fn in_blocks(&self) -> bool {
        self.in_blocks
    }

    /// True for chunks so large that, in files, they are always decoded from their beginning.
    pub fn is_large_stream(&self) -> bool {
        matches!(self.kind, Kind::Zstd(_) | Kind::Deflate(_)) && self.bytes as u64 > LARGE_CHUNK
    }

    /// A stream decoder for a chunk, if the codec has one.
    pub fn decoder(&self) -> Result<Option<Box<dyn Decode>>, String> {
        Ok(match self.kind {
            Kind::Zstd(level) => Some(Box::new(Windowed::new(zstd_window_log(level))?)),
            Kind::Deflate(wrapper) => Some(Box::new(Deflate::new(wrapper))),
            Kind::Raw | Kind::Blosc | Kind::Chain => None,
        })
    }

    /// An upper bound of the encoded bytes of a chunk. No encoder makes more.
    pub fn most(&self) -> u64 {
        (self.bytes as u64).saturating_mul(2).saturating_add(1 << 20)
    }

    /// Decodes a whole chunk.
    pub fn decode(&self, data: Bytes) -> Result<Vec<u8>, String> {
        match self.kind {
            Kind::Raw | Kind::Blosc | Kind::Zstd(_) | Kind::Deflate(_) => {
                // Metadata may claim any size. If there is no room for it, the process must not abort.
                if self.bytes > 1 << 32 {
                    Vec::<u8>::new().try_reserve_exact(self.bytes).map_err(|e| format!("it has {} bytes: {e}", self.bytes))?;
                }
                let mut out = vec![0u8; self.bytes];
                self.decode_into(data, &mut out)?;
                Ok(out)
            }
            Kind::Chain => self.decode_chain(data),
        }
    }

    fn decode_chain(&self, data: Bytes) -> Result<Vec<u8>, String> {
        let Some(chain) = &self.chain else { return Err("it has no codecs".into()) };
        let decoded = chain.decode(data, &self.options)?;
        // Chunks of shards have their form in memory already.
        let half = self.half && !chain.is_shard();
        let wanted = if half { self.bytes / 2 } else { self.bytes };
        if decoded.len() != wanted {
            return Err(format!("it decodes to {} bytes instead of {wanted}", decoded.len()));
        }
        Ok(if half { half::widen(&decoded) } else { decoded })
    }

    /// Decodes a whole chunk into `out`, which has [`ChunkCodec::bytes`] bytes.
    pub fn decode_into(&self, data: Bytes, out: &mut [u8]) -> Result<(), String> {
        match self.kind {
            Kind::Raw if data.len() == out.len() => out.copy_from_slice(&data),
            Kind::Raw => return Err(format!("it decodes to {} bytes instead of {}", data.len(), self.bytes)),
            Kind::Blosc => blosc::decode_into(&data, out)?,
            Kind::Zstd(_) => zstd::decode_into(&data, out)?,
            Kind::Deflate(wrapper) => deflate::decode_into(&data, out, wrapper)?,
            Kind::Chain => match self.chain.as_ref().filter(|chain| chain.is_native()) {
                Some(chain) => chain.decode_into(data, out, &self.options)?,
                None => out.copy_from_slice(&self.decode_chain(data)?),
            },
        }
        Ok(())
    }

    /// Checks that a chunk can be decoded.
    pub fn check(&self, data: Bytes) -> Result<(), String> {
        match self.kind {
            Kind::Raw if data.len() == self.bytes => Ok(()),
            Kind::Raw => Err(format!("it decodes to {} bytes instead of {}", data.len(), self.bytes)),
            Kind::Blosc | Kind::Zstd(_) | Kind::Deflate(_) | Kind::Chain => self.decode(data).map(|_| ()),
        }
    }

    /// Decodes the region `from` of a chunk to the position `to` of a larger buffer.
    pub fn decode_box(&self, data: Bytes, from: &[u64], shape: &[u64], out: &mut [u8], to: (&[u64], &[u64])) -> Result<(), String> {
        if shape == self.shape {
            let region = chunkwise_types::Region::new(to.1, shape);
            if let Some(span) = boxes::contiguous(to.0, &region, self.item) {
                return self.decode_into(data, &mut out[span]);
            }
        }
        if self.kind == Kind::Raw && data.len() == self.bytes {
            boxes::copy(&data, (&self.shape, from), out, to, shape, self.item);
            return Ok(());
        }
        let whole = self.decode(data)?;
        boxes::copy(&whole, (&self.shape, from), out, to, shape, self.item);
        Ok(())
    }

    /// Encodes the elements of one chunk, clipped to `shape`. The rest is filled with the fill value.
    pub fn encode<'a>(&self, elements: boxes::Elements<'a>, shape: &[u64]) -> Result<Cow<'a, [u8]>, String> {
        let data: Cow<'a, [u8]> = match elements.slice(shape, self.item).filter(|_| shape == self.shape) {
            Some(slice) => Cow::Borrowed(slice),
            None if shape == self.shape => Cow::Owned(elements.dense(shape, self.item)),
            None => {
                let mut data = self.fill.repeat(self.bytes / self.item.max(1));
                let origin = vec![0; shape.len()];
                boxes::copy(elements.data, (elements.shape, elements.start), &mut data, (&self.shape, &origin), shape, self.item);
                Cow::Owned(data)
            }
        };
        if self.kind == Kind::Raw {
            return Ok(data);
        }
        let data = if self.half { Cow::Owned(half::narrow(&data)) } else { data };
        let a = &self.array;
        a.codecs()
            .encode(ArrayBytes::new_flen(data), &self.chunk, a.data_type(), a.fill_value(), &self.options)
            .map(|e| Cow::Owned(e.into_owned()))
            .map_err(|e| e.to_string())
    }
}

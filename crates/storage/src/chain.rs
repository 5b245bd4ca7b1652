//! Decodes chunks in any codecs that zarrs supports, into no more bytes than can be right.
//!
//! A few bytes of gzip can stand for gigabytes. The decoded size of a codec follows from the codecs inside of it, and the innermost one
//! makes the elements. So each decompressor gets a buffer of that size, and a stream that goes on beyond it is damaged. [`ShardLayout`]
//! decodes shards and checks their index. Codecs whose output cannot be larger than their input are those of zarrs.

use crate::access::{name, native};
use crate::blosc;
use crate::shard::ShardLayout;
use crate::unshuffle;
use crate::zstd;
use bytes::Bytes;
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;
use std::num::NonZeroU64;
use std::sync::Arc;
use zarrs::array::codec::{BloscCodec, Bz2Codec, CodecChain, GzipCodec, ShuffleCodec, ZlibCodec, ZstdCodec};
use zarrs::array::{
    Array, ArrayBytes, ArrayToArrayCodecTraits, ArrayToBytesCodecTraits, BytesRepresentation, BytesToBytesCodecTraits, ChunkShape,
    CodecMetadataOptions, CodecOptions, DataType, FillValue,
};
use zarrs::plugin::ZarrVersion;

/// How much larger than calculated an inner stream may be, because encoders differ.
const SLACK: usize = 64 << 10;

enum How {
    Gzip,
    Zlib,
    Bz2,
    Zstd,
    Blosc,
    /// Of the bytes of elements with so many.
    Shuffle(usize),
    /// Its output is not larger than its input.
    Plain,
}

/// A codec of bytes.
struct Step {
    codec: Arc<dyn BytesToBytesCodecTraits>,
    how: How,
    decoded: BytesRepresentation,
}

/// The codecs of bytes of a chunk.
pub(crate) struct Steps(Vec<Step>);

impl Steps {
    /// The codecs of a chain whose array codecs give this many bytes.
    pub fn of(codecs: &CodecChain, made: BytesRepresentation) -> Steps {
        let mut decoded = made;
        let step = |codec: &Arc<dyn BytesToBytesCodecTraits>| {
            let any = codec.as_any();
            let how = match () {
                () if any.is::<GzipCodec>() => How::Gzip,
                () if any.is::<ZlibCodec>() => How::Zlib,
                () if any.is::<Bz2Codec>() => How::Bz2,
                () if any.is::<ZstdCodec>() => How::Zstd,
                () if any.is::<BloscCodec>() => How::Blosc,
                () if any.is::<ShuffleCodec>() => shuffled(&**codec),
                () => How::Plain,
            };
            let encoded = codec.encoded_representation(&decoded);
            Step { codec: codec.clone(), how, decoded: std::mem::replace(&mut decoded, encoded) }
        };
        Steps(codecs.bytes_to_bytes_codecs().iter().map(step).collect())
    }

    /// Decodes all of them. `most` is the limit if the codecs give none.
    pub fn decode(&self, data: Vec<u8>, most: usize, options: &CodecOptions) -> Result<Vec<u8>, String> {
        Steps::decoded(&self.0, data, most, options)
    }

    /// As [`Steps::decode`], into `out`, which what is decoded must fill.
    fn decode_into(&self, data: Vec<u8>, most: usize, out: &mut [u8], options: &CodecOptions) -> Result<(), String> {
        let (last, others) = match self.0.split_first() {
            Some((Step { how: How::Shuffle(item), .. }, others)) => (Some(*item), others),
            _ => (None, &self.0[..]),
        };
        let data = Steps::decoded(others, data, most, options)?;
        if data.len() != out.len() {
            return Err(format!("it decodes to {} bytes instead of {}", data.len(), out.len()));
        }
        match last {
            Some(item) => unshuffle::bytes(item, &data, out),
            None => out.copy_from_slice(&data),
        }
        Ok(())
    }

    /// The input of each codec is freed before the next one begins.
    fn decoded(steps: &[Step], mut data: Vec<u8>, most: usize, options: &CodecOptions) -> Result<Vec<u8>, String> {
        for step in steps.iter().rev() {
            let most = match step.decoded {
                BytesRepresentation::FixedSize(n) => usize::try_from(n).unwrap_or(usize::MAX),
                BytesRepresentation::BoundedSize(n) => usize::try_from(n).map_or(usize::MAX, |n| (n + n / 8).saturating_add(SLACK)),
                BytesRepresentation::UnboundedSize => most,
            };
            data = match step.how {
                How::Gzip => limited(flate2::bufread::GzDecoder::new(&*data), most)?,
                How::Zlib => limited(flate2::bufread::ZlibDecoder::new(&*data), most)?,
                How::Bz2 => limited(bzip2::bufread::BzDecoder::new(&*data), most)?,
                How::Zstd => zstd::decode_at_most(&data, most)?,
                How::Blosc => unpack_blosc(&data, most)?,
                How::Shuffle(item) => {
                    let mut out = vec![0; data.len()];
                    unshuffle::bytes(item, &data, &mut out);
                    out
                }
                How::Plain => step.codec.decode(Cow::Owned(data), &step.decoded, options).map_err(|e| e.to_string())?.into_owned(),
            };
        }
        Ok(data)
    }
}

/// How a shuffle is undone. Elements of 0 bytes are left to the library, which refuses them.
fn shuffled(codec: &dyn BytesToBytesCodecTraits) -> How {
    let configuration = codec.configuration(ZarrVersion::V3, &CodecMetadataOptions::default());
    let item = configuration.and_then(|c| c.get("elementsize").and_then(Value::as_u64)).and_then(|n| usize::try_from(n).ok());
    item.filter(|n| *n > 0).map_or(How::Plain, How::Shuffle)
}

fn more(most: usize) -> String {
    format!("it decodes to more than the {most} bytes that it can have")
}

/// The whole output of a decoder, if it is not more than `most` bytes.
fn limited(mut decoder: impl Read, most: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    out.try_reserve_exact(most).map_err(|e| e.to_string())?;
    decoder.by_ref().take(most as u64).read_to_end(&mut out).map_err(|e| e.to_string())?;
    // This does not read into the buffer, which would grow.
    let beyond = if out.len() == most { decoder.read(&mut [0]).map_err(|e| e.to_string())? } else { 0 };
    if beyond > 0 { Err(more(most)) } else { Ok(out) }
}

fn unpack_blosc(data: &[u8], most: usize) -> Result<Vec<u8>, String> {
    // The decompressed size is the second number of the header.
    let size = data.get(4..8).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
    if size > most {
        return Err(more(most));
    }
    let mut out = vec![0; size];
    blosc::decode_into(data, &mut out)?;
    Ok(out)
}

type Representation = (ChunkShape, DataType, FillValue);

/// The codecs of a chunk.
pub(crate) struct Chain {
    steps: Steps,
    elements: Arc<dyn ArrayToBytesCodecTraits>,
    arrays: Vec<Arc<dyn ArrayToArrayCodecTraits>>,
    /// The input of each array codec, and the output of the last one.
    made: Vec<Representation>,
    shard: Option<Box<ShardLayout>>,
    /// The limit of decoded bytes if nothing else gives one.
    most: usize,
    /// The codecs of bytes are over the elements as they are in memory.
    native: bool,
}

impl Chain {
    /// The codecs of an array whose chunks have this shape and this many bytes. `document` is its metadata, `item` the bytes of an element
    /// in memory.
    ///
    /// # Errors
    /// When it has codecs that cannot be decoded safely.
    pub fn new(
        array: &Array<()>,
        shape: &[NonZeroU64],
        bytes: usize,
        (document, zarr_format, item): (&Value, u8, u64),
        half: bool,
    ) -> Result<Chain, String> {
        let codecs = array.codecs();
        let (arrays, elements) = (codecs.array_to_array_codecs().to_vec(), codecs.array_to_bytes_codec().clone());
        let mut made = vec![(shape.to_vec(), array.data_type().clone(), array.fill_value().clone())];
        for codec in &arrays {
            if let Some((shape, dtype, fill)) = made.last() {
                made.push(codec.encoded_representation(shape, dtype, fill).map_err(|e| e.to_string())?);
            }
        }
        let Some((last, dtype, fill)) = made.last() else { return Err("it has no shape".into()) };
        let steps = Steps::of(&codecs, elements.encoded_representation(last, dtype, fill).map_err(|e| e.to_string())?);
        let sharding =
            document.get("codecs").and_then(Value::as_array).and_then(|list| list.iter().find(|c| name(c) == "sharding_indexed"));
        let shard = match sharding {
            None => None,
            Some(_) if half && !arrays.is_empty() => return Err("shards of float16 behind another codec are not supported".into()),
            Some(codec) => {
                let last: Vec<u64> = last.iter().map(|n| n.get()).collect();
                let layout = ShardLayout::of_codec((document, zarr_format, item), &last, codec)?;
                Some(Box::new(layout.ok_or("its shards have an index in other codecs than bytes and crc32c, or chunks that do not fit")?))
            }
        };
        // No codec inside a chunk needs more than this.
        let most = bytes.saturating_mul(2).saturating_add(1 << 20);
        let native = !half && arrays.is_empty() && shard.is_none() && native(document, zarr_format, item);
        Ok(Chain { steps, elements, arrays, made, shard, most, native })
    }

    /// True if it is a shard. Its elements are decoded to native byte order then.
    pub fn is_shard(&self) -> bool {
        self.shard.is_some()
    }

    /// True if what the codecs of bytes give are the elements as they are in memory.
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// Decodes a chunk into `out`, if its codecs of bytes give elements as they are in memory.
    pub fn decode_into(&self, data: Bytes, out: &mut [u8], options: &CodecOptions) -> Result<(), String> {
        self.steps.decode_into(data.into(), self.most, out, options)
    }

    /// Decodes a chunk. The caller has to check its size.
    pub fn decode(&self, data: Bytes, options: &CodecOptions) -> Result<Vec<u8>, String> {
        let data = self.steps.decode(data.into(), self.most, options)?;
        let Some((shape, dtype, fill)) = self.made.last() else { return Err("it has no shape".into()) };
        let mut out = match &self.shard {
            Some(layout) => ArrayBytes::new_flen(layout.decode(&data)?),
            None => self.elements.decode(Cow::Owned(data), shape, dtype, fill, options).map_err(|e| e.to_string())?,
        };
        for (codec, (shape, dtype, fill)) in self.arrays.iter().zip(&self.made).rev() {
            out = codec.decode(out, shape, dtype, fill, options).map_err(|e| e.to_string())?;
        }
        out.into_fixed().map(Cow::into_owned).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn no_more_than_there_can_be() {
        let zeros = vec![0u8; 1 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        assert!(gzip.write_all(&zeros).is_ok());
        let data = gzip.finish().unwrap_or_default();
        let of = |most: usize| limited(flate2::bufread::GzDecoder::new(&data[..]), most);
        assert_eq!(of(1 << 20).map(|d| d.len()), Ok(1 << 20));
        assert_eq!(of((1 << 20) + 1).map(|d| d.len()), Ok(1 << 20));
        assert_eq!(of((1 << 20) - 1), Err(more((1 << 20) - 1)));
        assert_eq!(of(64), Err(more(64)));
    }
}

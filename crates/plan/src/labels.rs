//! The coordinates of the groups that outputs are in: the names of the indices along their dimensions.
//!
//! They are small and known when the plan is made, so they are part of it. Whatever runs the plan (the command, the library, a function, a state
//! machine) writes the same ones.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chunkwise_types::DType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A group that outputs are in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanGroup {
    /// Where it is.
    pub url: String,
    /// Its coordinates.
    pub coordinates: Vec<PlanCoordinate>,
    /// Its own attributes, such as a title, where it is made by the run.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub attributes: serde_json::Map<String, serde_json::Value>,
    /// Dimensions whose labels were lost on the way, as by padding: a group that has labels for them cannot take these outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlabelled: Vec<String>,
}

/// A coordinate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanCoordinate {
    /// Its name, that of its array in the group.
    pub name: String,
    /// The dimensions that it varies along.
    pub dims: Vec<String>,
    /// The length of each.
    pub shape: Vec<u64>,
    /// Its elements.
    pub values: CoordinateValues,
    /// User attributes.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// The elements of a coordinate, in C order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum CoordinateValues {
    /// Numbers.
    Numbers {
        /// Element type.
        dtype: DType,
        /// The elements in little-endian byte order, compressed with Zstandard, in base64.
        base64: String,
    },
    /// Texts.
    Text(Vec<String>),
}

/// Bytes of a coordinate, and of all coordinates of a group, at most.
pub const MAX_BYTES: u64 = 1 << 28;

/// Elements in the other byte order, where that of this machine is not little-endian.
fn swapped(bytes: &mut [u8], dtype: DType) {
    if cfg!(target_endian = "big") {
        let width = if dtype.kind() == chunkwise_types::DTypeKind::Complex { dtype.size() / 2 } else { dtype.size() };
        bytes.chunks_exact_mut(width as usize).for_each(<[u8]>::reverse);
    }
}

impl CoordinateValues {
    /// Numbers, from elements in native byte order.
    pub fn numbers(dtype: DType, bytes: &[u8]) -> CoordinateValues {
        let mut bytes = bytes.to_vec();
        swapped(&mut bytes, dtype);
        CoordinateValues::Numbers { dtype, base64: STANDARD.encode(zstd::bulk::compress(&bytes, 3).unwrap_or_default()) }
    }

    /// The bytes of numbers in native byte order; `None` of texts. `count` is the number of elements.
    ///
    /// # Errors
    /// When they are not `count` numbers.
    pub fn bytes(&self, count: u64) -> Result<Option<(DType, Vec<u8>)>, String> {
        let CoordinateValues::Numbers { dtype, base64 } = self else { return Ok(None) };
        let size = count.checked_mul(dtype.size()).filter(|n| *n <= MAX_BYTES).ok_or("it has too many elements")?;
        let packed = STANDARD.decode(base64).map_err(|e| e.to_string())?;
        // The size is known, so that what claims to be more cannot take more.
        let mut bytes = zstd::bulk::decompress(&packed, size as usize).map_err(|e| e.to_string())?;
        if bytes.len() as u64 != size {
            return Err(format!("it has {} bytes, not {size}", bytes.len()));
        }
        swapped(&mut bytes, *dtype);
        Ok(Some((*dtype, bytes)))
    }
}

impl PlanGroup {
    /// Refuses names and shapes that cannot be, and more than [`MAX_BYTES`] of elements together. What the elements are is looked at where they
    /// are used, not by each worker.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut room = MAX_BYTES;
        for (i, c) in self.coordinates.iter().enumerate() {
            let wrong = |detail: String| Err(format!("coordinate '{}' of '{}': {detail}", c.name, self.url));
            let plain = |n: &str| !n.is_empty() && !n.contains(['/', '\\', '\0']) && n != "." && n != ".." && !n.starts_with("__");
            if !plain(&c.name) || self.coordinates[..i].iter().any(|o| o.name == c.name) {
                return wrong("its name is empty, not one of a folder, or given twice".into());
            }
            if c.dims.len() != c.shape.len() || c.dims.len() > chunkwise_types::MAX_RANK {
                return wrong(format!("{} dimensions, but {} lengths", c.dims.len(), c.shape.len()));
            }
            let count = c.shape.iter().try_fold(1u64, |n, l| n.checked_mul(*l)).unwrap_or(u64::MAX);
            let bytes = match &c.values {
                CoordinateValues::Numbers { dtype, .. } => count.saturating_mul(dtype.size()),
                CoordinateValues::Text(list) if list.len() as u64 != count => {
                    return wrong(format!("{} texts for {count} elements", list.len()));
                }
                CoordinateValues::Text(list) => list.iter().map(|t| t.len() as u64 + 4).sum(),
            };
            match room.checked_sub(bytes) {
                Some(rest) => room = rest,
                None => return wrong(format!("with it, the coordinates of the group take more than {MAX_BYTES} bytes")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let bytes: Vec<u8> = (0..100i32).flat_map(i32::to_ne_bytes).collect();
        let values = CoordinateValues::numbers(DType::Int32, &bytes);
        assert_eq!(values.bytes(100), Ok(Some((DType::Int32, bytes))));
        assert!(values.bytes(99).is_err() && values.bytes(101).is_err() && values.bytes(1 << 60).is_err());
    }
}

//! How the chunks of a new array of Zarr v2 are encoded: a compressor and filters as numcodecs describes them.

use crate::fields::Fields;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The order of the elements of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Order {
    /// The last axis is the fastest.
    #[default]
    C,
    /// The first axis is the fastest.
    F,
}

/// Encoding of the chunks of an array of Zarr v2.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct V2 {
    /// The compressor, complete; none if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compressor: Option<Map<String, Value>>,
    /// The filters before it, complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Map<String, Value>>,
    /// The order of elements.
    #[serde(default)]
    pub order: Order,
    /// The bytes of an element are in big-endian order.
    #[serde(default)]
    pub big_endian: bool,
}

const BLOSC: [&str; 5] = ["lz4", "lz4hc", "blosclz", "zstd", "zlib"];

fn of(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

fn complete(map: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let id = map.get("id").and_then(Value::as_str).unwrap_or("");
    let fields = Fields { of: id, map };
    let level = |range: std::ops::RangeInclusive<i64>, usual: i64| fields.number("level", range).map(|n| n.unwrap_or(usual));
    Ok(of(match id {
        "blosc" => {
            fields.known(&["id", "cname", "clevel", "shuffle", "blocksize", "typesize"])?;
            let mut out = json!({
                "id": id,
                "cname": fields.text("cname", &BLOSC)?.unwrap_or("lz4"),
                "clevel": fields.number("clevel", 0..=9)?.unwrap_or(5),
                "shuffle": fields.number("shuffle", -1..=2)?.unwrap_or(1),
                "blocksize": fields.number("blocksize", 0..=i64::from(i32::MAX))?.unwrap_or(0),
            });
            if let Some(n) = fields.number("typesize", 1..=255)? {
                out["typesize"] = n.into();
            }
            out
        }
        "zstd" => {
            fields.known(&["id", "level", "checksum"])?;
            json!({"id": id, "level": level(-131_072..=22, 0)?, "checksum": fields.flag("checksum")?.unwrap_or(false)})
        }
        "gzip" | "zlib" => {
            fields.known(&["id", "level"])?;
            json!({"id": id, "level": level(0..=9, 1)?})
        }
        "bz2" => {
            fields.known(&["id", "level"])?;
            json!({"id": id, "level": level(1..=9, 1)?})
        }
        _ => {
            let other = Value::from(map.clone());
            return Err(format!("there is no compressor {other} for writing; there are blosc, zstd, gzip, zlib and bz2, each by its `id`"));
        }
    }))
}

fn filter(map: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let fields = Fields { of: "shuffle", map };
    if map.get("id").and_then(Value::as_str) != Some("shuffle") {
        return Err(format!("there is no filter {} for writing; there is shuffle, by its `id`", Value::from(map.clone())));
    }
    fields.known(&["id", "elementsize"])?;
    Ok(of(json!({"id": "shuffle", "elementsize": fields.number("elementsize", 1..=255)?.unwrap_or(4)})))
}

impl V2 {
    /// Blosc with LZ4 and byte shuffle.
    pub fn usual() -> V2 {
        V2 { compressor: complete(&of(json!({"id": "blosc"}))).ok(), ..V2::default() }
    }

    /// One compressor, by its `id`.
    pub fn with(id: &str, level: i64) -> V2 {
        V2 { compressor: complete(&of(json!({"id": id, "level": level}))).ok(), ..V2::default() }
    }

    /// Reads `compressor` as in a `.zarray`.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is allowed.
    pub fn parse_compressor(value: &Value) -> Result<Option<Map<String, Value>>, String> {
        match value {
            Value::Null => Ok(None),
            Value::Object(map) => complete(map).map(Some),
            other => Err(format!("`compressor` is a mapping with an `id`, as in a .zarray, or null, not {other}")),
        }
    }

    /// Reads `filters` as in a `.zarray`.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is allowed.
    pub fn parse_filters(value: &Value) -> Result<Vec<Map<String, Value>>, String> {
        let wanted = || format!("`filters` is a list of mappings with an `id`, as in a .zarray, or null, not {value}");
        match value {
            Value::Null => Ok(Vec::new()),
            Value::Array(list) => list.iter().map(|f| filter(f.as_object().ok_or_else(wanted)?)).collect(),
            _ => Err(wanted()),
        }
    }

    /// Refuses what cannot be written, or is not complete.
    pub fn check(&self) -> Result<(), String> {
        let whole = V2 {
            compressor: self.compressor.as_ref().map(complete).transpose()?,
            filters: self.filters.iter().map(filter).collect::<Result<_, _>>()?,
            ..self.clone()
        };
        if whole == *self { Ok(()) } else { Err(format!("its compressor is not complete; write {}", json!(whole))) }
    }
}

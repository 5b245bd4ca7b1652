//! Fill values and the keys of chunks, in the words of Zarr's metadata.

use chunkwise_types::{DType, DTypeKind, Scalar};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the key of a chunk begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyName {
    /// With `c`.
    #[default]
    Default,
    /// With the first number, as in Zarr v2.
    V2,
}

/// What stands between the numbers of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Separator {
    /// A folder for each number.
    #[serde(rename = "/")]
    Slash,
    /// One folder for all chunks.
    #[serde(rename = ".")]
    Dot,
}

/// The keys of the chunks of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChunkKeys {
    /// How they begin.
    pub name: KeyName,
    /// What stands between their numbers.
    pub separator: Separator,
}

impl Separator {
    /// As it is in metadata.
    pub fn as_str(self) -> &'static str {
        if self == Separator::Slash { "/" } else { "." }
    }

    /// Reads `/` or `.`.
    ///
    /// # Errors
    /// A sentence that says what is allowed.
    pub fn parse(value: &Value) -> Result<Separator, String> {
        match value.as_str() {
            Some("/") => Ok(Separator::Slash),
            Some(".") => Ok(Separator::Dot),
            _ => Err(format!("the separator of the keys of chunks is \"/\" or \".\", not {value}")),
        }
    }
}

impl ChunkKeys {
    /// Reads `chunk_key_encoding`, as in a `zarr.json` or as zarr-python takes it.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is allowed.
    pub fn parse(value: &Value) -> Result<ChunkKeys, String> {
        let wanted = "`chunk_key_encoding` has a `name`, default or v2, and a `separator`, \"/\" or \".\"";
        let map = value.as_object().ok_or_else(|| format!("{wanted}; it is not {value}"))?;
        let name = match map.get("name").and_then(Value::as_str) {
            Some("default") => KeyName::Default,
            Some("v2") => KeyName::V2,
            _ => return Err(wanted.into()),
        };
        let inside = map.get("configuration").and_then(Value::as_object);
        let known = |key: &String| ["name", "configuration", "separator"].contains(&key.as_str());
        if let Some(key) = map.keys().find(|k| !known(k)).or_else(|| inside?.keys().find(|k| *k != "separator")) {
            return Err(format!("{wanted}, not `{key}`"));
        }
        let separator = match map.get("separator").or_else(|| inside?.get("separator")) {
            Some(v) => Separator::parse(v)?,
            None if name == KeyName::Default => Separator::Slash,
            None => Separator::Dot,
        };
        Ok(ChunkKeys { name, separator })
    }

    /// The name as it is in metadata.
    pub fn name(self) -> &'static str {
        if self.name == KeyName::Default { "default" } else { "v2" }
    }
}

/// A float: a number, or NaN, an infinity or the bits in hex as text.
fn float(value: &Value, dtype: DType) -> Option<f64> {
    let single = matches!(dtype, DType::Float32 | DType::Complex64);
    let Some(text) = value.as_str() else {
        let v = value.as_f64()?;
        let rounded = if single { f64::from(v as f32) } else { v };
        return rounded.is_finite().then_some(rounded);
    };
    if let Some(digits) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(digits, 16).ok()?;
        let v = match (single, digits.len()) {
            (true, 8) => f64::from(f32::from_bits(bits as u32)),
            (false, 16) => f64::from_bits(bits),
            _ => return None,
        };
        // There is one NaN in what is planned: another one would be written as it.
        let usual = if single { 0x7fc0_0000 } else { 0x7ff8_0000_0000_0000 };
        return (!v.is_nan() || bits == usual).then_some(v);
    }
    match text.trim_start_matches('.').to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "infinity" | "inf" | "+.inf" => Some(f64::INFINITY),
        "-infinity" | "-inf" | "-.inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Reads the fill value of an array of this dtype, as in its metadata.
///
/// # Errors
/// A sentence that says what is allowed.
pub fn parse_fill(value: &Value, dtype: DType) -> Result<Scalar, String> {
    let texts = "\"NaN\", \"Infinity\", \"-Infinity\", or the bits in hex";
    let (found, wanted) = match dtype.kind() {
        DTypeKind::Bool => (value.as_bool().map(Scalar::Bool), "true or false".to_string()),
        DTypeKind::Float => (float(value, dtype).map(Scalar::Float), format!("a number that it holds, {texts}")),
        DTypeKind::Complex => {
            let parts = value.as_array().map(Vec::as_slice).unwrap_or_default();
            let found = match parts {
                [re, im] => float(re, dtype).zip(float(im, dtype)).map(|(re, im)| Scalar::Complex(re, im)),
                _ => None,
            };
            (found, format!("a list of two parts, each a number that it holds, {texts}"))
        }
        _ => {
            let (least, greatest) = dtype.integer_range().unwrap_or((0, 0));
            let n = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
            (n.filter(|n| (least..=greatest).contains(n)).map(Scalar::Int), format!("an integer from {least} to {greatest}"))
        }
    };
    found.ok_or_else(|| format!("the fill value of {dtype} is {wanted}, not {value}"))
}

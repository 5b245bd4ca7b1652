//! Packed data by the CF conventions (section 8): `scale_factor`, `add_offset`, `_FillValue`, `missing_value`.
//!
//! The rules are xarray's. A scale or an offset makes float64, since JSON has only 64-bit numbers. Missing values alone keep a float
//! dtype, make float32 of integers up to 16 bits and float64 of the others. Missing values are compared with what is stored, before
//! it is scaled, and become NaN.

use crate::elementwise::{astype, clip, elementwise};
use crate::{Array, OpError};
use chunkwise_kernels::ElementOp;
use chunkwise_types::{DType, DTypeKind, Scalar};
use serde_json::{Map, Value};

/// The attributes that say how values are packed. They are not true of unpacked values.
pub const PACKING: &[&str] = &["scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"];

/// Attributes in the units of the packed values.
const LIMITS: &[&str] = &["valid_min", "valid_max", "valid_range"];

/// How values are packed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Packing {
    /// What values are multiplied by.
    pub scale: Option<f64>,
    /// What is added after that.
    pub offset: Option<f64>,
    /// The stored values that stand for nothing.
    pub missing: Vec<Scalar>,
    /// Integers are to be read as unsigned, or as signed.
    pub unsigned: Option<bool>,
}

/// True if the attributes say that values are packed.
pub fn is_packed(attributes: &Map<String, Value>) -> bool {
    PACKING.iter().any(|name| attributes.contains_key(*name))
}

/// The eight bytes of a base64 text of twelve characters, little-endian: how xarray stores the fill value of floats.
fn base64_float(text: &str) -> Option<f64> {
    let text = text.strip_suffix('=').filter(|t| t.len() == 11)?;
    let mut bits: u128 = 0;
    for c in text.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u128::from(value);
    }
    // Eleven characters hold 66 bits; the last two are padding.
    Some(f64::from_bits(((bits >> 2) as u64).swap_bytes()))
}

/// A float as xarray stores it in the attributes of version 3: its eight bytes, little-endian, in base64.
///
/// ```
/// assert_eq!(chunkwise_ops::cf::float_attribute(-999.0), "AAAAAAA4j8A=");
/// ```
pub fn float_attribute(value: f64) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u128::from(value.to_bits().swap_bytes()) << 2;
    let digit = |k: u32| char::from(DIGITS[(bits >> (6 * k) & 63) as usize]);
    (0..11).rev().map(digit).chain(['=']).collect()
}

/// Takes `_FillValue` out of the attributes of an array of this dtype, as its value: where Zarr has a place of its own for it, which is in version 2.
/// One that the dtype does not hold stays an attribute.
pub fn take_fill(attributes: &mut Map<String, Value>, dtype: DType) -> Option<Scalar> {
    let found = number(attributes.get("_FillValue")?)?;
    let fill = match dtype.kind() {
        DTypeKind::Float => Scalar::Float(found.as_f64()),
        DTypeKind::Signed | DTypeKind::Unsigned if matches!(found, Scalar::Int(_)) && found.fits(dtype) => found,
        _ => return None,
    };
    attributes.remove("_FillValue");
    Some(fill)
}

fn number(v: &Value) -> Option<Scalar> {
    match v {
        Value::Number(n) => {
            n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from)).map(Scalar::Int).or_else(|| n.as_f64().map(Scalar::Float))
        }
        Value::String(s) => match s.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            other => base64_float(other),
        }
        .map(Scalar::Float),
        _ => None,
    }
}

fn numbers(name: &str, v: &Value) -> Result<Vec<Scalar>, OpError> {
    let one = |v: &Value| number(v).ok_or_else(|| OpError::new("decode_cf", format!("the attribute '{name}' is {v}, which is no number")));
    match v {
        Value::Array(items) => items.iter().map(one).collect(),
        other => Ok(vec![one(other)?]),
    }
}

impl Packing {
    /// Reads the attributes. `fill_value` is that of the Zarr array where it stands for `_FillValue`, which it does in version 2.
    ///
    /// ```
    /// use chunkwise_ops::cf::Packing;
    /// let attributes = serde_json::json!({"scale_factor": 0.5, "missing_value": [-1, -2], "units": "K"});
    /// let packing = Packing::parse(attributes.as_object().unwrap(), None)?;
    /// assert_eq!((packing.scale, packing.offset, packing.missing.len()), (Some(0.5), None, 2));
    /// # Ok::<(), chunkwise_ops::OpError>(())
    /// ```
    ///
    /// # Errors
    /// If one of the attributes is no number.
    pub fn parse(attributes: &Map<String, Value>, fill_value: Option<&Value>) -> Result<Packing, OpError> {
        let factor = |name: &str| -> Result<Option<f64>, OpError> {
            let Some(v) = attributes.get(name) else { return Ok(None) };
            match numbers(name, v)?.as_slice() {
                [one] if one.as_f64().is_finite() => Ok(Some(one.as_f64())),
                _ => Err(OpError::new("decode_cf", format!("the attribute '{name}' is {v}; it must be one finite number"))),
            }
        };
        let mut missing = Vec::new();
        let fill = fill_value.filter(|v| !v.is_null()).or(attributes.get("_FillValue"));
        for (name, v) in [("_FillValue", fill), ("missing_value", attributes.get("missing_value"))] {
            if let Some(v) = v {
                missing.extend(numbers(name, v)?);
            }
        }
        let unsigned = match attributes.get("_Unsigned") {
            None => None,
            Some(Value::Bool(b)) => Some(*b),
            Some(Value::String(s)) if s == "true" || s == "false" => Some(s == "true"),
            Some(v) => return Err(OpError::new("decode_cf", format!("the attribute '_Unsigned' is {v}; it must be true or false"))),
        };
        Ok(Packing { scale: factor("scale_factor")?, offset: factor("add_offset")?, missing, unsigned })
    }
}

/// The integer dtype of the same width with or without a sign.
fn with_sign(dtype: DType, signed: bool) -> DType {
    match (dtype, signed) {
        (DType::Int8, false) => DType::UInt8,
        (DType::Int16, false) => DType::UInt16,
        (DType::Int32, false) => DType::UInt32,
        (DType::Int64, false) => DType::UInt64,
        (DType::UInt8, true) => DType::Int8,
        (DType::UInt16, true) => DType::Int16,
        (DType::UInt32, true) => DType::Int32,
        (DType::UInt64, true) => DType::Int64,
        (other, _) => other,
    }
}

/// A missing value as an element of an integer dtype; values of the other sign mean the same bits. `None` if no element is it.
fn as_element(value: Scalar, dtype: DType) -> Option<Scalar> {
    let v = match value {
        Scalar::Int(v) => v,
        Scalar::Float(f) if f.fract() == 0.0 && f.abs() < 2e19 => f as i128,
        _ => return None,
    };
    let (bits, signed) = (8 * dtype.size() as u32, dtype.kind() == DTypeKind::Signed);
    let (low, high) = (-(1i128 << (bits - 1)), (1i128 << bits) - 1);
    if v < low || v > high {
        return None;
    }
    Some(Scalar::Int(match signed {
        true if v > high / 2 => v - (1i128 << bits),
        false if v < 0 => v + (1i128 << bits),
        _ => v,
    }))
}

/// The values that stored values stand for: scaled, shifted, NaN where they are missing.
///
/// The attributes of the result are those of the array without those that describe the packing.
///
/// # Errors
/// If missing values or a scale are given for bool, or missing values for complex numbers.
pub fn decode(a: &Array, packing: &Packing) -> Result<Array, OpError> {
    let scaled = packing.scale.is_some() || packing.offset.is_some();
    let integer = a.dtype().is_integer();
    // NaN is missing already.
    let missing: Vec<Scalar> = packing.missing.iter().copied().filter(|s| !s.as_f64().is_nan()).collect();
    if (scaled || !missing.is_empty()) && matches!(a.dtype().kind(), DTypeKind::Bool | DTypeKind::Complex) {
        return Err(OpError::new("decode_cf", format!("scales and missing values have no meaning for the dtype {}", a.dtype())));
    }
    let read = match packing.unsigned {
        Some(unsigned) if integer => astype(a, with_sign(a.dtype(), !unsigned))?,
        _ => a.clone(),
    };
    let dtype = match read.dtype() {
        _ if scaled => DType::Float64,
        other if missing.is_empty() => other,
        DType::Int8 | DType::Int16 | DType::UInt8 | DType::UInt16 => DType::Float32,
        DType::Float32 => DType::Float32,
        _ => DType::Float64,
    };
    let mut out = astype(&read, dtype)?;
    for value in missing {
        let Some(value) = (if integer { as_element(value, a.dtype()) } else { Some(Scalar::Float(value.as_f64())) }) else { continue };
        let there = elementwise(ElementOp::Equal, &[a.into(), value.into()])?;
        out = elementwise(ElementOp::Where, &[(&there).into(), Scalar::Float(f64::NAN).into(), (&out).into()])?;
    }
    if let Some(scale) = packing.scale {
        out = elementwise(ElementOp::Multiply, &[(&out).into(), Scalar::Float(scale).into()])?;
    }
    if let Some(offset) = packing.offset {
        out = elementwise(ElementOp::Add, &[(&out).into(), Scalar::Float(offset).into()])?;
    }
    let mut attributes = a.attributes().clone();
    attributes.retain(|name, _| !PACKING.contains(&name.as_str()) && !LIMITS.contains(&name.as_str()));
    Ok(out.with_attributes(attributes))
}

/// The values that are stored of an array of floats, which [`decode`] makes into it again, as xarray's encoding: shifted, scaled, rounded to the
/// nearest where they become integers. Values beyond those become the nearest one; the first of `missing` stands for NaN.
///
/// The attributes are those of the array and those that say the packing.
///
/// # Errors
/// If the array has no floats, or a missing value or a scale cannot be.
pub fn encode(a: &Array, packing: &Packing, dtype: DType) -> Result<Array, OpError> {
    let bad = |problem: String| Err(OpError::new("packing", problem));
    if a.dtype().kind() != DTypeKind::Float || !(dtype.is_integer() || dtype.kind() == DTypeKind::Float) {
        return bad(format!("floats are packed, as floats or integers; this is {} as {dtype}", a.dtype()));
    }
    if packing.scale.is_some_and(|s| s == 0.0 || !s.is_finite()) || packing.offset.is_some_and(|o| !o.is_finite()) {
        return bad("`scale_factor` must be finite and not 0, `add_offset` must be finite".into());
    }
    let fill = packing.missing.first().copied();
    match fill {
        None if dtype.is_integer() => return bad(format!("NaN cannot be stored as {dtype}: give a `_FillValue` that stands for it")),
        Some(fill) if !fill.fits(dtype) => return bad(format!("the `_FillValue` {fill} is no value of {dtype}")),
        _ => {}
    }
    let scaled = packing.scale.is_some() || packing.offset.is_some();
    let mut out = if scaled || dtype.is_integer() { astype(a, DType::Float64)? } else { a.clone() };
    if let Some(offset) = packing.offset {
        out = elementwise(ElementOp::Subtract, &[(&out).into(), Scalar::Float(offset).into()])?;
    }
    if let Some(scale) = packing.scale {
        out = elementwise(ElementOp::Divide, &[(&out).into(), Scalar::Float(scale).into()])?;
    }
    if let Some((least, greatest)) = dtype.integer_range() {
        out = elementwise(ElementOp::Round, &[(&out).into()])?;
        // No value becomes a missing one.
        let at = |n: i128| fill.is_some_and(|f| f.as_i128() == n);
        let (low, high) = (least + i128::from(at(least)), greatest - i128::from(at(greatest)));
        let bound = |n: i128| Some(Scalar::Float(n as f64).into());
        out = clip(&out, bound(low), bound(high))?;
    }
    let mut stored = astype(&out, dtype)?;
    if let Some(fill) = fill {
        let missing = elementwise(ElementOp::Isnan, &[a.into()])?;
        let fill = if dtype.is_integer() { Scalar::Int(fill.as_i128()) } else { Scalar::Float(fill.as_f64()) };
        stored = elementwise(ElementOp::Where, &[(&missing).into(), fill.into(), (&stored).into()])?;
    }
    let mut attributes = a.attributes().clone();
    attributes.retain(|name, _| !PACKING.contains(&name.as_str()));
    for (name, value) in [("scale_factor", packing.scale), ("add_offset", packing.offset)] {
        attributes.extend(value.map(|v| (name.to_string(), Value::from(v))));
    }
    let text = |f: Scalar| match dtype.integer_range() {
        Some(_) => i64::try_from(f.as_i128()).map_or_else(|_| Value::from(f.as_i128() as u64), Value::from),
        None => float_attribute(f.as_f64()).into(),
    };
    attributes.extend(fill.map(|f| ("_FillValue".to_string(), text(f))));
    Ok(stored.with_attributes(attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_of_floats() {
        assert!(base64_float("AAAAAAAA+H8=").is_some_and(f64::is_nan));
        assert_eq!(base64_float("AAAAAAAA8D8="), Some(1.0));
        assert_eq!(base64_float("AAAAAAA4j8A="), Some(-999.0));
        assert_eq!(base64_float("AAAA"), None);
        assert_eq!(base64_float("AAAAAAA*j8A="), None);
    }

    #[test]
    fn missing_values_as_elements() {
        assert_eq!(as_element(Scalar::Int(255), DType::Int8), Some(Scalar::Int(-1)));
        assert_eq!(as_element(Scalar::Int(-1), DType::UInt8), Some(Scalar::Int(255)));
        assert_eq!(as_element(Scalar::Float(-999.0), DType::Int16), Some(Scalar::Int(-999)));
        assert_eq!(as_element(Scalar::Float(0.5), DType::Int16), None);
        assert_eq!(as_element(Scalar::Int(70_000), DType::Int16), None);
        assert_eq!(as_element(Scalar::Int(i128::from(u64::MAX)), DType::UInt64), Some(Scalar::Int(i128::from(u64::MAX))));
    }
}

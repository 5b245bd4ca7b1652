//! Floats of 16 bits. They exist only in storage; in memory they are floats of 32 bits.
//!
//! Format: IEEE 754 binary16. Widening is exact; narrowing rounds to the nearest, halves to even, as in NumPy.

use serde_json::Value;

/// True for the metadata of an array of such floats.
pub(crate) fn is_half(document: &Value) -> bool {
    let v2 = document.get("dtype").and_then(Value::as_str).is_some_and(|d| d.trim_start_matches(['<', '>', '=']) == "f2");
    v2 || document.get("data_type").and_then(Value::as_str) == Some("float16")
}

fn single(half: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(half >> 15) << 31, half >> 10 & 31, u32::from(half & 1023));
    match exponent {
        // The fraction in units of the smallest number.
        0 => f32::from_bits((fraction as f32 / 16_777_216.0).to_bits() | sign),
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (u32::from(exponent) + 112) << 23 | fraction << 13),
    }
}

fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
    if magnitude > 0x7f80_0000 {
        let fraction = (magnitude >> 13 & 1023) as u16;
        // A NaN stays a NaN, even if all of its remaining bits are zero.
        return sign | 0x7c00 | if fraction == 0 { 0x200 } else { fraction };
    }
    // The bits that are dropped: thirteen, or more if the number is below the smallest normal one.
    let (whole, cut) = match magnitude >> 23 {
        0..=101 => return sign,
        exponent @ 102..=112 => ((magnitude & 0x7f_ffff) | 0x80_0000, 126 - exponent),
        // Infinity, and numbers that round to it.
        143.. => return sign | 0x7c00,
        _ => (magnitude - (112 << 23), 13),
    };
    let (kept, rest, tie) = (whole >> cut, whole & ((1 << cut) - 1), 1u32 << (cut - 1));
    let up = rest > tie || rest == tie && kept & 1 == 1;
    // If the fraction carries over, it goes into the exponent, which is right.
    sign | (kept + u32::from(up)) as u16
}

/// Floats of 16 bits as floats of 32 bits, in native byte order.
pub(crate) fn widen(data: &[u8]) -> Vec<u8> {
    data.chunks_exact(2).flat_map(|b| single(u16::from_ne_bytes([b[0], b[1]])).to_ne_bytes()).collect()
}

/// Floats of 32 bits as floats of 16 bits, in native byte order.
pub(crate) fn narrow(data: &[u8]) -> Vec<u8> {
    data.chunks_exact(4).flat_map(|b| half(f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).to_ne_bytes()).collect()
}

/// The nearest float of 16 bits.
pub(crate) fn rounded(value: f64) -> f64 {
    f64::from(single(half(value as f32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            assert_eq!(half(single(bits)), bits);
        }
    }

    #[test]
    fn halves_are_rounded_to_even() {
        for (value, wanted) in
            [(1.000_488_3, 0x3c00), (1.001_464_8, 0x3c02), (65_519.0, 0x7bff), (65_520.0, 0x7c00), (2.98e-8, 0), (2.99e-8, 1)]
        {
            assert_eq!(half(value), wanted, "{value}");
        }
        // Values between every two neighbours, and just beside the middle.
        for bits in 0..0x7bffu16 {
            let middle = (single(bits) + single(bits + 1)) / 2.0;
            assert_eq!(half(middle), bits + (bits & 1));
            assert_eq!((half(middle.next_down()), half(middle.next_up())), (bits, bits + 1));
        }
    }
}

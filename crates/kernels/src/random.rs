//! Random numbers by the counter-based generator Philox4x32-10 (Salmon et al. 2011).
//!
//! The counter of an element is its C-order position in the whole array, so that its value depends neither on the chunks
//! nor on the order in which they are computed.

use crate::block::build;
use crate::rows::{for_each_row, usize_shape};
use crate::{ArrayType, Block, BlockElement, KernelError, cast};
use chunkwise_types::{DType, DTypeKind, Region};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A distribution of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// Real numbers from 0 to 1, without 1.
    Uniform,
    /// Real numbers of mean 0 and variance 1.
    Normal,
    /// Integers from `low` to `high`, without `high`.
    Integers {
        /// The least value.
        low: i64,
        /// One more than the greatest value.
        high: i64,
    },
}

impl Distribution {
    /// Refuses dtypes that the numbers do not have, and empty ranges.
    pub(crate) fn check(&self, dtype: DType) -> Result<(), KernelError> {
        match self {
            Distribution::Integers { low, high } if low >= high => {
                Err(KernelError::Invalid(format!("random integers need low < high, not {low} and {high}")))
            }
            Distribution::Integers { low, high } => {
                let bits = 8 * dtype.size().min(8) as u32;
                let (least, most) = match dtype.kind() {
                    DTypeKind::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
                    DTypeKind::Unsigned => (0, (1i128 << bits) - 1),
                    DTypeKind::Bool => (0, 1),
                    _ => (i128::MIN, i128::MAX),
                };
                if i128::from(*low) < least || i128::from(*high) - 1 > most {
                    return Err(KernelError::Invalid(format!("random integers from {low} to {high} do not fit {dtype}")));
                }
                Ok(())
            }
            _ if matches!(dtype, DType::Float32 | DType::Float64) => Ok(()),
            _ => Err(KernelError::DType { op: "a random real distribution".into(), dtype }),
        }
    }
}

/// One block of Philox4x32-10: 128 random bits from a counter and a key.
#[inline]
fn philox(mut c: [u32; 4], mut k: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(c[0]) * 0xD251_1F53;
        let b = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(b >> 32) as u32 ^ c[1] ^ k[0], b as u32, (a >> 32) as u32 ^ c[3] ^ k[1], a as u32];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

/// A bijection that spreads nearby stream numbers over all bits and leaves stream 0 (the finaliser of SplitMix64).
fn mix(stream: u64) -> u64 {
    let x = (stream ^ (stream >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The 128 random bits of an element, as two words.
#[inline]
fn words(key: u64, position: u64) -> [u64; 2] {
    let r = philox([position as u32, (position >> 32) as u32, 0, 0], [key as u32, (key >> 32) as u32]);
    [u64::from(r[0]) | u64::from(r[1]) << 32, u64::from(r[2]) | u64::from(r[3]) << 32]
}

/// 53 bits as a number in [0, 1).
#[inline]
fn unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Box–Muller; the logarithm's argument is in (0, 1].
#[inline]
fn normal([a, b]: [u64; 2]) -> f64 {
    (-2.0 * (1.0 - unit(a)).ln()).sqrt() * (std::f64::consts::TAU * unit(b)).cos()
}

fn fill<T: BlockElement>(shape: &[u64], region: &Region, f: impl Fn(u64) -> T) -> Result<Block, KernelError> {
    let mut out = Vec::with_capacity(region.volume() as usize);
    for_each_row(shape, region, |first, len| out.extend((first..first + len).map(&f)));
    build(&usize_shape(&region.shape), out)
}

pub(crate) fn compute(
    seed: u64,
    stream: u64,
    distribution: &Distribution,
    output: &ArrayType,
    region: &Region,
) -> Result<Block, KernelError> {
    let key = seed ^ mix(stream);
    let shape = &output.shape;
    match (distribution, output.dtype) {
        (Distribution::Uniform, DType::Float32) => fill(shape, region, |i| ((words(key, i)[0] >> 40) as f32) * (1.0 / (1u32 << 24) as f32)),
        (Distribution::Uniform, DType::Float64) => fill(shape, region, |i| unit(words(key, i)[0])),
        (Distribution::Normal, DType::Float32) => fill(shape, region, |i| normal(words(key, i)) as f32),
        (Distribution::Normal, DType::Float64) => fill(shape, region, |i| normal(words(key, i))),
        (Distribution::Integers { low, high }, dtype) => {
            if low >= high {
                return Err(KernelError::Invalid(format!("random integers need low < high, not {low} and {high}")));
            }
            let span = u128::from(high.abs_diff(*low));
            let block = fill(shape, region, |i| {
                // The top 64 bits of the product of all 128 bits and the span: a bias below 2^-64.
                let [a, b] = words(key, i);
                let carry = (u128::from(b) * span) >> 64;
                let k = (u128::from(a) * span + carry) >> 64;
                low.wrapping_add(k as i64)
            })?;
            Ok(cast(&block, dtype))
        }
        (_, dtype) => Err(KernelError::DType { op: "a random real distribution".into(), dtype }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // kat_vectors of Random123: philox4x32 10.
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    fn make(stream: u64, d: Distribution, dtype: DType, region: &Region) -> Block {
        compute(7, stream, &d, &ArrayType::new(dtype, vec![200, 300]), region).unwrap()
    }

    fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
        let n = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / n;
        (mean, values.map(|v| (v - mean).powi(2)).sum::<f64>() / n)
    }

    #[test]
    fn does_not_depend_on_the_region() {
        let region = Region::new([17, 31], [5, 9]);
        let whole = make(1, Distribution::Normal, DType::Float64, &Region::full(&[200, 300]));
        let part = make(1, Distribution::Normal, DType::Float64, &region);
        assert_eq!(whole.slice(&region).contiguous().as_bytes(), part.as_bytes());
        let other = make(2, Distribution::Normal, DType::Float64, &region);
        assert_ne!(other.as_bytes(), part.as_bytes());
    }

    #[test]
    fn has_the_moments() {
        let all = Region::full(&[200, 300]);
        for dtype in [DType::Float32, DType::Float64] {
            let block = cast(&make(0, Distribution::Uniform, dtype, &all), DType::Float64);
            let a = f64::unwrap(&block).unwrap();
            let (mean, var) = moments(a.iter().copied());
            assert!((mean - 0.5).abs() < 5e-3 && (var - 1.0 / 12.0).abs() < 2e-3, "{mean} {var}");
            assert!(a.iter().all(|v| (0.0..1.0).contains(v)));
            let block = cast(&make(0, Distribution::Normal, dtype, &all), DType::Float64);
            let (mean, var) = moments(f64::unwrap(&block).unwrap().iter().copied());
            assert!(mean.abs() < 0.02 && (var - 1.0).abs() < 0.03, "{mean} {var}");
        }
    }

    #[test]
    fn integers_fill_their_range() {
        let all = Region::full(&[200, 300]);
        let block = make(0, Distribution::Integers { low: -2, high: 3 }, DType::Int8, &all);
        let a = i8::unwrap(&block).unwrap();
        for v in -2..3 {
            let n = a.iter().filter(|x| **x == v).count();
            assert!((11_000..13_000).contains(&n), "{v}: {n}");
        }
        let block = make(0, Distribution::Integers { low: i64::MIN, high: i64::MAX }, DType::Int64, &all);
        assert!(i64::unwrap(&block).unwrap().iter().any(|&v| v < i64::MIN / 2));
        let empty = compute(0, 0, &Distribution::Integers { low: 1, high: 1 }, &ArrayType::new(DType::Int8, vec![1]), &Region::full(&[1]));
        assert!(empty.is_err());
        assert!(compute(0, 0, &Distribution::Uniform, &ArrayType::new(DType::Int8, vec![1]), &Region::full(&[1])).is_err());
    }
}

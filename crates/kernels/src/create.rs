//! Arrays whose elements follow from their index alone.

use crate::block::{FromScalar, build};
use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::rows::{for_each_row, usize_shape};
use crate::{ArrayType, Block, DemandList, Distribution, KernelError, Part, ViewAxis, Window};
use crate::{cast, check, random, with_dtype};
use chunkwise_types::{DType, Region, Scalar};
use num_complex::Complex64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a creation kernel makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Create {
    /// The same value everywhere.
    Full {
        /// The value.
        value: Scalar,
    },
    /// `start + i * step` along the single axis.
    Arange {
        /// The first element.
        start: Scalar,
        /// The difference of neighbours.
        step: Scalar,
    },
    /// `num` evenly spaced numbers along the single axis.
    Linspace {
        /// The first element.
        start: Scalar,
        /// The end of the interval.
        stop: Scalar,
        /// The number of elements: the length of the axis.
        num: u64,
        /// True if the last element is exactly `stop`.
        endpoint: bool,
    },
    /// Ones on a diagonal of a matrix, zeros elsewhere.
    Eye {
        /// The column of the diagonal in row 0; negative below the main diagonal.
        k: i64,
    },
    /// Random numbers that depend on nothing but the seed, the stream and the index.
    Random {
        /// The seed.
        seed: u64,
        /// Arrays with different streams are independent under the same seed.
        stream: u64,
        /// The distribution.
        distribution: Distribution,
    },
    /// Literal values.
    Constant {
        /// Every element of the whole array in C order.
        values: Vec<Scalar>,
    },
}

/// Refuses shapes and dtypes that are not those of `what`.
pub(crate) fn check(what: &Create, inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
    if !inputs.is_empty() {
        return check::invalid(format!("it needs 0 inputs and has {}", inputs.len()));
    }
    let rank = output.shape.len();
    let axes = |n: usize| if rank == n { Ok(()) } else { check::invalid(format!("it makes arrays of {n} axes, not {rank}")) };
    match what {
        Create::Full { .. } => Ok(()),
        Create::Arange { .. } => axes(1),
        Create::Linspace { num, .. } => check::shape(output, &[*num]),
        Create::Eye { .. } => axes(2),
        Create::Random { distribution, .. } => distribution.check(output.dtype),
        Create::Constant { values } if values.len() as u64 != chunkwise_types::volume(&output.shape) => {
            check::invalid(format!("{} constant values for an array of shape {:?}", values.len(), output.shape))
        }
        Create::Constant { .. } => Ok(()),
    }
}

/// A region of the array that `what` describes.
pub(crate) fn compute(what: &Create, output: &ArrayType, region: &Region) -> Result<Block, KernelError> {
    if region.rank() != output.shape.len() {
        return Err(KernelError::Invalid(format!("a region of rank {} of an array of shape {:?}", region.rank(), output.shape)));
    }
    match what {
        Create::Full { value } => Ok(Block::splat(*value, output.dtype, &region.shape)),
        Create::Arange { start, step } => {
            let range = single_axis("arange", region)?;
            arange(*start, *step, output.dtype, range)
        }
        Create::Linspace { start, stop, num, endpoint } => {
            let range = single_axis("linspace", region)?;
            linspace(start.as_complex(), stop.as_complex(), *num, *endpoint, output.dtype, range)
        }
        Create::Eye { k } => eye(*k, output.dtype, region),
        Create::Random { seed, stream, distribution } => random::compute(*seed, *stream, distribution, output, region),
        Create::Constant { values } => {
            if values.len() as u64 != chunkwise_types::volume(&output.shape) {
                let text = format!("{} constant values for an array of shape {:?}", values.len(), output.shape);
                return Err(KernelError::Invalid(text));
            }
            with_dtype!(output.dtype, T => constant::<T>(values, &output.shape, region))
        }
    }
}

/// The indices of the only axis.
fn single_axis(name: &str, region: &Region) -> Result<std::ops::Range<u64>, KernelError> {
    match (region.start.as_slice(), region.shape.as_slice()) {
        ([start], [len]) => Ok(*start..start + len),
        _ => Err(KernelError::Invalid(format!("{name} makes arrays of one axis, not {}", region.rank()))),
    }
}

/// A one-dimensional block from scalars.
fn line<T: FromScalar>(values: impl Iterator<Item = Scalar>, len: u64) -> Result<Block, KernelError> {
    build(&[len as usize], values.map(T::from_scalar).collect())
}

fn arange(start: Scalar, step: Scalar, dtype: DType, range: std::ops::Range<u64>) -> Result<Block, KernelError> {
    let len = range.end - range.start;
    if dtype.is_inexact() {
        let (a, d) = (start.as_complex(), step.as_complex());
        let complex = matches!((start, step), (Scalar::Complex(..), _) | (_, Scalar::Complex(..)));
        if complex {
            let values = range.map(|i| Scalar::Complex(a.re + i as f64 * d.re, a.im + i as f64 * d.im));
            return with_dtype!(dtype, T => line::<T>(values, len));
        }
        let values = range.map(|i| Scalar::Float(a.re + i as f64 * d.re));
        return with_dtype!(dtype, T => line::<T>(values, len));
    }
    // As NumPy, the step of integers is the difference of the first two elements after their truncation.
    let first = start.as_i128();
    let step = match (start, step) {
        (Scalar::Float(_), _) | (_, Scalar::Float(_)) => Scalar::Float(start.as_f64() + step.as_f64()).as_i128().wrapping_sub(first),
        _ => step.as_i128(),
    };
    let values = range.map(|i| Scalar::Int(first.wrapping_add(step.wrapping_mul(i128::from(i)))));
    with_dtype!(dtype, T => line::<T>(values, len))
}

fn linspace(a: Complex64, b: Complex64, num: u64, endpoint: bool, dtype: DType, range: std::ops::Range<u64>) -> Result<Block, KernelError> {
    let len = range.end - range.start;
    let parts = if endpoint { num.saturating_sub(1) } else { num }.max(1) as f64;
    let at = |a: f64, b: f64, i: u64| {
        if endpoint && num > 1 && i == num - 1 {
            return b;
        }
        let step = (b - a) / parts;
        // A step that underflows is applied after the multiplication, as in NumPy.
        if step == 0.0 { a + i as f64 / parts * (b - a) } else { a + i as f64 * step }
    };
    let integer = !dtype.is_inexact();
    let values = range.map(|i| {
        let (re, im) = (at(a.re, b.re, i), at(a.im, b.im, i));
        if integer { Scalar::Float(re.floor()) } else { Scalar::Complex(re, im) }
    });
    with_dtype!(dtype, T => line::<T>(values, len))
}

fn eye(k: i64, dtype: DType, region: &Region) -> Result<Block, KernelError> {
    let ([row, col], [rows, cols]) = (region.start.as_slice(), region.shape.as_slice()) else {
        return Err(KernelError::Invalid(format!("eye makes arrays of two axes, not {}", region.rank())));
    };
    let mut flags = vec![0u8; (rows * cols) as usize];
    for i in 0..*rows {
        let j = i128::from(row + i) + i128::from(k) - i128::from(*col);
        if (0..i128::from(*cols)).contains(&j) {
            flags[(i * cols) as usize + j as usize] = 1;
        }
    }
    Ok(cast(&build(&[*rows as usize, *cols as usize], flags)?, dtype))
}

fn constant<T: FromScalar>(values: &[Scalar], shape: &[u64], region: &Region) -> Result<Block, KernelError> {
    let mut out = Vec::with_capacity(region.volume() as usize);
    for_each_row(shape, region, |first, len| {
        let row = values.iter().skip(first as usize).take(len as usize);
        out.extend(row.map(|&v| T::from_scalar(v)));
    });
    build(&usize_shape(&region.shape), out)
}

impl KernelKind for Create {
    fn name(&self) -> &'static str {
        "create"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check(self, at.inputs, at.output)
    }

    fn demand(&self, _: Types<'_>, _: &Region, _: Option<&Window>) -> DemandList {
        DemandList::new()
    }

    fn traits(&self) -> Traits {
        let constant = if let Create::Full { value } = self { Some(*value) } else { None };
        Traits { constant, ..Traits::PLAIN }
    }

    fn work(&self, at: Types<'_>) -> Work {
        Work::passing(at)
    }

    fn view(&self) -> Option<&[ViewAxis]> {
        None
    }

    fn blocks(&self, _: &Region) -> Option<u64> {
        None
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::AtOnce(self)
    }
}

impl Compute for Create {
    fn compute(&self, at: Types<'_>, region: &Region, _: &[Part]) -> Result<Block, KernelError> {
        compute(self, at.output, region)
    }

    fn scratch(&self, at: Types<'_>, region: &Region, _: &[u64]) -> u64 {
        at.output_bytes(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockElement;
    use num_complex::Complex32;

    fn make(what: Create, dtype: DType, shape: &[u64], start: &[u64], len: &[u64]) -> Block {
        compute(&what, &ArrayType::new(dtype, shape.to_vec()), &Region::new(start, len)).unwrap()
    }

    fn list<T: BlockElement>(block: &Block) -> Vec<T> {
        T::unwrap(block).unwrap().iter().copied().collect()
    }

    #[test]
    fn what_is_refused() {
        use crate::check::tests::{check, ty};
        let ok = |what: Create, dtype, shape: &[u64]| check(&crate::Kernel::Create { what }, &[], dtype, shape).is_ok();
        let one = Scalar::Int(1);
        let full = crate::Kernel::Create { what: Create::Full { value: one } };
        assert!(
            check(&full, &[], DType::Int8, &[2, 3]).is_ok() && check(&full, &[ty(DType::Int8, &[2, 3])], DType::Int8, &[2, 3]).is_err()
        );
        let arange = || Create::Arange { start: one, step: one };
        assert!(ok(arange(), DType::Int8, &[5]) && !ok(arange(), DType::Int8, &[5, 5]) && !ok(arange(), DType::Int8, &[]));
        let linspace = || Create::Linspace { start: one, stop: one, num: 4, endpoint: true };
        assert!(ok(linspace(), DType::Float64, &[4]) && !ok(linspace(), DType::Float64, &[5]));
        assert!(ok(Create::Eye { k: i64::MIN }, DType::Bool, &[2, 3]) && !ok(Create::Eye { k: 0 }, DType::Bool, &[5]));
        let constant = |n: usize| Create::Constant { values: vec![one; n] };
        assert!(ok(constant(6), DType::Int8, &[2, 3]) && ok(constant(1), DType::Int8, &[]));
        assert!(!ok(constant(5), DType::Int8, &[2, 3]) && !ok(constant(0), DType::Int8, &[u64::MAX, 1 << 40]));
        let random = |distribution| Create::Random { seed: 0, stream: 0, distribution };
        assert!(ok(random(Distribution::Normal), DType::Float32, &[3]) && !ok(random(Distribution::Uniform), DType::Int64, &[3]));
        let integers = |low, high| random(Distribution::Integers { low, high });
        assert!(ok(integers(-128, 128), DType::Int8, &[3]) && ok(integers(i64::MIN, i64::MAX), DType::Int64, &[3]));
        assert!(!ok(integers(0, 129), DType::Int8, &[3]) && !ok(integers(-1, 5), DType::UInt64, &[3]));
        assert!(!ok(integers(5, 5), DType::Int64, &[3]) && ok(integers(0, 300), DType::Float32, &[3]));
    }

    #[test]
    fn aranges() {
        let what = Create::Arange { start: Scalar::Int(250), step: Scalar::Int(3) };
        assert_eq!(list::<u8>(&make(what, DType::UInt8, &[10], &[1], &[3])), [253, 0, 3]);
        let what = Create::Arange { start: Scalar::Float(0.5), step: Scalar::Float(0.25) };
        assert_eq!(list::<f64>(&make(what, DType::Float64, &[10], &[2], &[2])), [1.0, 1.25]);
        let what = Create::Arange { start: Scalar::Int(i128::from(u64::MAX)), step: Scalar::Int(-1) };
        assert_eq!(list::<u64>(&make(what, DType::UInt64, &[9], &[0], &[2])), [u64::MAX, u64::MAX - 1]);
        let what = Create::Arange { start: Scalar::Int(0), step: Scalar::Int(1) };
        assert!(compute(&what, &ArrayType::new(DType::Int8, vec![2, 2]), &Region::full(&[2, 2])).is_err());
    }

    #[test]
    fn linspaces() {
        let what = |endpoint| Create::Linspace { start: Scalar::Int(0), stop: Scalar::Float(0.3), num: 4, endpoint };
        let all = list::<f64>(&make(what(true), DType::Float64, &[4], &[0], &[4]));
        assert_eq!((all[0], all[3]), (0.0, 0.3));
        assert!((all[1] - 0.1).abs() < 1e-15);
        let open = list::<f64>(&make(what(false), DType::Float64, &[4], &[3], &[1]));
        assert!((open[0] - 0.225).abs() < 1e-15);
        let one = Create::Linspace { start: Scalar::Int(5), stop: Scalar::Int(9), num: 1, endpoint: true };
        assert_eq!(list::<f32>(&make(one, DType::Float32, &[1], &[0], &[1])), [5.0]);
        let floor = Create::Linspace { start: Scalar::Int(-1), stop: Scalar::Int(0), num: 3, endpoint: true };
        assert_eq!(list::<i32>(&make(floor, DType::Int32, &[3], &[0], &[3])), [-1, -1, 0]);
    }

    #[test]
    fn eyes_constants_and_splats() {
        assert_eq!(list::<i16>(&make(Create::Eye { k: 1 }, DType::Int16, &[4, 4], &[1, 1], &[2, 3])), [0, 1, 0, 0, 0, 1]);
        assert_eq!(list::<bool>(&make(Create::Eye { k: -9 }, DType::Bool, &[2, 1], &[0, 0], &[2, 1])), [false, false]);
        let values = (0..6).map(Scalar::Int).collect();
        assert_eq!(list::<f32>(&make(Create::Constant { values }, DType::Float32, &[2, 3], &[0, 1], &[2, 2])), [1.0, 2.0, 4.0, 5.0]);
        let one = Create::Constant { values: vec![Scalar::Bool(true)] };
        assert_eq!(list::<i64>(&make(one, DType::Int64, &[], &[], &[])), [1]);
        let short = Create::Constant { values: Vec::new() };
        assert!(compute(&short, &ArrayType::new(DType::Int8, vec![2]), &Region::full(&[2])).is_err());
        assert_eq!(list::<i8>(&Block::splat(Scalar::Int(-1), DType::Int8, &[2])), [-1, -1]);
        assert_eq!(list::<Complex32>(&Block::splat(Scalar::Complex(1.0, 2.0), DType::Complex64, &[])), [Complex32::new(1.0, 2.0)]);
    }
}

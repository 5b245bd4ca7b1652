//! Which outputs a reduction makes.

use super::ReduceOp;
use crate::check::{dtype, invalid, one, shape};
use crate::{ArrayType, KernelError};
use chunkwise_types::AxisChunks;

/// Refuses axes that are not the input's, segments that do not cut them, and outputs that the reduction does not make.
pub(crate) fn check(
    function: ReduceOp,
    axes: &[usize],
    segments: Option<&[AxisChunks]>,
    inputs: &[ArrayType],
    output: &ArrayType,
) -> Result<(), KernelError> {
    let input = one(inputs)?;
    if !function.of_axes() {
        return invalid(format!("a {} is for groups only; use a sum", function.name()));
    }
    let mut made = input.shape.clone();
    if let Some(parts) = function.parts().filter(|_| function.takes_parts())
        && made.pop() != Some(parts)
    {
        return invalid(format!("moments have a last axis of length {parts}, which the input lacks"));
    }
    if axes.windows(2).any(|w| w[0] >= w[1]) || axes.iter().any(|&a| a >= made.len()) {
        return invalid("the axes must be ascending axes of the input");
    }
    let none = axes.iter().any(|&a| made[a] == 0);
    match segments {
        Some(segments) => {
            if segments.len() != axes.len() || segments.iter().zip(axes).any(|(s, &a)| !s.cuts(made[a])) {
                return invalid("the segments do not cut the reduced axes");
            }
            for (s, &a) in segments.iter().zip(axes) {
                made[a] = s.count();
            }
        }
        None => {
            for &a in axes.iter().rev() {
                made.remove(a);
            }
        }
    }
    if function.needs_elements() && none && !made.contains(&0) {
        return invalid(format!("{} of no elements", function.name()));
    }
    made.extend(function.parts());
    shape(output, &made)?;
    if function.stores(input.dtype, output.dtype)? { Ok(()) } else { dtype(output, function.result_dtype(input.dtype)?) }
}

/// As [`check`], for the reduction of groups: `labels` along `axis` name one of `groups` or -1.
pub(crate) fn check_group(
    function: ReduceOp,
    axis: usize,
    labels: &[i64],
    groups: u64,
    inputs: &[ArrayType],
    output: &ArrayType,
) -> Result<(), KernelError> {
    let input = one(inputs)?;
    if !function.of_groups() {
        return invalid(format!("{} cannot be taken by group", function.name()));
    }
    if input.shape.get(axis) != Some(&(labels.len() as u64)) {
        return invalid("one label for each index of an axis of the input is needed");
    }
    if groups > crate::group::MAX_GROUPS {
        return invalid(format!("{groups} groups are too many"));
    }
    if let Some(l) = labels.iter().find(|&&l| l < -1 || l >= groups as i64) {
        return invalid(format!("the label {l} is neither a group below {groups} nor -1 for none"));
    }
    let mut made = input.shape.clone();
    made[axis] = groups;
    made.extend(function.parts());
    shape(output, &made)?;
    dtype(output, function.result_dtype(input.dtype)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;
    use crate::check::tests::{check, ty};
    use chunkwise_types::DType::{self, *};

    fn reduce(function: ReduceOp, axes: &[usize], segments: Option<Vec<AxisChunks>>) -> Kernel {
        Kernel::Reduce { function, axes: axes.to_vec(), segments }
    }

    #[test]
    fn shapes_of_reductions() {
        let x = [ty(Float64, &[4, 6])];
        let sum = reduce(ReduceOp::Sum, &[1], None);
        assert!(check(&sum, &x, Float64, &[4]).is_ok());
        for shape in [&[5][..], &[6], &[], &[4, 1], &[4, 6]] {
            assert!(check(&sum, &x, Float64, shape).unwrap_err().contains("makes [4]"), "{shape:?}");
        }
        assert!(check(&sum, &[], Float64, &[4]).is_err() && check(&sum, &[x[0].clone(), x[0].clone()], Float64, &[4]).is_err());
        assert!(check(&reduce(ReduceOp::Sum, &[], None), &x, Float64, &[4, 6]).is_ok());
        for axes in [&[2][..], &[1, 0], &[0, 0], &[usize::MAX]] {
            assert!(check(&reduce(ReduceOp::Sum, axes, None), &x, Float64, &[4]).unwrap_err().contains("axes"));
        }
        let moments = reduce(ReduceOp::Moments { skip_nan: true }, &[0], None);
        assert!(check(&moments, &x, Float64, &[6, 3]).is_ok() && check(&moments, &x, Float64, &[6]).is_err());
        let merge = reduce(ReduceOp::MergeMoments, &[0], None);
        assert!(check(&merge, &[ty(Float64, &[4, 6, 3])], Float64, &[6, 3]).is_ok());
        assert!(check(&merge, &x, Float64, &[3]).is_err() && check(&merge, &[ty(Float64, &[])], Float64, &[]).is_err());
        assert!(check(&reduce(ReduceOp::MergeMoments, &[1], None), &[ty(Float64, &[4, 3])], Float64, &[4, 3]).is_err());
        assert!(check(&reduce(ReduceOp::Max, &[0], None), &[ty(Int8, &[0, 2])], Int8, &[2]).is_err());
        assert!(check(&reduce(ReduceOp::Max, &[0], None), &[ty(Int8, &[0, 0])], Int8, &[0]).is_ok());
        assert!(check(&reduce(ReduceOp::Sum, &[0], None), &[ty(Int8, &[0, 2])], Int64, &[2]).is_ok());
        assert!(check(&reduce(ReduceOp::Mean { skip_nan: false }, &[0], None), &x, Float64, &[6]).unwrap_err().contains("groups"));
    }

    #[test]
    fn segments() {
        let x = [ty(Float64, &[4, 6])];
        let with = |s: AxisChunks| reduce(ReduceOp::Max, &[1], Some(vec![s]));
        assert!(check(&with(AxisChunks::Irregular(vec![4, 2])), &x, Float64, &[4, 2]).is_ok());
        assert!(check(&with(AxisChunks::Irregular(vec![4, 2])), &x, Float64, &[4, 5]).is_err());
        for s in [
            AxisChunks::Regular { len: 6, size: 0 },
            AxisChunks::Regular { len: 7, size: 2 },
            AxisChunks::Irregular(vec![4, 0, 2]),
            AxisChunks::Irregular(vec![u64::MAX, 7]),
        ] {
            assert!(check(&with(s), &x, Float64, &[4, 6]).unwrap_err().contains("segments"));
        }
        assert!(check(&reduce(ReduceOp::Max, &[1], Some(vec![])), &x, Float64, &[4, 6]).is_err());
    }

    #[test]
    fn dtypes_of_reductions() {
        let ok = |op, input, output| check(&reduce(op, &[0], None), &[ty(input, &[2])], output, &[]).is_ok();
        for (input, allowed) in [
            (Bool, &[Int64][..]),
            (Int8, &[Int64, Int8]),
            (Int64, &[Int64]),
            (UInt16, &[UInt64, UInt16]),
            (Float32, &[Float32, Float64]),
            (Float64, &[Float32, Float64]),
            (Complex64, &[Complex64, Complex128]),
            (Complex128, &[Complex64, Complex128]),
        ] {
            for output in DType::ALL {
                assert_eq!(ok(ReduceOp::Sum, input, output), allowed.contains(&output), "{input} to {output}");
                assert_eq!(ok(ReduceOp::Prod, input, output), allowed.contains(&output), "{input} to {output}");
            }
        }
        for output in DType::ALL {
            assert_eq!(ok(ReduceOp::Min, Float32, output), output == Float32);
            assert_eq!(ok(ReduceOp::Any, Float32, output), output == Bool);
            assert_eq!(ok(ReduceOp::ArgMax, Float32, output), output == Int64);
        }
        assert!(!ok(ReduceOp::Min, Complex64, Complex64) && !ok(ReduceOp::Moments { skip_nan: false }, Complex64, Float64));
    }

    #[test]
    fn groups() {
        let x = [ty(Float32, &[4, 6])];
        let by = |function, axis, labels: &[i64], groups| Kernel::Group { function, axis, labels: labels.to_vec(), groups };
        let sum = by(ReduceOp::Sum, 0, &[0, 1, 0, -1], 2);
        assert!(check(&sum, &x, Float32, &[2, 6]).is_ok());
        assert!(check(&sum, &x, Float64, &[2, 6]).is_err());
        for shape in [&[2, 9][..], &[2], &[3, 6], &[2, 6, 3], &[]] {
            assert!(check(&sum, &x, Float32, shape).is_err(), "{shape:?}");
        }
        let moments = by(ReduceOp::Moments { skip_nan: false }, 0, &[0, 1, 0, -1], 2);
        assert!(check(&moments, &x, Float64, &[2, 6, 3]).is_ok() && check(&moments, &x, Float64, &[2, 6]).is_err());
        assert!(check(&by(ReduceOp::Mean { skip_nan: true }, 0, &[0; 4], 1), &x, Float32, &[1, 6]).is_ok());
        for bad in [
            by(ReduceOp::ArgMin, 0, &[0; 4], 1),
            by(ReduceOp::MergeMoments, 0, &[0; 4], 1),
            by(ReduceOp::Sum, 2, &[0; 4], 1),
            by(ReduceOp::Sum, 0, &[0; 3], 1),
            by(ReduceOp::Sum, 0, &[0, 0, 0, 1], 1),
            by(ReduceOp::Sum, 0, &[0, 0, 0, i64::MIN], 1),
            by(ReduceOp::Sum, 0, &[0; 4], u64::MAX),
        ] {
            assert!(check(&bad, &x, Float32, &[1, 6]).is_err(), "{bad:?}");
        }
        assert!(check(&by(ReduceOp::Sum, 0, &[0; 4], u64::MAX), &x, Float32, &[u64::MAX, 6]).is_err());
    }
}

//! Shapes, dtypes, chunks and refusals.

#![allow(clippy::unwrap_used)]

use crate::index::{Index, index, take};
use crate::{Array, ElementOp, Operand, PadMode, calendar, create, elementwise, group, linalg, manipulate, reduce};
use chunkwise_types::{AxisChunks, ChunkGrid, DType, Scalar};

fn array(shape: &[u64], chunk: &[u64], dtype: DType) -> Array {
    create::full(shape, Scalar::Int(1), Some(dtype), Some(ChunkGrid::regular(shape, chunk))).unwrap()
}

fn named(shape: &[u64], dims: &[&str]) -> Array {
    array(shape, shape, DType::Float32).with_dims(dims.iter().map(|d| Some(d.to_string())).collect())
}

#[test]
fn scalars_are_weak_and_shapes_broadcast() {
    let x = array(&[4, 6], &[2, 3], DType::Float32);
    let y = array(&[6], &[6], DType::Int8);
    let z = x.add(&y).unwrap();
    assert_eq!((z.dtype(), z.chunks().to_string().as_str()), (DType::Float32, "((2, 2), (3, 3))"));
    assert_eq!(y.mul(2i64).unwrap().dtype(), DType::Int8);
    assert_eq!(y.mul(2.5).unwrap().dtype(), DType::Float64);
    assert_eq!(y.div(2i64).unwrap().dtype(), DType::Float64);
    assert!(y.add(300i64).unwrap_err().to_string().contains("300"));
    assert!(elementwise::binary(ElementOp::Less, &y, 300i64).is_ok());
    assert!(y.pow(-1i64).is_err());
    assert!(x.add(&array(&[5], &[5], DType::Int8)).unwrap_err().to_string().contains("broadcast"));
    let c = elementwise::binary(ElementOp::Greater, &x, 0i64).unwrap();
    assert_eq!(elementwise::select(&c, 1i64, 2.5).unwrap().dtype(), DType::Float64);
    assert_eq!(elementwise::select(&c, &x, 0i64).unwrap().dtype(), DType::Float32);
    assert_eq!(elementwise::clip(&x, Some(Operand::from(0.0)), None).unwrap().dtype(), DType::Float32);
}

#[test]
fn a_clash_of_names_says_both() {
    let (a, b) = (named(&[3, 4], &["time", "lat"]), named(&[3, 4], &["time", "lon"]));
    let e = a.add(&b).unwrap_err().to_string();
    assert!(e.contains("'lat'") && e.contains("'lon'"), "{e}");
    let m = reduce::mean(&a, Some(&[1]), true).unwrap();
    assert_eq!(a.sub(&m).unwrap().dims(), a.dims());
}

#[test]
fn reductions_have_the_dtypes_of_numpy() {
    let x = array(&[4, 6], &[2, 3], DType::Int16);
    assert_eq!(reduce::sum(&x, None, false, None).unwrap().dtype(), DType::Int64);
    assert_eq!(reduce::mean(&x, Some(&[-1]), false).unwrap().dtype(), DType::Float64);
    let f = array(&[4, 6], &[2, 3], DType::Float32);
    for (y, shape) in [
        (reduce::mean(&f, Some(&[0]), true).unwrap(), vec![1, 6]),
        (reduce::var(&f, Some(&[1]), false, 1.0).unwrap(), vec![4]),
        (reduce::nanstd(&f, Some(&[0, 1]), true, 0.0).unwrap(), vec![1, 1]),
        (reduce::nanmean(&f, None, false).unwrap(), vec![]),
        (reduce::nanmin(&f, Some(&[0]), false).unwrap(), vec![6]),
    ] {
        assert_eq!((y.dtype(), y.shape()), (DType::Float32, &shape[..]));
    }
    let c = array(&[4], &[4], DType::Complex64);
    assert_eq!(reduce::var(&c, None, false, 0.0).unwrap().dtype(), DType::Float32);
    assert_eq!(reduce::mean(&c, None, false).unwrap().dtype(), DType::Complex64);
    assert!(reduce::max(&c, None, false).is_err());
    let empty = array(&[0, 3], &[1, 3], DType::Float32);
    assert!(reduce::min(&empty, Some(&[0]), false).is_err());
    assert_eq!(reduce::min(&empty, Some(&[1]), false).unwrap().shape(), [0]);
    assert!(reduce::sum(&f, Some(&[2]), false, None).is_err());
    assert!(reduce::sum(&f, Some(&[0, -2]), false, None).is_err());
}

#[test]
fn indexing_follows_numpy() {
    let x = array(&[10, 4], &[4, 4], DType::Float32);
    let slice = |start, stop, step| Index::Slice { start, stop, step };
    for (items, shape, chunks) in [
        (vec![slice(Some(1), None, None)], vec![9, 4], "((3, 4, 2), (4,))"),
        (vec![slice(None, None, Some(-3))], vec![4, 4], "((1, 1, 2), (4,))"),
        (vec![slice(Some(-3), Some(100), Some(2)), Index::At(-1)], vec![2], "((1, 1),)"),
        (vec![Index::Ellipsis, Index::NewAxis, Index::At(0)], vec![10, 1], "((4, 4, 2), (1,))"),
        (vec![slice(Some(5), Some(2), None)], vec![0, 4], "(,)"),
        (vec![Index::List(vec![-1, 0, 0])], vec![3, 4], "((3,), (4,))"),
    ] {
        let y = index(&x, &items).unwrap();
        assert_eq!(y.shape(), shape, "{items:?}");
        if !shape.contains(&0) {
            assert_eq!(y.chunks().to_string(), chunks, "{items:?}");
        }
    }
    assert!(index(&x, &[Index::At(10)]).unwrap_err().to_string().contains("index 10 is out of bounds for axis 0 with size 10"));
    assert!(index(&x, &[Index::At(0), Index::At(0), Index::At(0)]).is_err());
    assert!(take(&x, &[4], 1).is_err());
}

#[test]
fn shapes_move() {
    let x = array(&[10, 4], &[4, 4], DType::Float32);
    let d = manipulate::diff(&x, 1, 0).unwrap();
    assert_eq!(d.chunks().to_string(), "((3, 4, 2), (4,))");
    let p = manipulate::pad(&d, &[(1, 0), (0, 0)], PadMode::Symmetric, Scalar::Int(0)).unwrap();
    assert_eq!(p.chunks(), x.chunks());
    assert_eq!(manipulate::diff(&x, 11, 0).unwrap().shape(), [0, 4]);
    assert_eq!(manipulate::reshape(&x, &[2, -1]).unwrap().shape(), [2, 20]);
    assert!(manipulate::reshape(&x, &[3, -1]).is_err());
    let c = manipulate::concat(&[x.clone(), d.clone()], 0).unwrap();
    assert_eq!(c.chunks().0[0], AxisChunks::Irregular(vec![4, 4, 2, 3, 4, 2]));
    assert_eq!(manipulate::stack(&[x.clone(), x.clone()], -1).unwrap().shape(), [10, 4, 2]);
    assert_eq!(manipulate::roll(&x, &[3], None).unwrap().shape(), [10, 4]);
    assert_eq!(manipulate::flip(&x, None).unwrap().chunks().0[0], AxisChunks::Irregular(vec![2, 4, 4]));
    assert_eq!(manipulate::tile(&x, &[2, 1, 3]).unwrap().shape(), [2, 10, 12]);
    assert!(manipulate::squeeze(&x, Some(&[0])).is_err());
}

#[test]
fn products() {
    let a = array(&[5, 1, 4, 3], &[5, 1, 4, 3], DType::Float32);
    let b = array(&[2, 3, 6], &[2, 3, 6], DType::Float64);
    let m = linalg::matmul(&a, &b).unwrap();
    assert_eq!((m.dtype(), m.shape()), (DType::Float64, &[5, 2, 4, 6][..]));
    assert!(linalg::matmul(&b, &b).is_err());
    assert_eq!(linalg::einsum("abij->jiba", std::slice::from_ref(&a)).unwrap().shape(), [3, 4, 1, 5]);
    assert_eq!(linalg::einsum("bij,bkj", &[b.clone(), b.clone()]).unwrap().shape(), [3, 3]);
    assert_eq!(linalg::tensordot(&a, &b, &[3], &[1]).unwrap().shape(), [5, 1, 4, 2, 6]);
    assert_eq!(linalg::vecdot(&b, &b, -1).unwrap().shape(), [2, 3]);
    let t = named(&[6, 3], &["n", "k"]);
    let ata = linalg::matmul(&manipulate::permute_dims(&t, None).unwrap(), &t).unwrap();
    assert_eq!(ata.dims(), [Some("k".to_string()), None]);
}

#[test]
fn groups_and_calendars() {
    let x = array(&[6, 2], &[3, 2], DType::Float32);
    for op in [group::GroupOp::Mean, group::GroupOp::Var(0.0), group::GroupOp::Max] {
        let g = group::groupby(&x, 0, &[0, 1, 2, 0, 1, -1], 3, op).unwrap();
        assert_eq!((g.dtype(), g.shape()), (DType::Float32, &[3, 2][..]));
        assert_eq!(group::select(&g, 0, &[0, 1, 2, 0]).unwrap().shape(), [4, 2]);
    }
    assert!(group::groupby(&x, 0, &[0], 1, group::GroupOp::Sum).is_err());
    assert!(group::groupby(&x, 0, &[0, 1, 2, 0, 1, 3], 3, group::GroupOp::Sum).is_err());
    for (value, units, cal, want) in [
        (0.0, "days since 1970-01-01", "standard", (1970, 1, 1, 1)),
        (59.0, "days since 2000-01-01", "gregorian", (2000, 2, 29, 60)),
        (1e6, "hours since 1900-01-01 00:00:00.0", "", (2014, 1, 29, 29)),
        (-1.0, "days since 1582-10-15", "standard", (1582, 10, 4, 277)),
        (-1.0, "days since 1582-10-15", "proleptic_gregorian", (1582, 10, 14, 287)),
        (59.0, "days since 2000-01-01", "360_day", (2000, 2, 30, 60)),
        (59.0, "days since 1900-01-01", "julian", (1900, 2, 29, 60)),
        (365.0, "days since 0001-01-01", "noleap", (2, 1, 1, 1)),
        (0.0, "seconds since 2020-01-01T00:00:00+01:00", "standard", (2019, 12, 31, 365)),
        (693962.0, "days since 0001-01-01", "proleptic_gregorian", (1901, 1, 2, 2)),
    ] {
        let t = calendar::decode(&[value], units, cal).unwrap()[0];
        assert_eq!((t.year, t.month, t.day, t.dayofyear), want, "{value} {units} {cal}");
    }
    let t = calendar::decode(&[0.1, 0.5], "days since 2000-01-01", "standard").unwrap();
    assert_eq!((t[0].hour, t[0].minute, t[0].second, t[1].hour), (2, 24, 0.0, 12));
    assert!(calendar::decode(&[0.0], "fortnights since 2000-01-01", "").is_err());
    assert!(calendar::decode(&[f64::NAN], "days since 2000-01-01", "").is_err());
    assert!(calendar::labels(&t, "week").is_err());
}

//! Every region of a scan is what a plain loop over the whole array makes of it.

use super::*;
use crate::check::tests::{check, ty};
use crate::{Kernel, Node};
use ndarray::{Array, Axis, IxDyn};

fn kernel(function: ScanOp, axis: usize, segments: AxisChunks, ends: bool) -> Kernel {
    Kernel::Scan(Scan { function, axis, segments, ends })
}

/// Elements of which some are missing, exact in sums and products.
fn elements(rng: &mut fastrand::Rng, shape: &[u64]) -> Array<f64, IxDyn> {
    let dims: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
    Array::from_shape_fn(IxDyn(&dims), |_| match rng.u8(..9) {
        0 => f64::NAN,
        1 => -2.0,
        n => f64::from(n % 3),
    })
}

/// The scan of the whole array in a plain loop.
fn plain(x: &Array<f64, IxDyn>, function: ScanOp, axis: usize) -> Array<f64, IxDyn> {
    let mut out = x.clone();
    for mut lane in out.lanes_mut(Axis(axis)) {
        for i in 1..lane.len() {
            let (a, b) = (lane[i - 1], lane[i]);
            lane[i] = match function {
                ScanOp::Sum => a + b,
                ScanOp::Prod => a * b,
                ScanOp::Min | ScanOp::Max if a.is_nan() || b.is_nan() => f64::NAN,
                ScanOp::Min => a.min(b),
                ScanOp::Max => a.max(b),
                ScanOp::Last if b.is_nan() => a,
                ScanOp::Last => b,
            };
        }
    }
    out
}

fn block(x: &Array<f64, IxDyn>, dtype: DType) -> Block {
    crate::cast(&f64::wrap(x.clone().into_shared()), dtype)
}

fn computed(node: &Node<'_>, inputs: &[Block], region: &Region) -> Block {
    let parts: Vec<Part> =
        node.demand(region, None).into_iter().map(|d| Part { block: inputs[d.input].slice(&d.region), region: d.region }).collect();
    node.compute(region, &parts).unwrap()
}

#[test]
fn every_region_is_that_of_a_loop() {
    let rng = &mut fastrand::Rng::with_seed(11);
    for round in 0..600 {
        let function = [ScanOp::Sum, ScanOp::Prod, ScanOp::Min, ScanOp::Max, ScanOp::Last][rng.usize(..5)];
        let shape: Vec<u64> = (0..rng.usize(1..4)).map(|_| rng.u64(1..12)).collect();
        let axis = rng.usize(..shape.len());
        let segments = AxisChunks::regular(shape[axis], rng.u64(1..=shape[axis]));
        let dtype = [DType::Float64, DType::Float32][rng.usize(..2)];
        let x = elements(rng, &shape);
        let want = plain(&x, function, axis);
        let input = ArrayType::new(dtype, shape.clone());
        let mut carried = ArrayType::new(function.carried(dtype), shape.clone());
        carried.shape[axis] = segments.count();
        // What each segment ends with, as another scan finds it.
        let at: Vec<usize> = (0..segments.count()).map(|k| segments.bounds(k)).map(|(start, n)| (start + n - 1) as usize).collect();
        let carry = block(&want.select(Axis(axis), &at), carried.dtype);
        let scan = kernel(function, axis, segments.clone(), false);
        let types = [input.clone(), carried.clone()];
        let node = Node { kernel: &scan, inputs: &types, output: &input };
        node.check().unwrap();
        let start: Vec<u64> = shape.iter().map(|&n| rng.u64(..n)).collect();
        let lengths: Vec<u64> = shape.iter().zip(&start).map(|(&n, &s)| rng.u64(1..=n - s)).collect();
        let region = Region::new(start, lengths);
        let mut x = block(&x, dtype);
        if rng.bool() {
            // The same elements in another order of memory.
            let Block::Float64(a) = crate::cast(&x, DType::Float64) else { unreachable!() };
            x = crate::cast(&f64::wrap(a.reversed_axes().as_standard_layout().into_owned().into_shared().reversed_axes()), dtype);
        }
        let got = computed(&node, &[x.clone(), carry], &region);
        let want = f64::wrap(want.into_shared()).slice(&region);
        let numbers = |b: &Block| f64::unwrap(b).unwrap().iter().map(|x| if x.is_nan() { 1e300 } else { *x }).collect::<Vec<_>>();
        let same = |a: &Block, b: &Block| a.shape() == b.shape() && numbers(a) == numbers(b);
        let as_f64 = |b: &Block| crate::cast(b, DType::Float64).contiguous();
        assert!(same(&as_f64(&got), &as_f64(&want)), "{round}: {function:?} {shape:?} {axis} {segments:?} {region}\n{got:?}\n{want:?}");
        // The ends of segments by themselves are those of scans that begin anew.
        let ends = kernel(function, axis, segments.clone(), true);
        let anew = kernel(function, axis, segments.clone(), false);
        let mut out = input.clone();
        out.shape[axis] = segments.count();
        let full = computed(&Node { kernel: &anew, inputs: &types[..1], output: &input }, &[x.clone()], &Region::full(&input.shape));
        let node = Node { kernel: &ends, inputs: &types[..1], output: &out };
        node.check().unwrap();
        let got = computed(&node, &[x], &Region::full(&out.shape));
        let Block::Float64(full) = as_f64(&full) else { unreachable!() };
        let want = f64::wrap(full.select(Axis(axis), &at).into_shared());
        assert!(same(&as_f64(&got), &want), "{round}: ends of {function:?} {shape:?} {axis} {segments:?}");
    }
}

#[test]
fn sums_keep_what_rounding_loses() {
    let n = 1_000_000u64;
    let scan = kernel(ScanOp::Sum, 0, AxisChunks::regular(n, n), false);
    let (x, y) = (ty(DType::Float64, &[n]), ty(DType::Float64, &[n]));
    let node = Node { kernel: &scan, inputs: std::slice::from_ref(&x), output: &y };
    let all = f64::wrap(Array::from_elem(IxDyn(&[n as usize]), 0.1).into_shared());
    let Block::Float64(got) = computed(&node, &[all], &Region::full(&[n])) else { unreachable!() };
    let worst = (0..n as usize).map(|i| ((got[[i]] - 0.1 * (i + 1) as f64) / got[[i]]).abs()).fold(0.0, f64::max);
    assert!(worst <= 2.0 * f64::EPSILON, "{worst}");
}

#[test]
fn integers_wrap_and_rows_are_long() {
    let scan = kernel(ScanOp::Sum, 0, AxisChunks::regular(3, 3), false);
    let x = ty(DType::Int64, &[3, 5000]);
    let node = Node { kernel: &scan, inputs: std::slice::from_ref(&x), output: &x };
    let input = i64::wrap(Array::from_shape_fn(IxDyn(&[3, 5000]), |i| i64::MAX - i[1] as i64).into_shared());
    let Block::Int64(got) = computed(&node, &[input], &Region::full(&[3, 5000])) else { unreachable!() };
    assert!((0..5000).all(|j| got[[2, j]] == (i64::MAX - j as i64).wrapping_mul(3)));
}

#[test]
fn what_is_refused() {
    let (x, carried) = (ty(DType::Float32, &[4, 6]), ty(DType::Float64, &[4, 3]));
    let with = |function, axis, n, size| kernel(function, axis, AxisChunks::regular(n, size), false);
    let ok = |k: &Kernel, inputs: &[ArrayType], shape: &[u64]| check(k, inputs, DType::Float32, shape).is_ok();
    let both = [x.clone(), carried.clone()];
    let sum = with(ScanOp::Sum, 1, 6, 2);
    assert!(ok(&sum, &both, &[4, 6]) && ok(&sum, &both[..1], &[4, 6]) && ok(&with(ScanOp::Last, 0, 4, 4), &both[..1], &[4, 6]));
    assert!(!ok(&sum, &both, &[4, 3]) && !ok(&sum, &[], &[4, 6]) && !ok(&sum, &[x.clone(), x.clone()], &[4, 6]));
    assert!(!ok(&with(ScanOp::Sum, 2, 6, 2), &both[..1], &[4, 6]) && !ok(&with(ScanOp::Sum, 0, 6, 2), &both[..1], &[4, 6]));
    assert!(!ok(&with(ScanOp::Sum, usize::MAX, 6, 2), &both[..1], &[4, 6]) && !ok(&with(ScanOp::Max, 1, 6, 2), &both, &[4, 6]));
    let ends = kernel(ScanOp::Prod, 1, AxisChunks::regular(6, 4), true);
    assert!(ok(&ends, &both[..1], &[4, 2]) && !ok(&ends, &both[..1], &[4, 6]) && !ok(&ends, &both, &[4, 2]));
    let of = |function, dtype| check(&with(function, 0, 3, 3), &[ty(dtype, &[3])], dtype, &[3]).is_ok();
    assert!(of(ScanOp::Max, DType::Bool) && of(ScanOp::Min, DType::Int8) && of(ScanOp::Prod, DType::UInt64));
    assert!(!of(ScanOp::Max, DType::Complex64) && !of(ScanOp::Sum, DType::Int32) && !of(ScanOp::Last, DType::Int64));
}

//! A lookup in windows and tiles is what a plain loop over the whole arrays makes of it.

use crate::check::tests::{check, ty};
use crate::{ArrayType, Block, BlockElement, Kernel, KernelError, Node, Part};
use chunkwise_types::{DType, Region};
use ndarray::{Array, ArrayD, Axis, IxDyn, Slice};
use smallvec::{SmallVec, smallvec};

fn dims(shape: &[u64]) -> IxDyn {
    IxDyn(&shape.iter().map(|&n| n as usize).collect::<Vec<_>>())
}

/// The demanded parts of the inputs for a region in one window.
fn parts(node: &Node<'_>, inputs: &[Block], region: &Region, window: (u64, u64)) -> Vec<Part> {
    let demands = node.demand(region, Some(&vec![window]));
    demands.into_iter().map(|d| Part { block: inputs[d.input].slice(&d.region), region: d.region }).collect()
}

/// Two halves of a region along an axis, or the region.
fn halves(region: &Region, axis: usize) -> Vec<Region> {
    let n = region.shape[axis];
    if n < 2 {
        return vec![region.clone()];
    }
    let part = |start: u64, len: u64| {
        let mut part = region.clone();
        (part.start[axis], part.shape[axis]) = (region.start[axis] + start, len);
        part
    };
    vec![part(n / 2, n - n / 2), part(0, n / 2)]
}

#[test]
fn every_region_is_that_of_a_loop() {
    let rng = &mut fastrand::Rng::with_seed(5);
    for _ in 0..500 {
        let shape: Vec<u64> = (0..rng.usize(1..4)).map(|_| rng.u64(1..9)).collect();
        let axis = rng.usize(..shape.len());
        let (n, mut at_shape) = (shape[axis], shape.clone());
        at_shape[axis] = rng.u64(1..9);
        // Some axes have one element, some arrays are turned.
        let narrow: Vec<u64> = shape.iter().enumerate().map(|(a, &n)| if a != axis && rng.u8(..3) == 0 { 1 } else { n }).collect();
        let mut x: ArrayD<i32> = Array::from_shape_fn(dims(&narrow), |_| rng.i32(..));
        if rng.bool() {
            x = x.reversed_axes().as_standard_layout().to_owned().reversed_axes();
        }
        let x = x.into_shared();
        let wide = x.broadcast(dims(&shape)).unwrap();
        let positions: ArrayD<i64> = Array::from_shape_fn(dims(&at_shape), |_| rng.i64(-(n as i64)..n as i64));
        let want = Array::from_shape_fn(positions.raw_dim(), |index| {
            let mut of = index.clone();
            of[axis] = positions[&index].rem_euclid(n as i64) as usize;
            wide[of]
        });

        let kernel = Kernel::Lookup { axis };
        let types = [ArrayType::new(DType::Int32, narrow.clone()), ArrayType::new(DType::Int64, at_shape.clone())];
        let output = ArrayType::new(DType::Int32, at_shape.clone());
        let node = Node { kernel: &kernel, inputs: &types, output: &output };
        node.check().unwrap();
        let inputs = [i32::wrap(x.clone()), i64::wrap(positions.clone().into_shared())];
        let start: SmallVec<[u64; 4]> = at_shape.iter().map(|&n| rng.u64(..n)).collect();
        let region = Region { shape: at_shape.iter().zip(&start).map(|(&n, &s)| rng.u64(1..=n - s)).collect(), start };
        let mut fold = node.start_fold(&region).unwrap();
        let step = rng.u64(1..=n);
        for first in (0..n).step_by(step as usize) {
            for tile in halves(&region, rng.usize(..shape.len())) {
                fold.fold(&parts(&node, &inputs, &tile, (first, step.min(n - first)))).unwrap();
            }
        }
        let mut wanted = want.view();
        for a in 0..shape.len() {
            wanted.slice_axis_inplace(Axis(a), Slice::from(region.start[a] as usize..region.end(a) as usize));
        }
        assert_eq!(i32::unwrap(&fold.finish().unwrap()).unwrap().view(), wanted);
    }
}

#[test]
fn a_position_out_of_bounds_is_an_error() {
    let types = [ty(DType::Float64, &[4]), ty(DType::Int64, &[3])];
    let node = Node { kernel: &Kernel::Lookup { axis: 0 }, inputs: &types, output: &ty(DType::Float64, &[3]) };
    let found = |positions: [i64; 3]| -> Result<Block, KernelError> {
        let inputs = [f64::wrap(ArrayD::zeros(IxDyn(&[4])).into_shared()), i64::wrap(ndarray::arr1(&positions).into_dyn().into_shared())];
        let region = Region { start: smallvec![0], shape: smallvec![3] };
        let mut fold = node.start_fold(&region)?;
        for first in [0, 2] {
            fold.fold(&parts(&node, &inputs, &region, (first, 2)))?;
        }
        fold.finish()
    };
    assert!(found([0, -4, 3]).is_ok());
    for wrong in [4, -5, i64::MAX, i64::MIN] {
        let error = found([0, wrong, 1]).unwrap_err().to_string();
        assert!(error.contains(&format!("position {wrong} is out of bounds for axis 0 of length 4")), "{error}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let lookup =
        |x: &[u64], at: &[u64], dtype, axis| check(&Kernel::Lookup { axis }, &[ty(DType::Int8, x), ty(dtype, at)], DType::Int8, at);
    assert!(lookup(&[4, 3], &[9, 3], DType::Int64, 0).is_ok());
    assert!(lookup(&[4, 1], &[9, 3], DType::Int64, 0).is_ok());
    assert!(lookup(&[4, 3], &[9, 1], DType::Int64, 0).is_err());
    assert!(lookup(&[4, 3], &[9, 3], DType::Int64, 2).is_err());
    assert!(lookup(&[4, 3], &[9], DType::Int64, 0).is_err());
    assert!(lookup(&[4, 3], &[9, 3], DType::Int32, 0).is_err());
    let one = [ty(DType::Int8, &[4])];
    assert!(check(&Kernel::Lookup { axis: 0 }, &one, DType::Int8, &[4]).is_err());
}

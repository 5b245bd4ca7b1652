//! Points in boxes and tiles are what a plain loop makes of the whole array.

use super::*;
use crate::check::tests::{check, ty};
use crate::{ArrayType, Kernel, Node};
use chunkwise_types::DType;
use ndarray::{Array, ArrayD, Axis, IxDyn, Slice};
use smallvec::SmallVec;

fn dims(shape: &[u64]) -> IxDyn {
    IxDyn(&shape.iter().map(|&n| n as usize).collect::<Vec<_>>())
}

#[test]
fn every_region_is_that_of_a_loop() {
    let rng = &mut fastrand::Rng::with_seed(3);
    for _ in 0..500 {
        let shape: Vec<u64> = (0..rng.usize(1..5)).map(|_| rng.u64(1..8)).collect();
        let mut axes: Vec<usize> = (0..shape.len()).filter(|_| rng.bool()).collect();
        if axes.is_empty() {
            axes.push(rng.usize(..shape.len()));
        }
        let count = rng.usize(1..12);
        let positions: Vec<Vec<u64>> = axes.iter().map(|&a| (0..count).map(|_| rng.u64(..shape[a])).collect()).collect();
        let mut x: ArrayD<i32> = Array::from_shape_fn(dims(&shape), |_| rng.i32(..));
        if rng.bool() {
            x = x.reversed_axes().as_standard_layout().to_owned().reversed_axes();
        }
        let points = Points { axes: axes.clone(), positions: positions.clone() };
        let rest = points.rest(shape.len());
        let out: Vec<u64> = std::iter::once(count as u64).chain(rest.iter().map(|&a| shape[a])).collect();
        let want = Array::from_shape_fn(dims(&out), |index| {
            let mut of = IxDyn(&vec![0; shape.len()]);
            axes.iter().zip(&positions).for_each(|(&a, p)| of[a] = p[index[0]] as usize);
            rest.iter().enumerate().for_each(|(i, &a)| of[a] = index[i + 1]);
            x[of]
        });

        let kernel = Kernel::Points(points);
        let (types, output) = ([ArrayType::new(DType::Int32, shape.clone())], ArrayType::new(DType::Int32, out.clone()));
        let node = Node { kernel: &kernel, inputs: &types, output: &output };
        node.check().unwrap();
        let block = i32::wrap(x.clone().into_shared());
        let start: SmallVec<[u64; 4]> = out.iter().map(|&n| rng.u64(..n)).collect();
        let region = Region { shape: out.iter().zip(&start).map(|(&n, &s)| rng.u64(1..=n - s)).collect(), start };
        let mut fold = node.start_fold(&region).unwrap();
        // Boxes of the window, in any cut.
        let window = node.window(&region);
        let steps: Vec<u64> = window.iter().map(|&(_, n)| rng.u64(1..=n)).collect();
        let counts: Vec<u64> = window.iter().zip(&steps).map(|(&(_, n), &s)| n.div_ceil(s)).collect();
        for k in 0..volume(&counts) {
            let cut = chunkwise_types::unravel(k, &counts);
            let part = |i: usize| (window[i].0 + cut[i] * steps[i], steps[i].min(window[i].1 - cut[i] * steps[i]));
            let part: Window = (0..window.len()).map(part).collect();
            let parts: Vec<Part> =
                node.demand(&region, Some(&part)).into_iter().map(|d| Part { block: block.slice(&d.region), region: d.region }).collect();
            fold.fold(&parts).unwrap();
        }
        let mut wanted = want.view();
        for a in 0..out.len() {
            wanted.slice_axis_inplace(Axis(a), Slice::from(region.start[a] as usize..region.end(a) as usize));
        }
        assert_eq!(i32::unwrap(&fold.finish().unwrap()).unwrap().view(), wanted);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let points = |axes: &[usize], positions: &[&[u64]], out: &[u64]| {
        let positions = positions.iter().map(|p| p.to_vec()).collect();
        check(&Kernel::Points(Points { axes: axes.to_vec(), positions }), &[ty(DType::Int8, &[4, 3, 5])], DType::Int8, out)
    };
    assert!(points(&[0, 2], &[&[3, 0], &[4, 4]], &[2, 3]).is_ok());
    assert!(points(&[2, 0], &[&[3, 0], &[3, 3]], &[2, 3]).is_err());
    assert!(points(&[0, 3], &[&[3, 0], &[0, 0]], &[2, 3]).is_err());
    assert!(points(&[0, 2], &[&[3, 0], &[5, 4]], &[2, 3]).is_err());
    assert!(points(&[0, 2], &[&[3, 0], &[4]], &[2, 3]).is_err());
    assert!(points(&[0, 2], &[&[3, 0]], &[2, 3]).is_err());
    assert!(points(&[], &[], &[0, 4, 3, 5]).is_err());
    assert!(points(&[0, 2], &[&[3, 0], &[4, 4]], &[2, 5]).is_err());
}

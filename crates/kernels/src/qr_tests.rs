//! Decompositions are orthogonal, give the matrix back, and do not depend on the blocks.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::check::tests::{check, ty};
use crate::{Kernel, Node};
use fastrand::Rng;

fn random<T: NdFloat>(m: usize, n: usize, seed: u64) -> Array2<T> {
    let mut rng = Rng::with_seed(seed * 2 + 1);
    Array2::from_shape_simple_fn((m, n), || T::from(rng.f64() - 0.5).unwrap())
}

fn difference<T: NdFloat>(a: &Array2<T>, b: &Array2<T>) -> T {
    assert_eq!(a.dim(), b.dim());
    a.iter().zip(b).fold(T::zero(), |m, (x, y)| if (*x - *y).abs() <= m { m } else { (*x - *y).abs() })
}

fn decompose<T: Product + NdFloat>(epsilon: f64) {
    for (turn, (m, n)) in
        [(1, 1), (2, 1), (5, 5), (9, 4), (70, 64), (65, 65), (130, 129), (300, 70), (400, 3), (200_000, 2)].into_iter().enumerate()
    {
        let mut a = random::<T>(m, n, turn as u64 + 1);
        if turn % 3 == 2 {
            // Nearly dependent columns of very different lengths.
            for j in 1..n {
                let before = a.column(j - 1).to_owned();
                let tiny = T::from(1e-5).unwrap();
                a.column_mut(j).zip_mut_with(&before, |x, &b| *x = *x * tiny + b);
            }
        }
        let f = Factored::new(a.view());
        let (q, r) = (f.times(None), f.r());
        let tolerance = T::from(epsilon * 40.0 * n as f64).unwrap();
        // Checked in double precision: long sums of float32 are worse than the factors.
        let wide = |x: &Array2<T>| x.mapv(|x| x.to_f64().unwrap());
        let (q64, r64, close) = (wide(&q), wide(&r), epsilon * 40.0 * n as f64);
        // Rounding is relative to the length of a column, not to an element.
        let length = (0..n).map(|j| r64.column(j).dot(&r64.column(j)).sqrt()).fold(1.0, f64::max);
        assert!(difference(&q64.dot(&r64), &wide(&a)) < close * length, "{m} {n}");
        let gram = q64.t().dot(&q64);
        assert!(difference(&gram, &Array2::eye(n)) < close, "{m} {n}: {gram}");
        assert!((0..n).all(|i| r[[i, i]] >= T::zero() && (0..i).all(|j| r[[i, j]] == T::zero())), "{m} {n}");
        let c = random::<T>(n, n, 77);
        assert!(difference(&f.times(Some(c.view())), &q.dot(&c)) < tolerance, "{m} {n}");
    }
}

#[test]
fn factors_are_orthogonal_and_give_the_matrix_back() {
    decompose::<f64>(f64::EPSILON);
    decompose::<f32>(f64::from(f32::EPSILON));
}

#[test]
fn wide_blocks_and_odd_values() {
    let a = random::<f64>(3, 7, 5);
    let f = Factored::new(a.view());
    let (q, r) = (f.times(Some(Array2::eye(7).view())), f.r());
    assert!(difference(&q.dot(&r), &a) < 1e-14 && r.slice(s![3.., ..]).iter().all(|x| *x == 0.0));
    let zero = Factored::new(Array2::<f64>::zeros((6, 4)).view());
    assert!(zero.r().iter().all(|x| *x == 0.0) && zero.times(None).iter().all(|x| x.is_finite()));
    let huge = random::<f64>(6, 4, 9) * 1e300;
    let f = Factored::new(huge.view());
    assert!(difference(&(f.times(None).dot(&(f.r() / 1e300))), &(huge / 1e300)) < 1e-14);
    let mut bad = random::<f64>(6, 4, 9);
    bad[[3, 1]] = f64::NAN;
    assert!(Factored::new(bad.view()).r().iter().any(|x| x.is_nan()));
}

#[test]
fn blocks_and_regions() {
    let (m, n) = (37usize, 5usize);
    let a = random::<f64>(m, n, 3);
    let whole = Factored::new(a.view());
    for rows in [AxisChunks::regular(37, 10), AxisChunks::from_list(vec![3, 20, 14]), AxisChunks::regular(37, 37)] {
        let blocks = rows.count();
        let inputs = [ArrayType::new(DType::Float64, vec![37, 5]), ArrayType::new(DType::Float64, vec![blocks * 5, 5])];
        let x = f64::wrap(a.clone().into_dyn().into_shared());
        let run = |factor, given: &[Block], shape: Vec<u64>, region: &Region| {
            let kernel = Kernel::Qr(Qr { factor, rows: rows.clone() });
            let output = ArrayType::new(DType::Float64, shape);
            let node = Node { kernel: &kernel, inputs: &inputs[..given.len()], output: &output };
            node.check().unwrap();
            let parts: Vec<Part> =
                node.demand(region, None).into_iter().map(|d| Part { block: given[d.input].slice(&d.region), region: d.region }).collect();
            let block = node.compute(region, &parts).unwrap();
            assert_eq!(block.shape()[..], region.shape[..]);
            f64::unwrap(&block).unwrap().clone()
        };
        let all = Region::full(&[blocks, 5, 5]);
        let stack = run(Factor::R, std::slice::from_ref(&x), vec![blocks, 5, 5], &all);
        let part = Region::new([blocks - 1, 1, 2], [1, 3, 2]);
        let piece = run(Factor::R, std::slice::from_ref(&x), vec![blocks, 5, 5], &part);
        assert_eq!(piece, stack.slice(s![blocks as usize - 1.., 1..4, 2..4]).into_dyn());
        let stack = stack.into_owned().into_shape_with_order((blocks as usize * 5, 5)).unwrap();
        let top = Factored::new(stack.view());
        assert!(difference(&top.r(), &whole.r()) < 1e-14);
        let t = f64::wrap(top.times(None).as_standard_layout().into_owned().into_dyn().into_shared());
        let q = run(Factor::Q, &[x.clone(), t.clone()], vec![37, 5], &Region::full(&[37, 5]));
        assert!(difference(&q.clone().into_owned().into_dimensionality::<Ix2>().unwrap(), &whole.times(None)) < 1e-13);
        let part = Region::new([8, 1], [17, 3]);
        assert_eq!(run(Factor::Q, &[x, t], vec![37, 5], &part), q.slice(s![8..25, 1..4]).into_dyn());
    }
}

#[test]
fn what_is_refused() {
    let (a, b) = (ty(DType::Float64, &[4, 2]), ty(DType::Float64, &[4, 2]));
    let of = |factor, rows| Kernel::Qr(Qr { factor, rows });
    let two = || AxisChunks::regular(4, 2);
    assert!(check(&of(Factor::R, two()), std::slice::from_ref(&a), DType::Float64, &[2, 2, 2]).is_ok());
    assert!(check(&of(Factor::Q, two()), &[a.clone(), b.clone()], DType::Float64, &[4, 2]).is_ok());
    assert!(check(&of(Factor::R, two()), &[a.clone(), b.clone()], DType::Float64, &[2, 2, 2]).is_err());
    assert!(check(&of(Factor::R, two()), std::slice::from_ref(&a), DType::Float64, &[3, 2, 2]).is_err());
    assert!(check(&of(Factor::R, two()), std::slice::from_ref(&a), DType::Float32, &[2, 2, 2]).is_err());
    assert!(check(&of(Factor::R, two()), &[ty(DType::Int64, &[4, 2])], DType::Int64, &[2, 2, 2]).is_err());
    assert!(check(&of(Factor::R, two()), &[ty(DType::Float64, &[4])], DType::Float64, &[2, 2, 2]).is_err());
    assert!(check(&of(Factor::Q, two()), &[a.clone(), ty(DType::Float64, &[6, 2])], DType::Float64, &[4, 2]).is_err());
    assert!(check(&of(Factor::Q, two()), &[], DType::Float64, &[4, 2]).is_err());
    for rows in [AxisChunks::regular(5, 2), AxisChunks::Regular { len: 4, size: 0 }, AxisChunks::Irregular(vec![4, u64::MAX])] {
        assert!(check(&of(Factor::R, rows.clone()), std::slice::from_ref(&a), DType::Float64, &[2, 2, 2]).is_err(), "{rows:?}");
    }
}

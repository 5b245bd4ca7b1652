//! Products of matrices against plain loops: sides around those of the blocks, layouts, threads, both halves.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::Cores;
use fastrand::Rng;
use ndarray::Array2;
use std::cell::RefCell;

fn values<T>(rows: usize, columns: usize, seed: usize, make: impl Fn(usize) -> T) -> Array2<T> {
    Array2::from_shape_fn((rows, columns), |(i, j)| make((i * 31 + j * 17 + i * j + seed) % 97))
}

fn plain<T: Product>(c: &mut Array2<T>, a: ArrayView2<'_, T>, b: ArrayView2<'_, T>) {
    for i in 0..a.nrows() {
        for k in 0..a.ncols() {
            for j in 0..b.ncols() {
                c[[i, j]] = c[[i, j]].plus(a[[i, k]].times(b[[k, j]]));
            }
        }
    }
}

fn compare<T: Product + PartialEq + std::fmt::Debug>(make: impl Fn(usize) -> T + Copy) {
    let shapes = [
        (1, 1, 1),
        (1, 9, 3),
        (7, 1, 300),
        (8, 128, 16),
        (13, 33, 65),
        (65, 130, 257),
        (130, 70, 513),
        (300, 270, 40),
        (530, 20, 600),
        (140, 30, 3200),
        (97, 2, 530),
        (3, 0, 5),
    ];
    for (turn, (m, n, k)) in shapes.into_iter().enumerate() {
        let (a, at) = (values(m, k, turn, make), values(k, m, turn, make));
        let (b, bt) = (values(k, n, 5 * turn, make), values(n, k, 5 * turn, make));
        for (a, b) in [(a.view(), b.view()), (at.t(), b.view()), (a.view(), bt.t()), (at.t(), bt.t()), (a.slice(s![..;-1, ..]), b.view())] {
            let mut want = values(m, n, 3, make);
            let (mut got, mut turned) = (want.clone(), want.t().as_standard_layout().into_owned());
            plain(&mut want, a, b);
            matmul(got.view_mut(), a, b, false, 8);
            assert_eq!(got, want, "{m} {n} {k}");
            matmul(turned.view_mut().reversed_axes(), a, b, false, 8);
            assert_eq!(turned.t(), want, "{m} {n} {k}");
        }
        let zeros = Array2::from_elem((m, m), T::default());
        let (mut want, across) = (zeros.clone(), a.t().as_standard_layout().into_owned());
        plain(&mut want, a.view(), a.t());
        for a in [a.view(), across.t()] {
            let (mut got, mut turned) = (zeros.clone(), zeros.clone());
            matmul(got.view_mut(), a, a.reversed_axes(), true, 8);
            mirror(got.view_mut());
            assert_eq!(got, want, "{m} {k} symmetric");
            matmul(turned.view_mut().reversed_axes(), a, a.reversed_axes(), true, 8);
            mirror(turned.view_mut().reversed_axes());
            assert_eq!(turned, want, "{m} {k} symmetric");
        }
    }
}

#[test]
fn products_agree_with_loops() {
    let run = || {
        compare(|i| i as f64 - 48.0);
        compare(|i| (i % 9) as f32 - 4.0);
        compare(|i| Complex32::new((i % 5) as f32 - 2.0, (i % 3) as f32));
        compare(|i| Complex64::new((i % 5) as f64 - 2.0, (i % 7) as f64));
        compare(|i| (i * 5) as i8);
        compare(|i| (i * 900) as u16);
        compare(|i| (i * 50_000_000) as i32);
        compare(|i| (i as u64) << 57);
        compare(|i| i % 11 == 0);
    };
    run();
    let cores = Cores::new(3);
    let _task = cores.enter();
    run();
}

fn same_bits<T: Product + PartialEq + std::fmt::Debug>(make: impl Fn(f64) -> T + Copy) {
    let rng = RefCell::new(Rng::with_seed(7));
    let random = |rows: usize, columns: usize| Array2::from_shape_simple_fn((rows, columns), || make(rng.borrow_mut().f64() - 0.3));
    let shapes = [
        (1, 40, 900),
        (530, 1, 600),
        (65, 130, 257),
        (130, 70, 1513),
        (300, 271, 40),
        (530, 20, 600),
        (140, 30, 3200),
        (3, 1500, 700),
        (577, 3, 530),
    ];
    for (m, n, k) in shapes {
        let (a, b, start) = (random(m, k), random(k, n), random(m, n));
        let product = |cores: usize| {
            let cores = Cores::new(cores);
            let (_task, mut c, mut square) = (cores.enter(), start.clone(), Array2::from_elem((m, m), T::default()));
            matmul(c.view_mut(), a.view(), b.view(), false, 8);
            matmul(square.view_mut(), a.view(), a.t(), true, 8);
            mirror(square.view_mut());
            (c, square)
        };
        let alone = product(1);
        for cores in [2, 3, 8] {
            assert!(product(cores) == alone, "{m} {n} {k} on {cores} cores");
        }
    }
}

#[test]
fn products_have_the_same_bits_on_every_number_of_cores() {
    same_bits(|x| x);
    same_bits(|x| x as f32);
    same_bits(|x| Complex32::new(x as f32, 1.0 - x as f32));
    same_bits(|x| Complex64::new(x, 1.0 / (x + 1.0)));
}

#[test]
fn panels_of_symmetric_products_are_inside_their_bound() {
    for rows in triangle::STEP + 1..=triangle::SIDE {
        for summed in [1, 2, 16, 511, 512, 513, 5000] {
            for item in [4, 8, 16] {
                let operands = (2 * rows * summed * item) as u64;
                let packed = (triangle::packed(rows, summed) * item) as u64;
                assert!(packed <= panels(operands), "{rows} {summed} {item}");
            }
        }
    }
}

//! Contractions against naive loops, over random labels, layouts, windows and orders.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::reduce::tests::{block_of, random_region, tiles};
use crate::{Kernel, Node};
use chunkwise_types::unravel;
use chunkwise_types::volume;
use fastrand::Rng;
use num_complex::{Complex32, Complex64};

fn run<T: Product>(rng: &mut Rng, make: impl Fn(&mut Rng) -> T) {
    let sizes: Vec<u64> = (0..5).map(|_| 1 + rng.u64(..6)).collect();
    let pick = |rng: &mut Rng, chance: u64| {
        let mut labels: Vec<u32> = (0..5).filter(|_| rng.u64(..10) < chance).collect();
        rng.shuffle(&mut labels);
        labels
    };
    let (a, b) = (pick(rng, 6), pick(rng, 6));
    let mut out: Vec<u32> = (0..5).filter(|l| (a.contains(l) || b.contains(l)) && rng.u64(..2) == 0).collect();
    rng.shuffle(&mut out);
    let shape = |labels: &[u32]| labels.iter().map(|&l| sizes[l as usize]).collect::<Vec<u64>>();
    let dims = |labels: &[u32]| IxDyn(&labels.iter().map(|&l| sizes[l as usize] as usize).collect::<Vec<_>>());
    let x = ArrayD::from_shape_fn(dims(&a), |_| make(rng));
    let y = ArrayD::from_shape_fn(dims(&b), |_| make(rng));
    let inputs = [ArrayType::new(T::DTYPE, shape(&a)), ArrayType::new(T::DTYPE, shape(&b))];
    let output = ArrayType::new(T::DTYPE, shape(&out));
    let contract = Contract { a: a.clone(), b: b.clone(), out: out.clone(), segments: None };
    let kernel = Kernel::Contract(contract.clone());
    let node = Node { kernel: &kernel, inputs: &inputs, output: &output };
    let region = random_region(rng, &output.shape);
    let mut fold = node.start_fold(&region).unwrap();
    let lengths = node.contracted();
    for w in tiles(rng, &Region::full(&lengths)) {
        let window: Window = w.start.iter().copied().zip(w.shape.iter().copied()).collect();
        // A step comes as one piece or as tiles of the output.
        let pieces = if rng.u64(..2) == 0 { tiles(rng, &region) } else { vec![region.clone()] };
        for piece in pieces {
            let d = node.demand(&piece, Some(&window));
            let parts = [
                Part { block: block_of(rng, &x, &d[0].region), region: d[0].region.clone() },
                Part { block: block_of(rng, &y, &d[1].region), region: d[1].region.clone() },
            ];
            fold.fold(&parts).unwrap();
        }
    }
    let block = fold.finish().unwrap();
    assert_eq!(block.shape()[..], region.shape[..]);
    let got = T::unwrap(&block).unwrap();
    let contracted = contract.contracted();
    for (k, &got) in got.iter().enumerate() {
        let at = unravel(k as u64, &region.shape);
        let mut want = T::default();
        for s in 0..volume(&lengths) {
            let inner = unravel(s, &lengths);
            let index = |labels: &[u32]| {
                let of = |&l: &u32| match place(&out, l) {
                    Some(i) => (at[i] + region.start[i]) as usize,
                    None => inner[place(&contracted, l).unwrap()] as usize,
                };
                IxDyn(&labels.iter().map(of).collect::<Vec<_>>())
            };
            want = want.plus(x[index(&a)].times(y[index(&b)]));
        }
        assert_eq!(got, want, "{contract:?} {sizes:?} {region}");
    }
}

#[test]
fn contractions_agree_with_loops() {
    for seed in 1..600u64 {
        let rng = &mut Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        // Small whole numbers: every order of summation gives the same.
        run::<f64>(rng, |r| r.u64(..7) as f64 - 3.0);
        run::<f32>(rng, |r| r.u64(..5) as f32 - 2.0);
        run::<Complex32>(rng, |r| Complex32::new(r.u64(..3) as f32 - 1.0, r.u64(..3) as f32));
        run::<Complex64>(rng, |r| Complex64::new(r.u64(..3) as f64 - 1.0, r.u64(..3) as f64));
        run::<i8>(rng, |r| r.u64(..) as i8);
        run::<u32>(rng, |r| r.u64(..) as u32);
        run::<bool>(rng, |r| r.u64(..3) == 0);
    }
}

#[test]
fn bad_labels_are_refused() {
    let t = |shape: &[u64]| ArrayType::new(DType::Float64, shape.to_vec());
    let check = |a: &[u32], b: &[u32], out: &[u32], inputs: &[ArrayType]| {
        Contract { a: a.to_vec(), b: b.to_vec(), out: out.to_vec(), segments: None }.check(inputs).is_ok()
    };
    assert!(check(&[0, 1], &[1, 2], &[0, 2], &[t(&[2, 3]), t(&[3, 4])]));
    assert!(!check(&[0, 0], &[1, 2], &[0, 2], &[t(&[2, 2]), t(&[3, 4])]));
    assert!(!check(&[0, 1], &[1, 2], &[0, 3], &[t(&[2, 3]), t(&[3, 4])]));
    assert!(!check(&[0, 1], &[1, 2], &[0, 2], &[t(&[2, 3]), t(&[4, 4])]));
    assert!(!check(&[0], &[1, 2], &[0, 2], &[t(&[2, 3]), t(&[3, 4])]));
}

#[test]
fn segments_are_the_sums_of_their_ranges() {
    let c = Contract { a: vec![1, 0], b: vec![1, 2], out: vec![0, 2], segments: Some((1, AxisChunks::from_list(vec![3, 1, 4]))) };
    let inputs = [ArrayType::new(DType::Float64, vec![8, 2]), ArrayType::new(DType::Float64, vec![8, 3])];
    let output = ArrayType::new(DType::Float64, vec![3, 2, 3]);
    let block = |columns: u64| {
        let data: Vec<f64> = (0..8 * columns).map(|i| (i * i % 17) as f64).collect();
        f64::wrap(crate::block::from_vec(&[8, columns], data))
    };
    let (a, b) = (block(2), block(3));
    // Two of the three segments, in windows that do not end where the segments do.
    let region = Region::new([1, 0, 0], [2, 2, 3]);
    assert_eq!(c.window(&inputs, &region), vec![(3, 5)]);
    let mut fold = c.start(&inputs, &output, &region).unwrap();
    for (start, len) in [(3, 2), (5, 3)] {
        let parts: Vec<Part> = c
            .demand(&region, &vec![(start, len)])
            .into_iter()
            .map(|d| Part { block: if d.input == 0 { &a } else { &b }.slice(&d.region), region: d.region })
            .collect();
        fold.fold(&parts).unwrap();
    }
    let got = fold.finish().unwrap();
    let got = f64::unwrap(&got).unwrap();
    let (a, b) = (f64::unwrap(&a).unwrap(), f64::unwrap(&b).unwrap());
    for (s, range) in [3..4, 4..8].into_iter().enumerate() {
        for i in 0..2 {
            for j in 0..3 {
                let want: f64 = range.clone().map(|k| a[[k, i]] * b[[k, j]]).sum();
                assert_eq!(got[[s, i, j]], want, "{s} {i} {j}");
            }
        }
    }
}

#[test]
fn what_is_refused() {
    use crate::check::tests::{check, ty};
    let x = [ty(DType::Float64, &[4, 6]), ty(DType::Float64, &[6, 3])];
    let of = |a: &[u32], b: &[u32], out: &[u32], segments: Option<(u32, AxisChunks)>| {
        Kernel::Contract(Contract { a: a.to_vec(), b: b.to_vec(), out: out.to_vec(), segments })
    };
    let product = of(&[0, 1], &[1, 2], &[0, 2], None);
    assert!(check(&product, &x, DType::Float64, &[4, 3]).is_ok());
    assert!(check(&product, &x, DType::Float32, &[4, 3]).is_err() && check(&product, &x[..1], DType::Float64, &[4, 3]).is_err());
    for shape in [&[4, 9][..], &[4], &[], &[3, 4], &[1, 4, 3]] {
        assert!(check(&product, &x, DType::Float64, shape).unwrap_err().contains("makes [4, 3]"), "{shape:?}");
    }
    assert!(check(&of(&[0, 1], &[1, 2], &[2], None), &x, DType::Float64, &[3]).is_ok());
    for bad in [
        of(&[0], &[1, 2], &[0, 2], None),
        of(&[0, 0], &[1, 2], &[0, 2], None),
        of(&[0, 1], &[0, 2], &[1, 2], None),
        of(&[0, 1], &[1, 2], &[0, 7], None),
        of(&[0, 1], &[1, 2], &[0, 0], None),
    ] {
        assert!(check(&bad, &x, DType::Float64, &[4, 3]).is_err(), "{bad:?}");
    }
    assert!(check(&product, &[x[0].clone(), ty(DType::Float32, &[6, 3])], DType::Float64, &[4, 3]).is_err());
    let cut = |label, cuts| of(&[0, 1], &[1, 2], &[0, 2], Some((label, cuts)));
    let two = || AxisChunks::Irregular(vec![4, 2]);
    assert!(check(&cut(1, two()), &x, DType::Float64, &[2, 4, 3]).is_ok());
    assert!(check(&cut(1, two()), &x, DType::Float64, &[3, 4, 3]).is_err() && check(&cut(1, two()), &x, DType::Float64, &[4, 3]).is_err());
    for (label, cuts) in [
        (7, two()),
        (0, AxisChunks::regular(4, 2)),
        (1, AxisChunks::Irregular(vec![4, 9])),
        (1, AxisChunks::Irregular(vec![6, 0])),
        (1, AxisChunks::Regular { len: 6, size: 0 }),
        (1, AxisChunks::Irregular(vec![u64::MAX, 7])),
    ] {
        assert!(check(&cut(label, cuts.clone()), &x, DType::Float64, &[2, 4, 3]).is_err(), "{label} {cuts:?}");
    }
}

#[test]
fn an_array_with_itself_agrees_with_its_copy() {
    // Batch labels, several rows, transposed outputs, contracted labels in front and behind; steps that are symmetric and some that are not.
    type Case = (&'static [u32], &'static [u32], &'static [u32], &'static [u64]);
    let cases: [Case; 7] = [
        (&[0, 1], &[0, 2], &[1, 2], &[40, 150]),
        (&[1, 0], &[2, 0], &[2, 1], &[150, 40]),
        (&[3, 0, 1], &[3, 0, 2], &[3, 1, 2], &[3, 5, 7]),
        (&[0, 1, 3], &[0, 2, 4], &[1, 3, 2, 4], &[6, 5, 4]),
        (&[0, 1, 3], &[0, 2, 4], &[1, 2, 3, 4], &[6, 5, 4]),
        (&[0, 5, 1], &[0, 6, 2], &[1, 2], &[6, 5, 4]),
        (&[0, 1, 3], &[0, 2, 4], &[4, 2, 3, 1], &[6, 5, 4]),
    ];
    for (a, b, out, shape) in cases {
        for skewed in [false, true] {
            let c = Contract { a: a.to_vec(), b: b.to_vec(), out: out.to_vec(), segments: None };
            let inputs = [ArrayType::new(DType::Int64, shape.to_vec()), ArrayType::new(DType::Int64, shape.to_vec())];
            let length = |l: u32| place(a, l).map_or_else(|| shape[place(b, l).unwrap()], |i| shape[i]);
            let output = ArrayType::new(DType::Int64, out.iter().map(|&l| length(l)).collect());
            let data: Vec<i64> = (0..volume(shape) as i64).map(|i| i * i % 1009 - 400).collect();
            let x = i64::wrap(crate::block::from_vec(shape, data.clone()));
            let copy = i64::wrap(crate::block::from_vec(shape, data));
            let whole = Region::full(&output.shape);
            let (mut same, mut apart) = (c.start(&inputs, &output, &whole).unwrap(), c.start(&inputs, &output, &whole).unwrap());
            let windows: Vec<Window> = {
                let lengths = c.contracted_lengths(&inputs);
                let rest: Window = lengths[1..].iter().map(|&n| (0, n)).collect();
                let cut = |s, n| [vec![(s, n)], rest.clone()].concat();
                vec![cut(0, 2), cut(2, lengths[0] - 2)]
            };
            for (step, window) in windows.iter().enumerate() {
                let parts = |second: &Block| -> Vec<Part> {
                    let from = |input| if input == 0 { &x } else { second };
                    let demands = c.demand(&whole, window).into_iter();
                    demands.map(|d| Part { block: from(d.input).slice(&d.region), region: d.region }).collect()
                };
                same.fold(&parts(if skewed && step == 1 { &copy } else { &x })).unwrap();
                apart.fold(&parts(&copy)).unwrap();
            }
            let (same, apart) = (same.finish().unwrap(), apart.finish().unwrap());
            assert_eq!(i64::unwrap(&same).unwrap(), i64::unwrap(&apart).unwrap(), "{a:?} {b:?} {out:?} {skewed}");
        }
    }
}

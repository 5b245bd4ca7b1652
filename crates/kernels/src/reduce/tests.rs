//! Reductions and groups against naive loops, over random shapes, layouts, tilings and orders.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::{ArrayType, Block, BlockElement, Kernel, Node, Part, ReduceOp};
use chunkwise_types::{AxisChunks, DType, Region, unravel, volume};
use fastrand::Rng;
use ndarray::{ArrayD, Axis, IxDyn, Slice};
use num_complex::Complex32;

/// Cuts a region at random into tiles, shuffled.
pub(crate) fn tiles(rng: &mut Rng, region: &Region) -> Vec<Region> {
    let mut out = vec![region.clone()];
    for axis in 0..region.rank() {
        for _ in 0..rng.u64(..3) {
            out = out
                .into_iter()
                .flat_map(|r| {
                    if r.shape[axis] < 2 {
                        return vec![r];
                    }
                    let k = 1 + rng.u64(..r.shape[axis] - 1);
                    let (mut a, mut b) = (r.clone(), r.clone());
                    a.shape[axis] = k;
                    (b.start[axis], b.shape[axis]) = (r.start[axis] + k, r.shape[axis] - k);
                    vec![a, b]
                })
                .collect();
        }
    }
    rng.shuffle(&mut out);
    out
}

/// The elements of a region in a random memory layout: transposed, reversed or with gaps.
pub(crate) fn block_of<T: BlockElement>(rng: &mut Rng, all: &ArrayD<T>, region: &Region) -> Block {
    let mut v = all.view();
    for i in 0..region.rank() {
        v.slice_axis_inplace(Axis(i), Slice::from(region.start[i] as usize..region.end(i) as usize));
    }
    let mut order: Vec<usize> = (0..region.rank()).collect();
    if rng.u64(..2) == 0 {
        rng.shuffle(&mut order);
    }
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, &o)| back[o] = i);
    let gaps: Vec<usize> = order.iter().map(|_| if rng.u64(..4) == 0 { 2 } else { 1 }).collect();
    let flip: Vec<bool> = order.iter().map(|_| rng.u64(..4) == 0).collect();
    let p = v.permuted_axes(IxDyn(&order));
    let mut big = ArrayD::<T>::default(IxDyn(&p.shape().iter().zip(&gaps).map(|(n, g)| n * g).collect::<Vec<_>>()));
    for (i, _) in flip.iter().enumerate().filter(|(_, f)| **f) {
        big.invert_axis(Axis(i));
    }
    let mut big = big.into_shared();
    for (i, &g) in gaps.iter().enumerate() {
        big.slice_axis_inplace(Axis(i), Slice::new(0, None, g as isize));
    }
    big.assign(&p);
    T::wrap(big.permuted_axes(IxDyn(&back)))
}

pub(crate) fn random_region(rng: &mut Rng, shape: &[u64]) -> Region {
    let (start, shape) = shape
        .iter()
        .map(|&n| {
            let s = rng.u64(..n);
            (s, 1 + rng.u64(..n - s))
        })
        .unzip();
    Region { start, shape }
}

fn as_f64(b: &Block) -> Vec<f64> {
    match b {
        Block::Bool(a) => a.iter().map(|&x| f64::from(u8::from(x))).collect(),
        Block::Int64(a) => a.iter().map(|&x| x as f64).collect(),
        Block::UInt64(a) => a.iter().map(|&x| x as f64).collect(),
        Block::Int32(a) => a.iter().map(|&x| f64::from(x)).collect(),
        Block::UInt8(a) => a.iter().map(|&x| f64::from(x)).collect(),
        Block::Float32(a) => a.iter().map(|&x| f64::from(x)).collect(),
        Block::Float64(a) => a.iter().copied().collect(),
        other => panic!("{}", other.dtype()),
    }
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

/// Naive reduction of `(position, value)` in C order.
fn naive(op: ReduceOp, xs: &[(u64, f64)]) -> Vec<f64> {
    let pick = |better: &dyn Fn(f64, f64) -> bool| {
        let mut best: Option<(u64, f64)> = None;
        for &(p, x) in xs {
            best = match best {
                None => Some((p, x)),
                Some((_, v)) if !v.is_nan() && (x.is_nan() || better(x, v)) => Some((p, x)),
                old => old,
            };
        }
        best
    };
    let flag = |b: bool| f64::from(u8::from(b));
    vec![match op {
        ReduceOp::Sum => xs.iter().map(|x| x.1).sum(),
        ReduceOp::Prod => xs.iter().map(|x| x.1).product(),
        ReduceOp::Min => pick(&|x, v| x < v).map_or(f64::NAN, |x| x.1),
        ReduceOp::Max => pick(&|x, v| x > v).map_or(f64::NAN, |x| x.1),
        ReduceOp::Any => flag(xs.iter().any(|x| x.1 != 0.0)),
        ReduceOp::All => flag(xs.iter().all(|x| x.1 != 0.0)),
        ReduceOp::CountNonzero => xs.iter().filter(|x| x.1 != 0.0).count() as f64,
        ReduceOp::ArgMin => pick(&|x, v| x < v).unwrap().0 as f64,
        ReduceOp::ArgMax => pick(&|x, v| x > v).unwrap().0 as f64,
        ReduceOp::Mean { skip_nan } => {
            let used: Vec<f64> = xs.iter().map(|x| x.1).filter(|x| !(skip_nan && x.is_nan())).collect();
            used.iter().sum::<f64>() / used.len() as f64
        }
        ReduceOp::Moments { skip_nan } => {
            let used: Vec<f64> = xs.iter().map(|x| x.1).filter(|x| !(skip_nan && x.is_nan())).collect();
            let n = used.len() as f64;
            let mean = if n == 0.0 { 0.0 } else { used.iter().sum::<f64>() / n };
            return vec![n, mean, used.iter().map(|x| (x - mean) * (x - mean)).sum()];
        }
        ReduceOp::MergeMoments => unreachable!(),
    }]
}

const OPS: [ReduceOp; 13] = [
    ReduceOp::Sum,
    ReduceOp::Prod,
    ReduceOp::Min,
    ReduceOp::Max,
    ReduceOp::Any,
    ReduceOp::All,
    ReduceOp::CountNonzero,
    ReduceOp::ArgMin,
    ReduceOp::ArgMax,
    ReduceOp::Moments { skip_nan: false },
    ReduceOp::Moments { skip_nan: true },
    ReduceOp::Mean { skip_nan: false },
    ReduceOp::Mean { skip_nan: true },
];

fn run<T: BlockElement>(rng: &mut Rng, make: impl Fn(&mut Rng) -> T, real: impl Fn(T) -> f64) {
    let rank = 1 + rng.u64(..3) as usize;
    let shape: Vec<u64> = (0..rank).map(|_| 1 + rng.u64(..if rank == 1 { 600 } else { 14 })).collect();
    let all = ArrayD::from_shape_fn(IxDyn(&shape.iter().map(|&n| n as usize).collect::<Vec<_>>()), |_| make(rng));
    let axes: Vec<usize> = (0..rank).filter(|_| rng.u64(..2) == 0).collect();
    let op = OPS[rng.usize(..OPS.len())];
    let segments: Option<Vec<AxisChunks>> = (rng.u64(..2) == 0).then(|| {
        axes.iter()
            .map(|&a| {
                let mut left = shape[a];
                let mut list = Vec::new();
                while left > 0 {
                    let n = 1 + rng.u64(..left.min(6));
                    list.push(n);
                    left -= n;
                }
                AxisChunks::from_list(list)
            })
            .collect()
    });
    let input = ArrayType::new(T::DTYPE, shape.clone());
    let mut out: Vec<u64> = Vec::new();
    for (i, &n) in shape.iter().enumerate() {
        match (axes.iter().position(|&a| a == i), &segments) {
            (None, _) => out.push(n),
            (Some(k), Some(s)) => out.push(s[k].count()),
            _ => {}
        }
    }
    let moments = op.parts().is_some();
    out.extend(op.parts());
    let output = ArrayType::new(op.result_dtype(T::DTYPE).unwrap(), out.clone());
    let kernel = Kernel::Reduce { function: op, axes: axes.clone(), segments: segments.clone() };
    let inputs = [input];
    let node = Node { kernel: &kernel, inputs: &inputs, output: &output };
    let region = random_region(rng, &out);
    let demand = node.demand(&region, None).remove(0).region;
    let mut fold = node.start_fold(&region).unwrap();
    for t in tiles(rng, &demand) {
        let block = block_of(rng, &all, &t);
        fold.fold(&[Part { region: t, block }]).unwrap();
    }
    let block = fold.finish().unwrap();
    assert_eq!((block.dtype(), &block.shape()[..]), (output.dtype, &region.shape[..]));
    let got = as_f64(&block);

    let reduced: Vec<u64> = axes.iter().map(|&a| shape[a]).collect();
    for (k, got) in got.into_iter().enumerate() {
        let mut at: Vec<u64> = unravel(k as u64, &region.shape).iter().zip(&region.start).map(|(a, b)| a + b).collect();
        let which = if moments { at.pop().unwrap() as usize } else { 0 };
        let mut members = Vec::new();
        for p in 0..volume(&shape) {
            let index = unravel(p, &shape);
            let mut o = at.iter();
            let inside = (0..rank).all(|i| match (axes.iter().position(|&a| a == i), &segments) {
                (None, _) => *o.next().unwrap() == index[i],
                (Some(k), Some(s)) => s[k].find(index[i]) == *o.next().unwrap(),
                _ => true,
            });
            if inside {
                let pos = axes.iter().zip(&reduced).fold(0, |acc, (&a, &n)| acc * n + index[a]);
                let i: Vec<usize> = index.iter().map(|&x| x as usize).collect();
                members.push((pos, real(all[IxDyn(&i)])));
            }
        }
        let want = naive(op, &members)[which];
        assert!(same(got, want), "{op:?} {axes:?} {segments:?} {shape:?} {region}: {got} is not {want} of {members:?}");
    }
}

#[test]
fn reductions_agree_with_loops() {
    for seed in 1..1500u64 {
        let rng = &mut Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        run::<f64>(rng, |r| if r.u64(..40) == 0 { f64::NAN } else { r.u64(..9) as f64 / 4.0 - 1.0 }, |x| x);
        run::<f32>(rng, |r| r.u64(..8) as f32 / 4.0 - 0.75, f64::from);
        run::<i32>(rng, |r| if r.u64(..9) == 0 { -2 } else { r.u64(..3) as i32 - 1 }, f64::from);
        run::<u8>(rng, |r| r.u64(..2) as u8, f64::from);
        run::<bool>(rng, |r| r.u64(..3) > 0, |x| f64::from(u8::from(x)));
    }
}

fn fold_one(op: ReduceOp, dtype: DType, parts: &[Block]) -> Block {
    let n: u64 = parts.iter().map(|p| p.shape()[0]).sum();
    let inputs = [ArrayType::new(parts[0].dtype(), vec![n])];
    let output = ArrayType::new(dtype, if op.parts().is_some() { vec![3] } else { vec![] });
    let kernel = Kernel::Reduce { function: op, axes: vec![0], segments: None };
    let node = Node { kernel: &kernel, inputs: &inputs, output: &output };
    let mut fold = node.start_fold(&Region::full(&output.shape)).unwrap();
    let mut start = 0;
    for p in parts {
        let region = Region::new(vec![start], p.shape());
        start += p.shape()[0];
        fold.fold(&[Part { region, block: p.clone() }]).unwrap();
    }
    fold.finish().unwrap()
}

/// Reductions along the first axis, of rows so wide that columns are taken in blocks.
#[test]
fn wide_rows() {
    let rng = &mut Rng::with_seed(5);
    let units = [Complex32::new(1.0, 1.0), Complex32::new(0.0, -1.0), Complex32::new(-1.0, 0.0), Complex32::new(0.5, -0.5)];
    for (rows, columns) in [(1, 64), (3, 63), (8, 130), (9, 64), (17, 200), (40, 129)] {
        // Of these all sums are exact, and all products within their range.
        let all = ArrayD::from_shape_fn(IxDyn(&[rows, columns]), |_| units[rng.usize(..units.len())]);
        let fold = |op: ReduceOp, of: &dyn Fn(Complex32, Complex32) -> Complex32| {
            let kernel = Kernel::Reduce { function: op, axes: vec![0], segments: None };
            let inputs = [ArrayType::new(DType::Complex64, vec![rows as u64, columns as u64])];
            let output = ArrayType::new(DType::Complex64, vec![columns as u64]);
            let node = Node { kernel: &kernel, inputs: &inputs, output: &output };
            let mut fold = node.start_fold(&Region::full(&output.shape)).unwrap();
            fold.fold(&[Part { region: Region::full(&inputs[0].shape), block: Block::Complex64(all.clone().into_shared()) }]).unwrap();
            let Block::Complex64(got) = fold.finish().unwrap() else { panic!("{op:?}") };
            let want = all.columns().into_iter().map(|column| column.iter().copied().reduce(of).unwrap());
            assert!(got.iter().copied().eq(want), "{op:?} of {rows} rows of {columns}");
        };
        fold(ReduceOp::Sum, &|a, b| a + b);
        fold(ReduceOp::Prod, &|a, b| a * b);
    }
}

fn vector(xs: &[f64]) -> Block {
    Block::Float64(ndarray::ArcArray::from(xs.to_vec()).into_dyn().into_shared())
}

#[test]
fn sums_are_compensated_and_infinities_survive() {
    let parts: Vec<Block> = [1.0, 1e100, 1.0, -1e100].iter().map(|&x| vector(&[x])).collect();
    assert_eq!(as_f64(&fold_one(ReduceOp::Sum, DType::Float64, &parts)), [2.0]);
    let inf = fold_one(ReduceOp::Sum, DType::Float64, &[vector(&[1.0]), vector(&[f64::INFINITY]), vector(&[2.0])]);
    assert_eq!(as_f64(&inf), [f64::INFINITY]);
    let nan = fold_one(ReduceOp::Sum, DType::Float64, &[vector(&[f64::INFINITY]), vector(&[f64::NEG_INFINITY])]);
    assert!(as_f64(&nan)[0].is_nan());
    let m = fold_one(ReduceOp::Moments { skip_nan: false }, DType::Float64, &[vector(&[f64::INFINITY]), vector(&[f64::INFINITY, 1.0])]);
    assert_eq!(as_f64(&m)[1], f64::INFINITY);
    assert!(as_f64(&m)[2].is_nan());
}

/// Long runs, in which positions are found by pieces and lanes.
fn positions<T: BlockElement + PartialOrd>(rng: &mut Rng, make: impl Fn(&mut Rng) -> T) {
    for n in [1, 31, 63, 64, 65, 127, 128, 255, 256, 257, 300, 1000, 4101, 70_000] {
        for values in [1, 5, u64::MAX] {
            let some: Vec<T> = (0..values.min(n)).map(|_| make(rng)).collect();
            let xs: Vec<T> = (0..n).map(|_| some[rng.usize(..some.len())]).collect();
            let block = T::wrap(ndarray::ArcArray::from(xs.clone()).into_dyn());
            for (op, max) in [(ReduceOp::ArgMin, false), (ReduceOp::ArgMax, true)] {
                let best = |a: usize, i: usize| if (max && xs[i] > xs[a]) || (!max && xs[i] < xs[a]) { i } else { a };
                let nan = xs.iter().position(|x| x.partial_cmp(x).is_none());
                let want = nan.unwrap_or_else(|| (1..xs.len()).fold(0, best));
                assert_eq!(as_f64(&fold_one(op, DType::Int64, std::slice::from_ref(&block))), [want as f64], "{op:?} {:?} {n}", T::DTYPE);
            }
        }
    }
}

#[test]
fn positions_in_long_runs() {
    let rng = &mut Rng::with_seed(7);
    let odd = |r: &mut Rng| {
        let kinds = if r.u64(..99) == 0 { 6 } else { 5 };
        [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.5, f64::NAN][r.u64(..kinds) as usize]
    };
    let float = |r: &mut Rng| r.u64(..1 << 40) as f64 - 5e11;
    for _ in 0..4 {
        positions(rng, odd);
        positions(rng, |r| odd(r) as f32);
        positions(rng, float);
        positions(rng, |r| float(r) as f32);
        positions(rng, |r| r.u64(..) as i64);
        positions(rng, |r| r.u64(..));
        positions(rng, |r| r.u64(..) as i32);
        positions(rng, |r| r.u64(..) as u32);
        positions(rng, |r| r.u64(..) as i16);
        positions(rng, |r| r.u64(..) as u8);
        positions(rng, |r| r.u64(..2) == 0);
    }
}

#[test]
fn empty_extremes_are_errors_and_complex_ones_refused() {
    let node = |function, dtype, len| {
        let kernel = Kernel::Reduce { function, axes: vec![0], segments: None };
        let output = ArrayType::new(DType::Float64, vec![]);
        Node { kernel: &kernel, inputs: &[ArrayType::new(dtype, vec![len])], output: &output }.start_fold(&Region::full(&[])).is_err()
    };
    for op in [ReduceOp::Min, ReduceOp::Max, ReduceOp::ArgMin, ReduceOp::ArgMax] {
        assert!(node(op, DType::Float64, 0));
        assert!(node(op, DType::Complex64, 4));
    }
    assert!(!node(ReduceOp::Sum, DType::Float64, 0));
}

#[test]
fn merged_moments_are_those_of_the_whole() {
    let rng = &mut Rng::with_seed(77);
    for _ in 0..100 {
        let shape = [1 + rng.u64(..20), 1 + rng.u64(..9)];
        let all = ArrayD::from_shape_fn(IxDyn(&[shape[0] as usize, shape[1] as usize]), |_| 1e6 + rng.u64(..1000) as f64);
        let op = ReduceOp::Moments { skip_nan: false };
        let segments = vec![AxisChunks::regular(shape[0], 4)];
        let middle = ArrayType::new(DType::Float64, vec![segments[0].count(), shape[1], 3]);
        let output = ArrayType::new(DType::Float64, vec![shape[1], 3]);
        let inputs = [ArrayType::new(DType::Float64, shape.to_vec())];
        let first = Kernel::Reduce { function: op, axes: vec![0], segments: Some(segments) };
        let full = Region::full(&shape);
        let part = Part { region: full.clone(), block: block_of(rng, &all, &full) };
        let node = Node { kernel: &first, inputs: &inputs, output: &middle };
        let partial = node.compute(&Region::full(&middle.shape), std::slice::from_ref(&part)).unwrap();
        let whole = Kernel::Reduce { function: op, axes: vec![0], segments: None };
        let want = Node { kernel: &whole, inputs: &inputs, output: &output }.compute(&Region::full(&output.shape), &[part]).unwrap();
        let second = Kernel::Reduce { function: ReduceOp::MergeMoments, axes: vec![0], segments: None };
        let inputs = [middle];
        let node = Node { kernel: &second, inputs: &inputs, output: &output };
        let region = random_region(rng, &output.shape);
        let demand = node.demand(&region, None).remove(0).region;
        let Block::Float64(partial) = partial else { panic!() };
        let partial = partial.to_owned();
        let mut fold = node.start_fold(&region).unwrap();
        let mut cut = demand.clone();
        cut.start.pop();
        cut.shape.pop();
        for mut t in tiles(rng, &cut) {
            t.start.push(0);
            t.shape.push(3);
            fold.fold(&[Part { block: block_of(rng, &partial, &t), region: t }]).unwrap();
        }
        let Block::Float64(want) = want else { panic!() };
        let want = block_of(rng, &want.to_owned(), &region);
        for (a, b) in as_f64(&fold.finish().unwrap()).into_iter().zip(as_f64(&want)) {
            assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} {b}");
        }
    }
}

#[test]
fn groups_agree_with_loops() {
    for seed in 1..600u64 {
        let rng = &mut Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let rank = 1 + rng.u64(..3) as usize;
        let shape: Vec<u64> = (0..rank).map(|_| 1 + rng.u64(..12)).collect();
        let axis = rng.usize(..rank);
        let op = [&OPS[..7], &OPS[9..]].concat()[rng.u64(..11) as usize];
        let groups = 1 + rng.u64(..5);
        let run = 1 + rng.u64(..12);
        let labels: Vec<i64> = (0..shape[axis]).map(|i| ((i / run + seed) % (groups + 2)) as i64 - 1).collect();
        let all = ArrayD::from_shape_fn(IxDyn(&shape.iter().map(|&n| n as usize).collect::<Vec<_>>()), |_| match rng.u64(..8) {
            7 => f64::NAN,
            n => n as f64 - 3.0,
        });
        let mut out = shape.clone();
        out[axis] = groups;
        out.extend(op.parts());
        let inputs = [ArrayType::new(DType::Float64, shape.clone())];
        let output = ArrayType::new(op.result_dtype(DType::Float64).unwrap(), out.clone());
        let kernel = Kernel::Group { function: op, axis, labels: labels.clone(), groups };
        let node = Node { kernel: &kernel, inputs: &inputs, output: &output };
        let region = random_region(rng, &out);
        let demand = node.demand(&region, None).remove(0).region;
        let mut fold = node.start_fold(&region).unwrap();
        if !demand.is_empty() {
            for t in tiles(rng, &demand) {
                let block = block_of(rng, &all, &t);
                fold.fold(&[Part { region: t, block }]).unwrap();
            }
        }
        for (k, got) in as_f64(&fold.finish().unwrap()).into_iter().enumerate() {
            let mut at: Vec<u64> = unravel(k as u64, &region.shape).iter().zip(&region.start).map(|(a, b)| a + b).collect();
            let part = op.parts().and_then(|_| at.pop()).unwrap_or(0) as usize;
            let mut members = Vec::new();
            for (j, _) in labels.iter().enumerate().filter(|(_, l)| **l == at[axis] as i64) {
                let mut i: Vec<usize> = at.iter().map(|&x| x as usize).collect();
                i[axis] = j;
                members.push((j as u64, all[IxDyn(&i)]));
            }
            let want = naive(op, &members)[part];
            assert!(same(got, want), "{op:?} {shape:?} {axis} {labels:?} {region}: {got} is not {want}");
        }
    }
}

/// Means of groups that are long runs, more of them than 16 bits count: what is NaN in one group changes no bit of another.
#[test]
fn means_of_long_groups() {
    let (n, half) = (140_000, 70_000);
    let rng = &mut Rng::with_seed(7);
    let mut values = ArrayD::from_shape_fn(IxDyn(&[n]), |_| rng.u64(..1 << 30) as f64 / 3e8 - 1.0);
    let mean = |values: &ArrayD<f64>| {
        let labels = (0..n).map(|i| (i / half) as i64).collect();
        let kernel = Kernel::Group { function: ReduceOp::Mean { skip_nan: true }, axis: 0, labels, groups: 2 };
        let (inputs, output) = ([ArrayType::new(DType::Float64, vec![n as u64])], ArrayType::new(DType::Float64, vec![2]));
        let full = Region::full(&[n as u64]);
        let part = Part { block: block_of(&mut Rng::with_seed(1), values, &full), region: full };
        as_f64(&Node { kernel: &kernel, inputs: &inputs, output: &output }.compute(&Region::full(&[2]), &[part]).unwrap())
    };
    let whole = mean(&values);
    values[[5]] = f64::NAN;
    let some = mean(&values);
    assert_eq!(some[1].to_bits(), whole[1].to_bits());
    let left: f64 = values.iter().take(half).filter(|x| !x.is_nan()).sum();
    assert!((some[0] - left / (half - 1) as f64).abs() < 1e-12, "{} {}", some[0], left / (half - 1) as f64);
    values.iter_mut().take(half).for_each(|x| *x = f64::NAN);
    let none = mean(&values);
    assert!(none[0].is_nan() && none[1].to_bits() == whole[1].to_bits());
}

//! Random programs over random dtypes, shapes and layouts: fused, they give the same bits as one function after another on dense blocks.

use super::program::{Fused, FusedOp, Scratch};
use super::{ElementOp, Operand, compute};
use crate::{Block, BlockElement, ViewAxis, with_block, with_dtype};
use chunkwise_types::{DType, DTypeKind, Scalar};
use fastrand::Rng;
use ndarray::{ArcArray, Axis, IxDyn, Slice};
use proptest::prelude::*;

/// Random elements, of which many are special.
fn elements(rng: &mut Rng, dtype: DType, shape: &[usize]) -> Block {
    let mut one = || match rng.usize(..8) {
        0 => Scalar::Int(0),
        1 => Scalar::Float(*rng.choice(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300, 1e-310]).unwrap()),
        2 => Scalar::Complex(
            *rng.choice(&[f64::NAN, f64::INFINITY, -0.0, 1.5]).unwrap(),
            *rng.choice(&[f64::NAN, f64::NEG_INFINITY, 0.0, -2.5]).unwrap(),
        ),
        3 => Scalar::Int(*rng.choice(&[i128::from(i64::MIN), i128::from(u64::MAX), -1, 1, i128::from(i32::MIN), 127]).unwrap()),
        4 => Scalar::Int(rng.i128(-100..100)),
        _ => Scalar::Complex(rng.u64(..4000) as f64 / 500.0 - 4.0, rng.u64(..4000) as f64 / 500.0 - 4.0),
    };
    let n: usize = shape.iter().product();
    fn go<T: BlockElement>(n: usize, shape: &[usize], one: &mut dyn FnMut() -> Scalar) -> Block {
        let single = |s: Scalar| T::unwrap(&Block::splat(s, T::DTYPE, &[1])).unwrap()[[0]];
        let mut palette: Vec<T> = (0..97.min(n)).map(|_| single(one())).collect();
        palette.rotate_left(n % 97.min(n).max(1));
        T::wrap(ArcArray::from_shape_vec(IxDyn(shape), (0..n).map(|i| palette[i * 31 % palette.len()]).collect()).unwrap())
    }
    with_dtype!(dtype, T => go::<T>(n, shape, &mut one))
}

/// An operand of a shape, in a random layout.
fn operand(rng: &mut Rng, dtype: DType, shape: &[usize]) -> Operand {
    fn strided<T: BlockElement>(a: &ArcArray<T, IxDyn>, order: &[usize], steps: &[isize]) -> Block {
        let mut a = a.clone();
        for (i, &step) in steps.iter().enumerate() {
            a.slice_axis_inplace(Axis(i), Slice::new(0, None, step));
        }
        T::wrap(a.permuted_axes(IxDyn(order)))
    }
    let wide: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    match rng.usize(..6) {
        // Broadcast: some axes are new or of length 1.
        0 | 1 => {
            let kinds: Vec<usize> = shape.iter().map(|_| rng.usize(..3)).collect();
            let (mut own, mut axes) = (Vec::new(), Vec::new());
            for (&n, &kind) in shape.iter().zip(&kinds) {
                axes.push(if kind == 0 { ViewAxis::New } else { ViewAxis::In(own.len()) });
                if kind > 0 {
                    own.push(if kind == 1 { 1 } else { n });
                }
            }
            Operand::new(elements(rng, dtype, &own)).viewed(&axes, &wide).unwrap()
        }
        2 => Operand::splat(elements(rng, dtype, &[1]), &wide).unwrap(),
        3 => Operand::new(elements(rng, dtype, shape)),
        // Transposed, with steps or reversed.
        _ => {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            if rng.usize(..2) == 0 {
                order.reverse();
            }
            let mut back = vec![0; order.len()];
            order.iter().enumerate().for_each(|(k, &i)| back[i] = k);
            let steps: Vec<isize> = shape.iter().map(|_| *rng.choice(&[1, 1, 1, -1, 2, -3]).unwrap()).collect();
            let stored: Vec<usize> =
                order.iter().zip(&steps).map(|(&i, s)| (shape[i] * s.unsigned_abs()).saturating_sub(s.unsigned_abs() - 1)).collect();
            let block = elements(rng, dtype, &stored);
            Operand::new(with_block!(&block, a => strided(a, &back, &steps)))
        }
    }
}

/// The dense block that an operand shows.
fn dense(o: &Operand, shape: &[usize]) -> Block {
    let n = o.block().dtype();
    let copy = FusedOp { function: None, inputs: vec![0], dtype: n };
    let wide: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    Fused::new(&[n], &[copy], &[1]).unwrap().run(std::slice::from_ref(o), &wide, false, &mut Scratch::default()).unwrap().remove(0)
}

fn check(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let rank = rng.usize(..5);
    let mut shape: Vec<usize> = (0..rank).map(|_| *rng.choice(&[1, 2, 3, 7, 40, 300]).unwrap()).collect();
    while shape.iter().product::<usize>() > 30_000 {
        let i = rng.usize(..rank);
        shape[i] = 1 + shape[i] / 3;
    }
    if rng.usize(..30) == 0 && rank > 0 {
        shape[0] = 0;
    }
    let inputs: Vec<DType> = (0..1 + rng.usize(..4)).map(|_| *rng.choice(&DType::ALL).unwrap()).collect();
    let mut dtypes = inputs.clone();
    let mut ops: Vec<FusedOp> = Vec::new();
    for _ in 0..1 + rng.usize(..8) {
        let function = *rng.choice(ElementOp::ALL).unwrap();
        let chosen: Vec<usize> = (0..function.arity()).map(|_| rng.usize(..dtypes.len())).collect();
        let Ok((casts, out)) = function.result_dtype(&chosen.iter().map(|&i| dtypes[i]).collect::<Vec<_>>()) else { continue };
        // A negative exponent of an integer is refused: exponents are made from what is not negative.
        let exponent = (function == ElementOp::Pow && casts[1].kind() == DTypeKind::Signed).then(|| casts[1]);
        let mut cast = |(&i, to): (&usize, DType)| {
            if dtypes[i] == to {
                return i;
            }
            ops.push(FusedOp { function: None, inputs: vec![i], dtype: to });
            dtypes.push(to);
            dtypes.len() - 1
        };
        let mut args: Vec<usize> = chosen.iter().zip(casts).map(&mut cast).collect();
        if let Some(to) = exponent {
            let small = cast((&args[1], if to == DType::Int8 { DType::Bool } else { DType::UInt8 }));
            args[1] = cast((&small, to));
        }
        ops.push(FusedOp { function: Some(function), inputs: args, dtype: out });
        dtypes.push(out);
    }
    let outputs: Vec<usize> = (0..1 + rng.usize(..3)).map(|_| rng.usize(..dtypes.len())).chain([dtypes.len() - 1]).collect();
    let operands: Vec<Operand> = inputs.iter().map(|&d| operand(&mut rng, d, &shape)).collect();
    let mut values: Vec<Block> = operands.iter().map(|o| dense(o, &shape)).collect();
    // The gather itself, against ndarray's own reading of the view.
    for (o, v) in operands.iter().zip(&values).filter(|(o, _)| o.block().shape() == shape.iter().map(|&n| n as u64).collect::<Vec<_>>()) {
        assert_eq!(o.block().contiguous().as_bytes(), v.as_bytes());
    }
    for op in &ops {
        let args: Vec<&Block> = op.inputs.iter().map(|&i| &values[i]).collect();
        let value = match op.function {
            Some(f) => compute(&f, &args, op.dtype).unwrap(),
            None => crate::cast(args[0], op.dtype),
        };
        values.push(value);
    }
    let wide: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
    let program = Fused::new(&inputs, &ops, &outputs).unwrap();
    let mut scratch = Scratch::default();
    for any in [false, true, false] {
        let got = program.run(&operands, &wide, any, &mut scratch).unwrap();
        let most = program.scratch(wide.iter().product(), operands.len());
        assert!(scratch.bytes() <= most, "{} bytes, projected {most}, {ops:?} at {shape:?}, seed {seed}", scratch.bytes());
        for (&o, got) in outputs.iter().zip(&got) {
            assert_eq!((got.dtype(), got.shape()), (dtypes[o], wide.clone()));
            assert!(any || got.as_bytes().is_some());
            assert_eq!(got.contiguous().as_bytes(), values[o].contiguous().as_bytes(), "output {o} of {ops:?} at {shape:?}, seed {seed}");
        }
    }
}

#[test]
fn negative_exponents_are_refused_in_programs_too() {
    let ops = [FusedOp { function: Some(ElementOp::Pow), inputs: vec![0, 1], dtype: DType::Int32 }];
    let program = Fused::new(&[DType::Int32, DType::Int32], &ops, &[2]).unwrap();
    let block = |v: Vec<i32>| Operand::new(i32::wrap(ndarray::Array::from_vec(v).into_shared().into_dyn()));
    for (exponents, good) in [(vec![2, 0, 1], true), (vec![2, -1, 1], false)] {
        let got = program.run(&[block(vec![3, 4, 5]), block(exponents)], &[3], false, &mut Scratch::default());
        assert_eq!(got.is_ok(), good);
    }
}

#[test]
fn panels_of_transposed_blocks() {
    let dtypes = [DType::UInt8, DType::Int16, DType::Float32, DType::Float64, DType::Complex128];
    // Rows in one strip and in several, panels that do not divide the rows, outer axes, rows too long for a panel.
    for (seed, shape) in [vec![300, 300], vec![9, 5000], vec![2, 70, 259], vec![3, 17000], vec![1000, 256]].into_iter().enumerate() {
        for dtype in dtypes {
            let mut rng = Rng::with_seed(seed as u64 + 7);
            let rank = shape.len();
            let mut stored = shape.clone();
            stored.swap(rank - 1, rank - 2);
            let turned = elements(&mut rng, dtype, &stored);
            let (mut axes, wide): (Vec<ViewAxis>, Vec<u64>) = shape.iter().enumerate().map(|(i, &n)| (ViewAxis::In(i), n as u64)).unzip();
            axes.swap(rank - 1, rank - 2);
            let o = Operand::new(turned.clone()).viewed(&axes, &wide).unwrap();
            fn go<T: BlockElement>(a: &ArcArray<T, IxDyn>) -> Block {
                let mut a = a.clone();
                a.swap_axes(a.ndim() - 1, a.ndim() - 2);
                T::wrap(a)
            }
            let want = with_block!(&turned, a => go(a)).contiguous();
            assert_eq!(dense(&o, &shape).as_bytes(), want.as_bytes(), "{dtype} {shape:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn fused_programs_give_the_bits_of_single_functions(seed in any::<u64>()) {
        check(seed);
    }
}

#[test]
fn integer_division_by_floats_is_exact() {
    fn all<T: BlockElement + TryFrom<i64> + Into<i64>>(xs: &[i64]) {
        let pairs: Vec<(i64, i64)> = xs.iter().flat_map(|&a| xs.iter().map(move |&b| (a, b))).collect();
        let of = |f: fn(&(i64, i64)) -> i64| {
            let data: Vec<T> = pairs.iter().map(|p| T::try_from(f(p)).unwrap_or_default()).collect();
            T::wrap(ArcArray::from_shape_vec(IxDyn(&[data.len()]), data).unwrap())
        };
        let (a, b) = (of(|p| p.0), of(|p| p.1));
        let q = compute(&ElementOp::FloorDivide, &[&a, &b], T::DTYPE).unwrap();
        let r = compute(&ElementOp::Remainder, &[&a, &b], T::DTYPE).unwrap();
        let list = |x: &Block| T::unwrap(x).unwrap().iter().map(|&x| x.into()).collect::<Vec<i64>>();
        for (((a, b), q), r) in list(&a).into_iter().zip(list(&b)).zip(list(&q)).zip(list(&r)) {
            let exact = if b == 0 { 0 } else { a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0) };
            let exact = if T::try_from(exact).is_ok() { exact } else { -exact };
            assert_eq!(
                (q, r),
                (exact, if b == 0 { 0 } else { a - exact.wrapping_mul(b) - if exact == a && b == -1 { 2 * a } else { 0 } }),
                "{a} / {b}"
            );
        }
    }
    let mut xs: Vec<i64> = (-130..131).collect();
    for e in [14, 15, 16, 24, 31, 32] {
        xs.extend((-3..4).flat_map(|d| [(1i64 << e) + d, -(1i64 << e) + d, ((1i64 << e) / 3) * 2 + d]));
    }
    let within = |low: i64, high: i64| xs.iter().copied().filter(|x| (low..=high).contains(x)).collect::<Vec<_>>();
    all::<i8>(&within(-128, 127));
    all::<i16>(&within(-32768, 32767));
    all::<i32>(&within(i64::from(i32::MIN), i64::from(i32::MAX)));
    all::<u8>(&within(0, 255));
    all::<u16>(&within(0, 65535));
    all::<u32>(&within(0, i64::from(u32::MAX)));
}

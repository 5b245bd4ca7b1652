use super::*;
use crate::BlockElement;
use crate::block::build;
use num_complex::{Complex32, Complex64};

fn block<T: BlockElement>(data: &[T]) -> Block {
    build(&[data.len()], data.to_vec()).unwrap()
}

fn list<T: BlockElement>(block: &Block) -> Vec<T> {
    T::unwrap(block).unwrap().iter().copied().collect()
}

/// Runs a function after the casts that it asks for.
fn run(op: ElementOp, inputs: &[Block]) -> Block {
    let dtypes: Vec<DType> = inputs.iter().map(Block::dtype).collect();
    let (casts, out) = op.result_dtype(&dtypes).unwrap();
    let cast: Vec<Block> = inputs.iter().zip(casts).map(|(b, d)| crate::cast(b, d)).collect();
    let got = compute(&op, &cast.iter().collect::<Vec<_>>(), out).unwrap();
    assert_eq!(got.dtype(), out, "{}", op.name());
    got
}

fn un<A: BlockElement, B: BlockElement>(op: ElementOp, a: &[A]) -> Vec<B> {
    list(&run(op, &[block(a)]))
}

fn bin<A: BlockElement, B: BlockElement, C: BlockElement>(op: ElementOp, a: &[A], b: &[B]) -> Vec<C> {
    list(&run(op, &[block(a), block(b)]))
}

#[test]
fn every_accepted_dtype_computes() {
    assert_eq!(ElementOp::ALL.len(), 67);
    for &op in ElementOp::ALL {
        let mut accepted = 0;
        for a in DType::ALL {
            for b in DType::ALL {
                let dtypes = [DType::Bool, a, b];
                let dtypes = if op.arity() == 3 { &dtypes[..] } else { &dtypes[1..=op.arity()] };
                let Ok((casts, out)) = op.result_dtype(dtypes) else { continue };
                accepted += 1;
                let blocks: Vec<Block> = casts.iter().map(|&d| Block::zeros(d, &[3, 2])).collect();
                let got = compute(&op, &blocks.iter().collect::<Vec<_>>(), out);
                let got = got.unwrap_or_else(|e| panic!("{} of {a} and {b}: {e}", op.name()));
                assert_eq!((got.dtype(), got.shape()), (out, vec![3, 2]), "{} of {a} and {b}", op.name());
            }
        }
        assert!(accepted > 0, "{}", op.name());
    }
}

#[test]
fn dtypes() {
    use DType::*;
    let out = |op: ElementOp, d: &[DType]| op.result_dtype(d).map(|r| r.1).ok();
    assert_eq!(out(ElementOp::Add, &[Int32, Float32]), Some(Float64));
    assert_eq!(out(ElementOp::Divide, &[Int8, UInt8]), Some(Float64));
    assert_eq!(out(ElementOp::Abs, &[Complex64]), Some(Float32));
    assert_eq!(out(ElementOp::Floor, &[Int16]), Some(Int16));
    assert_eq!(out(ElementOp::Where, &[Bool, UInt32, Int32]), Some(Int64));
    assert_eq!(out(ElementOp::Less, &[Float32, Int8]), Some(Bool));
    for (op, d) in [
        (ElementOp::Subtract, &[Bool, Bool][..]),
        (ElementOp::Negative, &[Bool]),
        (ElementOp::BitwiseAnd, &[Int8, Float32]),
        (ElementOp::Maximum, &[Complex64, Float32]),
        (ElementOp::Less, &[Complex64, Float32]),
        (ElementOp::Atan2, &[Complex64, Float32]),
        (ElementOp::Add, &[Int8]),
    ] {
        assert_eq!(out(op, d), None, "{}", op.name());
    }
}

#[test]
fn integers_never_panic() {
    use ElementOp::*;
    assert_eq!(bin::<_, _, i32>(FloorDivide, &[7, -7, 7, -7, 5, i32::MIN], &[2, 2, -2, -2, 0, -1]), [3, -4, -4, 3, 0, i32::MIN]);
    assert_eq!(bin::<_, _, i32>(Remainder, &[7, -7, 7, -7, 5, i32::MIN], &[3, 3, -3, -3, 0, -1]), [1, 2, -2, -1, 0, 0]);
    assert_eq!(bin::<_, _, i8>(Pow, &[2i8, -1, -1, 1, 0, 0, 3, -2], &[3i8, 3, 2, 9, 1, 0, 5, 7]), [8, -1, 1, 1, 0, 1, -13, -128]);
    let negative = compute(&Pow, &[&block(&[2i64, 1]), &block(&[3i64, -1])], DType::Int64).unwrap_err().to_string();
    assert!(negative.contains("negative integer powers are not allowed"), "{negative}");
    assert_eq!(bin::<_, _, u64>(Pow, &[3u64], &[u64::MAX]), [12297829382473034411]);
    assert_eq!(bin::<_, _, i8>(Add, &[127i8], &[1i8]), [-128]);
    assert_eq!(un::<_, i8>(Abs, &[-128i8, -3]), [-128, 3]);
    assert_eq!(un::<_, u8>(Negative, &[1u8]), [255]);
    assert_eq!(un::<_, i8>(Square, &[16i8]), [0]);
    assert_eq!(bin::<_, _, i8>(BitwiseLeftShift, &[1i8, 1, 1, 1], &[7i8, 8, -1, 100]), [-128, 0, 0, 0]);
    assert_eq!(bin::<_, _, i8>(BitwiseRightShift, &[-8i8, -8, 8, -8], &[1i8, 8, 9, -1]), [-4, -1, 0, -1]);
    assert_eq!(bin::<_, _, u16>(BitwiseRightShift, &[8u16, 8], &[3u16, 16]), [1, 0]);
    assert_eq!(un::<_, i16>(Sign, &[-5i16, 0, 9]), [-1, 0, 1]);
    assert_eq!(un::<_, u8>(BitwiseInvert, &[1u8]), [254]);
    assert_eq!(bin::<_, _, bool>(Less, &[-1i64, i64::MAX], &[0u64, 1 << 63]), [true, true]);
    assert_eq!(bin::<_, _, bool>(Equal, &[u64::MAX], &[-1i8]), [false]);
}

#[test]
fn floats() {
    use ElementOp::*;
    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;
    assert_eq!(un::<_, f64>(Round, &[0.5, 1.5, 2.5, -0.5, -1.5]), [0.0, 2.0, 2.0, 0.0, -2.0]);
    assert_eq!(bin::<_, _, f64>(FloorDivide, &[7.0, -7.0, 1.0, -1.0, 0.7], &[2.0, 2.0, 0.0, INF, 0.1]), [3.0, -4.0, INF, -1.0, 6.0]);
    let r = bin::<_, _, f64>(Remainder, &[7.0, -7.0, 7.0, 1.0, -4.0], &[3.0, 3.0, -3.0, 0.0, 2.0]);
    assert_eq!(r[..3], [1.0, 2.0, -2.0]);
    assert!(r[3].is_nan() && r[4] == 0.0 && r[4].is_sign_positive());
    for op in [Maximum, Minimum] {
        assert!(bin::<_, _, f32>(op, &[1.0f32, f32::NAN], &[f32::NAN, 1.0f32]).iter().all(|x| x.is_nan()));
    }
    assert_eq!(bin::<_, _, f64>(Maximum, &[1.0, 4.0], &[2.0, 3.0]), [2.0, 4.0]);
    assert_eq!(bin::<_, _, f64>(Minimum, &[1.0, 4.0], &[2.0, 3.0]), [1.0, 3.0]);
    let s = un::<_, f64>(Sign, &[-3.0, 0.0, INF, NAN]);
    assert!(s[..3] == [-1.0, 0.0, 1.0] && s[3].is_nan());
    assert_eq!(un::<_, bool>(Signbit, &[-0.0, 0.0, -1.0]), [true, false, true]);
    assert_eq!(un::<_, bool>(Isnan, &[NAN, INF, 1.0]), [true, false, false]);
    assert_eq!(un::<_, bool>(Isinf, &[NAN, -INF, 1.0]), [false, true, false]);
    assert_eq!(un::<_, bool>(Isfinite, &[NAN, INF, 1.0]), [false, false, true]);
    assert_eq!(bin::<_, _, f64>(Logaddexp, &[-INF, INF, 1000.0], &[-INF, INF, 0.0]), [-INF, INF, 1000.0]);
    assert!((bin::<_, _, f64>(Logaddexp, &[0.0], &[0.0])[0] - 2f64.ln()).abs() < 1e-16);
    assert_eq!(bin::<_, _, f64>(Nextafter, &[1.0, 1.0, 0.0], &[2.0, 1.0, -1.0]), [1.0 + f64::EPSILON, 1.0, -5e-324]);
    assert_eq!(bin::<_, _, f64>(Copysign, &[3.0, -2.0], &[-0.0, 1.0]), [-3.0, 2.0]);
    assert!((bin::<_, _, f64>(Hypot, &[3e200], &[4e200])[0] / 5e200 - 1.0).abs() < 1e-15);
    assert_eq!(bin::<_, _, f64>(Divide, &[1i32, 0], &[0i32, 2]), [INF, 0.0]);
    assert_eq!(un::<_, f64>(Sqrt, &[9i32]), [3.0]);
    let acosh = un::<_, f64>(Acosh, &[1.0, f64::MAX]);
    assert!(acosh[0] == 0.0 && (acosh[1] / (f64::MAX.ln() + std::f64::consts::LN_2) - 1.0).abs() < 1e-15);
    assert!((un::<_, f64>(Acosh, &[1.0 + 1e-10])[0] / 1.4142135623730951e-5 - 1.0).abs() < 1e-6);
    assert!((un::<_, f64>(Atanh, &[-0.9999])[0] + un::<_, f64>(Atanh, &[0.9999])[0]).abs() < 1e-16);
    assert_eq!(un::<_, f64>(Atanh, &[1.0, -1.0]), [INF, -INF]);
    assert!(un::<_, f64>(Log, &[-1.0])[0].is_nan());
    let x = 0.3f64;
    for (op, want) in [
        (Acos, x.acos()),
        (Asin, x.asin()),
        (Asinh, 0.29567304756342244),
        (Atan, x.atan()),
        (Atanh, 0.3095196042031117),
        (Cos, x.cos()),
        (Cosh, x.cosh()),
        (Exp, x.exp()),
        (Expm1, x.exp_m1()),
        (Log, x.ln()),
        (Log1p, x.ln_1p()),
        (Log2, x.log2()),
        (Log10, x.log10()),
        (Reciprocal, 1.0 / x),
        (Sin, x.sin()),
        (Sinh, x.sinh()),
        (Sqrt, x.sqrt()),
        (Square, x * x),
        (Tan, x.tan()),
        (Tanh, x.tanh()),
    ] {
        let got = un::<_, f64>(op, &[x])[0];
        assert!((got - want).abs() < 1e-15, "{}", op.name());
        // The complex function agrees on the real axis.
        let z = un::<_, Complex64>(op, &[Complex64::new(x, 0.0)])[0];
        assert!((z - want).norm() < 1e-14, "complex {}: {z}", op.name());
        let single = un::<_, f32>(op, &[x as f32])[0];
        assert!((f64::from(single) - want).abs() < 1e-6, "single {}", op.name());
    }
}

#[test]
fn bools_and_logic() {
    use ElementOp::*;
    let (a, b) = ([false, false, true, true], [false, true, false, true]);
    assert_eq!(bin::<_, _, bool>(Add, &a, &b), [false, true, true, true]);
    assert_eq!(bin::<_, _, bool>(Multiply, &a, &b), [false, false, false, true]);
    assert_eq!(bin::<_, _, bool>(Less, &a, &b), [false, true, false, false]);
    assert_eq!(bin::<_, _, bool>(LogicalXor, &a, &b), [false, true, true, false]);
    assert_eq!(bin::<_, _, bool>(LogicalAnd, &[0.0, f64::NAN, 2.0], &[1i8, 1, 0]), [false, true, false]);
    assert_eq!(un::<_, bool>(LogicalNot, &[Complex32::new(0.0, 1.0), Complex32::new(0.0, 0.0)]), [false, true]);
    assert_eq!(bin::<_, _, i8>(Pow, &a, &b), [1, 0, 1, 1]);
    let got = run(Where, &[block(&[true, false]), block(&[1i8, 2]), block(&[3.5f32, 4.5])]);
    assert_eq!(list::<f32>(&got), [1.0, 4.5]);
}

#[test]
fn complex() {
    use ElementOp::*;
    let c = Complex64::new;
    assert_eq!(un::<_, f64>(Abs, &[c(3.0, 4.0)]), [5.0]);
    assert_eq!(un::<_, f64>(Imag, &[c(3.0, 4.0)]), [4.0]);
    assert_eq!(un::<_, Complex64>(Conj, &[c(3.0, 4.0)]), [c(3.0, -4.0)]);
    assert_eq!(un::<_, Complex64>(Sign, &[c(3.0, 4.0), c(0.0, 0.0)]), [c(0.6, 0.8), c(0.0, 0.0)]);
    assert_eq!(un::<_, Complex64>(Round, &[c(0.5, 1.5)]), [c(0.0, 2.0)]);
    assert_eq!(bin::<_, _, Complex64>(Divide, &[c(1e300, 1e300)], &[c(1e300, 1e300)]), [c(1.0, 0.0)]);
    assert!(bin::<_, _, Complex64>(Divide, &[c(1.0, 0.0)], &[c(0.0, 0.0)])[0].re.is_infinite());
    assert_eq!(
        bin::<_, _, Complex64>(Pow, &[c(1.0, 1.0), c(0.0, 0.0), c(0.0, 0.0)], &[2.0, 0.0, 3.0]),
        [c(0.0, 2.0), c(1.0, 0.0), c(0.0, 0.0)]
    );
    let roots = un::<_, Complex64>(Sqrt, &[c(-4.0, 0.0), c(-4.0, -0.0), c(0.0, -0.0), c(-3.0, 4.0), c(3.0, -4.0), c(0.0, 2.0)]);
    assert_eq!(roots, [c(0.0, 2.0), c(0.0, -2.0), c(0.0, -0.0), c(1.0, 2.0), c(2.0, -1.0), c(1.0, 1.0)]);
    assert!(roots[2].im.is_sign_negative());
    let tiny = un::<_, Complex64>(Log1p, &[c(1e-20, 1e-20)])[0];
    assert!((tiny - c(1e-20, 1e-20)).norm() < 1e-34);
    assert_eq!(bin::<_, _, bool>(Equal, &[c(1.0, 2.0)], &[c(1.0, 3.0)]), [false]);
}

/// The functions of complex numbers are those of num-complex; what is infinite or NaN has tests beside `complex_limits`.
#[test]
fn complex_functions_follow_the_formulas() {
    use ElementOp::*;
    type Exact = fn(Complex64) -> Complex64;
    let all: [(ElementOp, Exact); 17] = [
        (Acos, |z| z.acos()),
        // On the cut num-complex has the other side for a negative zero; C99 and NumPy have the conjugate of the conjugate's.
        (Acosh, |z| if z.im.is_sign_negative() { z.conj().acosh().conj() } else { z.acosh() }),
        (Asin, |z| z.asin()),
        (Asinh, |z| z.asinh()),
        (Atan, |z| z.atan()),
        (Atanh, |z| z.atanh()),
        (Cos, |z| z.cos()),
        (Cosh, |z| z.cosh()),
        (Exp, |z| z.exp()),
        (Expm1, |z| z.exp() - 1.0),
        (Log, |z| z.ln()),
        (Log1p, |z| (z + 1.0).ln()),
        (Log2, |z| z.ln() / std::f64::consts::LN_2),
        (Sin, |z| z.sin()),
        (Sqrt, |z| z.sqrt()),
        (Tan, |z| z.tan()),
        (Tanh, |z| z.tanh()),
    ];
    let odd = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let mut zs: Vec<Complex64> = (0..1000).map(|i| Complex64::from_polar(0.3 + 0.003 * f64::from(i), 0.05 + 2.4 * f64::from(i))).collect();
    let regular = zs.len();
    zs.extend(odd.iter().flat_map(|&x| odd.iter().map(move |&y| Complex64::new(x, y))));
    for (function, exact) in all {
        let got = un::<_, Complex64>(function, &zs);
        let narrow: Vec<Complex32> = zs.iter().map(|z| Complex32::new(z.re as f32, z.im as f32)).collect();
        let single = un::<_, Complex32>(function, &narrow);
        for (i, &z) in zs.iter().enumerate() {
            let want = exact(z);
            if i < regular {
                assert!((got[i] - want).norm() < 1e-13 * (1.0 + want.norm_sqr()), "{function:?}({z}) = {}, not {want}", got[i]);
                let near = Complex64::new(single[i].re.into(), single[i].im.into());
                assert!((near - want).norm() < 1e-4 * (1.0 + want.norm_sqr()), "{function:?}({z}) = {near}, not {want}");
            } else if z.is_finite() && want.is_finite() {
                // On the branch cuts, on the side that the sign of a zero says.
                assert!((got[i] - want).norm() < 1e-13, "{function:?}({z}) = {}, not {want}", got[i]);
            }
        }
    }
}

#[test]
fn strided_inputs_and_wrong_shapes() {
    let a = ndarray::Array::from_shape_vec((2, 3), (0..6).collect::<Vec<i32>>()).unwrap().into_shared().into_dyn();
    let t = i32::wrap(a.clone().reversed_axes());
    let got = compute(&ElementOp::Subtract, &[&t, &t.contiguous()], DType::Int32).unwrap();
    assert_eq!(list::<i32>(&got), [0; 6]);
    assert_eq!(list::<i32>(&compute(&ElementOp::Negative, &[&t], DType::Int32).unwrap()), [0, -3, -1, -4, -2, -5]);
    assert!(compute(&ElementOp::Add, &[&t, &i32::wrap(a)], DType::Int32).is_err());
    assert!(compute(&ElementOp::Add, &[&t], DType::Int32).is_err());
    assert!(compute(&ElementOp::Add, &[&t, &Block::zeros(DType::Int8, &[3, 2])], DType::Int32).is_err());
}

#[test]
fn what_is_refused() {
    use crate::check::tests::{check, ty};
    let x = |dtypes: &[DType]| dtypes.iter().map(|&d| ty(d, &[4, 6])).collect::<Vec<_>>();
    for &function in ElementOp::ALL {
        let kernel = crate::Kernel::Element { function };
        for dtype in DType::ALL {
            // What the function asks for is accepted, with its own output and no other.
            let Ok((casts, made)) = function.result_dtype(&vec![dtype; function.arity()]) else {
                assert!(check(&kernel, &x(&vec![dtype; function.arity()]), dtype, &[4, 6]).is_err());
                continue;
            };
            for out in DType::ALL {
                assert_eq!(check(&kernel, &x(&casts), out, &[4, 6]).is_ok(), out == made, "{function:?} {casts:?} {out}");
            }
            assert!(check(&kernel, &x(&casts), made, &[4]).is_err() && check(&kernel, &[], made, &[4, 6]).is_err());
        }
    }
    let add = crate::Kernel::Element { function: ElementOp::Add };
    assert!(check(&add, &x(&[DType::Int8, DType::Int16]), DType::Int16, &[4, 6]).unwrap_err().contains("cast"));
    assert!(check(&add, &[ty(DType::Int8, &[4]), ty(DType::Int8, &[5])], DType::Int8, &[4]).is_err());
    assert!(check(&crate::Kernel::Cast, &x(&[DType::Complex64]), DType::Int8, &[4, 6]).is_ok());
    assert!(check(&crate::Kernel::Cast, &x(&[DType::Int8]), DType::Int8, &[6, 4]).is_err());
    assert!(check(&crate::Kernel::Cast, &[], DType::Int8, &[]).is_err());
}

/// Numbers of all sizes, some of them equal to small multiples of others.
fn pairs() -> impl proptest::strategy::Strategy<Value = Vec<(f64, f64)>> {
    use proptest::prelude::*;
    let special = prop::sample::select(vec![
        0.0,
        -0.0,
        1.0,
        -3.0,
        0.1,
        1e-310,
        5e-324,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        2f64.powi(53),
        1e18,
        1e-150,
        1e150,
    ]);
    let any = prop_oneof![special, any::<u64>().prop_map(f64::from_bits), -1e3..1e3f64, (-50i32..50).prop_map(f64::from)];
    let near = (any.clone(), -2000i32..2000, -2i32..3).prop_map(|(b, k, ulps)| {
        let a = b * f64::from(k);
        let a = if ulps < 0 {
            a.next_down()
        } else if ulps > 0 {
            a.next_up()
        } else {
            a
        };
        (a, b)
    });
    prop::collection::vec(prop_oneof![(any.clone(), any), near], 1..200)
}

/// The definitions, with the loop of the standard library.
fn python_remainder(a: f64, b: f64) -> f64 {
    let m = a % b;
    if m == 0.0 {
        0f64.copysign(b)
    } else if (b < 0.0) != (m < 0.0) {
        m + b
    } else {
        m
    }
}

fn python_floor_divide(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return a / b;
    }
    let m = a % b;
    let d = (a - m) / b - f64::from(u8::from(m != 0.0 && (b < 0.0) != (m < 0.0)));
    if d == 0.0 {
        return 0f64.copysign(a / b);
    }
    let f = d.floor();
    if d - f > 0.5 { f + 1.0 } else { f }
}

fn same(got: f64, want: f64) -> bool {
    got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan())
}

proptest::proptest! {
    #[test]
    fn division_of_floats_is_that_of_the_slow_loop(pairs in pairs()) {
        let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let remainders: Vec<f64> = bin(ElementOp::Remainder, &a, &b);
        let quotients: Vec<f64> = bin(ElementOp::FloorDivide, &a, &b);
        for i in 0..a.len() {
            assert!(same(remainders[i], python_remainder(a[i], b[i])), "{:e} % {:e} = {:e}", a[i], b[i], remainders[i]);
            assert!(same(quotients[i], python_floor_divide(a[i], b[i])), "{:e} // {:e} = {:e}", a[i], b[i], quotients[i]);
        }
        // Remainders of singles are exact in doubles, and so are singles.
        let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
        let (a, b) = (single(&a), single(&b));
        for (i, got) in bin::<_, _, f32>(ElementOp::Remainder, &a, &b).into_iter().enumerate() {
            let m = a[i] % b[i];
            let want = if m == 0.0 { 0f32.copysign(b[i]) } else if (b[i] < 0.0) != (m < 0.0) { m + b[i] } else { m };
            assert!(same(f64::from(got), f64::from(want)), "{:e} % {:e} = {got:e}", a[i], b[i]);
        }
    }

    #[test]
    fn division_of_long_integers_is_exact(
        pairs in proptest::collection::vec((proptest::num::i64::ANY, proptest::num::i64::ANY, 0u32..64, 0u32..64, -1i64..2), 1..200),
    ) {
        // Of all sizes, and some next to a multiple.
        let (a, b): (Vec<i64>, Vec<i64>) = pairs
            .into_iter()
            .map(|(a, b, s, t, d)| {
                let (a, b) = (a >> s, b >> t);
                (if s % 2 == 0 && b != 0 { (a / b).wrapping_mul(b).wrapping_add(d) } else { a }, b)
            })
            .unzip();
        let (q, r): (Vec<i64>, Vec<i64>) = (bin(ElementOp::FloorDivide, &a, &b), bin(ElementOp::Remainder, &a, &b));
        for i in 0..a.len() {
            let (x, y) = (i128::from(a[i]), i128::from(b[i]));
            let down = if y == 0 { 0 } else { x / y - i128::from(x % y != 0 && (x < 0) != (y < 0)) };
            assert_eq!((q[i], r[i]), (down as i64, if y == 0 { 0 } else { (x - down * y) as i64 }), "{x} / {y}");
        }
        let unsigned = |x: &[i64]| x.iter().map(|&x| x as u64).collect::<Vec<u64>>();
        let (a, b) = (unsigned(&a), unsigned(&b));
        let (q, r): (Vec<u64>, Vec<u64>) = (bin(ElementOp::FloorDivide, &a, &b), bin(ElementOp::Remainder, &a, &b));
        for i in 0..a.len() {
            assert_eq!((q[i], r[i]), (a[i].checked_div(b[i]).unwrap_or(0), a[i].checked_rem(b[i]).unwrap_or(0)), "{} / {}", a[i], b[i]);
        }
    }

    #[test]
    fn magnitudes_are_those_of_hypot(pairs in pairs()) {
        let double: Vec<Complex64> = pairs.iter().map(|&(x, y)| Complex64::new(x, y)).collect();
        for (z, got) in double.iter().zip(un::<_, f64>(ElementOp::Abs, &double)) {
            let want = z.re.hypot(z.im);
            assert!(same(got, want) || (got / want - 1.0).abs() < 3e-16 || (got - want).abs() < 1e-323, "|{z}| = {got:e}");
        }
        let single: Vec<Complex32> = double.iter().map(|z| Complex32::new(z.re as f32, z.im as f32)).collect();
        for (z, got) in single.iter().zip(un::<_, f32>(ElementOp::Abs, &single)) {
            let want = f64::from(z.re).hypot(f64::from(z.im)) as f32;
            assert!(same(got.into(), want.into()) || (got / want - 1.0).abs() < 2e-7 || (got - want).abs() < 2e-45, "|{z}| = {got:e}");
        }
    }
}

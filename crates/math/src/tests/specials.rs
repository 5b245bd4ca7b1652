//! Zeros, infinities, NaN, edges of domains: compared with the standard library, which follows C99.

use super::*;

const EDGES: [f64; 44] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    1.5,
    -1.5,
    1e-300,
    -1e-300,
    1e300,
    -1e300,
    5e-324,
    -5e-324,
    1e-310,
    -1e-310,
    f64::MIN_POSITIVE,
    f64::MAX,
    f64::MIN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    710.0,
    -745.2,
    -746.0,
    1024.0,
    -1075.0,
    9_007_199_254_740_992.0,
    9_007_199_254_740_991.0,
    -9_007_199_254_740_991.0,
    4_503_599_627_370_497.0,
    4_503_599_627_370_496.5,
    1.000_000_000_000_000_2,
    0.999_999_999_999_999_9,
    -1.000_000_000_000_000_2,
    -0.999_999_999_999_999_9,
    1e22,
    -1e22,
    1e9,
    -1e17,
];

/// Equal in kind and sign, or close.
fn same<T: Real>(y: T, sign: bool, exact: f64, bound: f64) -> bool {
    let exact_negative = exact.is_sign_negative();
    (exact.is_nan() || sign == exact_negative) && T::error(y, exact) <= bound
}

#[test]
fn doubles() {
    let mut failures = Vec::new();
    for level in Level::available() {
        for (name, f, exact, _) in ones64() {
            let mut out = [0.0; EDGES.len()];
            f(level, &EDGES, &mut out);
            for (x, y) in EDGES.into_iter().zip(out) {
                if !same(y, y.is_sign_negative(), exact(x), 5.0) {
                    failures.push(format!("{level:?} {name}({x:e}) = {y:e}, not {:e}", exact(x)));
                }
            }
        }
        for (name, f, exact, _) in twos64() {
            for b in EDGES {
                let mut out = [0.0; EDGES.len()];
                f(level, &EDGES, &[b; EDGES.len()], &mut out);
                for (a, y) in EDGES.into_iter().zip(out) {
                    let wanted = if name == "logaddexp" && (a.is_nan() || b.is_nan()) { f64::NAN } else { exact(a, b) };
                    let zero = name == "logaddexp" && y == 0.0 && wanted == 0.0;
                    if !(zero || same(y, y.is_sign_negative(), wanted, 5.0)) {
                        failures.push(format!("{level:?} {name}({a:e}, {b:e}) = {y:e}, not {wanted:e}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}: {failures:#?}", failures.len());
}

#[test]
fn singles() {
    let mut edges: Vec<f32> = EDGES.iter().map(|&x| x as f32).collect();
    edges.extend([
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        1e-45,
        -1e-45,
        88.8,
        -104.0,
        128.0,
        -150.0,
        16_777_215.0,
        -16_777_215.0,
        8_388_607.5,
    ]);
    let n = edges.len();
    let mut failures = Vec::new();
    for level in Level::available() {
        for (name, f, exact, bound) in ones32() {
            let mut out = vec![0.0; n];
            f(level, &edges, &mut out);
            for (&x, &y) in edges.iter().zip(&out) {
                let wanted = exact(x.into());
                if !same(y, y.is_sign_negative(), wanted, bound) {
                    failures.push(format!("{level:?} {name}({x:e}) = {y:e}, not {wanted:e}"));
                }
            }
        }
        for (name, f, exact, bound) in twos32() {
            for &b in &edges {
                let mut out = vec![0.0; n];
                f(level, &edges, &vec![b; n], &mut out);
                for (&a, &y) in edges.iter().zip(&out) {
                    let nan = name == "logaddexp" && (a.is_nan() || b.is_nan());
                    let wanted = if nan { f64::NAN } else { exact(a.into(), b.into()) };
                    let zero = name == "logaddexp" && y == 0.0 && wanted == 0.0;
                    if !(zero || same(y, y.is_sign_negative(), wanted, bound)) {
                        failures.push(format!("{level:?} {name}({a:e}, {b:e}) = {y:e}, not {wanted:e}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}: {failures:#?}", failures.len());
}

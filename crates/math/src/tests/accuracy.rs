//! Errors: `f64` against exact results (made by `tools/reference.py`) and the standard library, `f32` over its whole range.

use super::*;

/// The next `size` bytes of the data.
fn take<'a>(data: &mut &'a [u8], size: usize) -> &'a [u8] {
    let (head, rest) = data.split_at(size);
    *data = rest;
    head
}

/// The records of the next function, by columns.
fn columns(data: &mut &[u8], width: usize) -> Vec<Vec<f64>> {
    let count = u32::from_le_bytes(take(data, 4).try_into().unwrap()) as usize;
    let records = take(data, count * width * 8);
    let numbers: Vec<f64> = records.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
    (0..width).map(|c| numbers.iter().skip(c).step_by(width).copied().collect()).collect()
}

/// The largest error of the results, and its position.
fn worst<T: Real>(out: &[T], exact: &[f64]) -> (f64, usize) {
    out.iter().zip(exact).enumerate().map(|(i, (&y, &e))| (T::error(y, e), i)).fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a })
}

/// Errors are measured against results that are rounded once. This hides up to half a unit, which is added here.
const ROUNDED: f64 = 0.5;

#[test]
fn doubles_match_exact_results() {
    let mut data: &[u8] = include_bytes!("../../tests/reference.bin");
    let mut failures = Vec::new();
    for (name, f, _, bound) in ones64() {
        let c = columns(&mut data, 2);
        for level in Level::available() {
            let mut out = vec![0.0; c[0].len()];
            f(level, &c[0], &mut out);
            let (e, i) = worst(&out, &c[1]);
            println!("{name:10} {level:?} {:.2} ulp at {:e}", e, c[0][i]);
            if e > bound + ROUNDED {
                failures.push(format!("{name} {level:?}: {e} ulp at {:e}: {:e}, not {:e}", c[0][i], out[i], c[1][i]));
            }
        }
    }
    for (name, f, _, bound) in twos64() {
        let c = columns(&mut data, 3);
        for level in Level::available() {
            let mut out = vec![0.0; c[0].len()];
            f(level, &c[0], &c[1], &mut out);
            // The error of logaddexp is in units of its larger argument.
            let errors = out.iter().zip(&c[2]).enumerate().map(|(i, (&y, &e))| {
                let unit = if name == "logaddexp" { (c[0][i].abs().max(c[1][i].abs()) / e).abs().max(1.0) } else { 1.0 };
                (f64::error(y, e) / unit, i)
            });
            let (e, i) = errors.fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a });
            println!("{name:10} {level:?} {:.2} ulp at {:e}, {:e}", e, c[0][i], c[1][i]);
            if e > bound + ROUNDED {
                failures.push(format!("{name} {level:?}: {e} ulp at {:e}, {:e}: {:e}, not {:e}", c[0][i], c[1][i], out[i], c[2][i]));
            }
        }
    }
    assert!(data.is_empty());
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The error of the standard library may add to ours.
const STANDARD: f64 = 1.5;

#[test]
fn doubles_match_the_standard_library() {
    let mut random = Random(7);
    let xs: Vec<f64> = (0..40_000).map(|_| random.f64()).collect();
    let ys: Vec<f64> = (0..40_000).map(|_| random.f64()).collect();
    let mut failures = Vec::new();
    let mut out = vec![0.0; xs.len()];
    for level in Level::available() {
        for (name, f, exact, bound) in ones64() {
            f(level, &xs, &mut out);
            let exact: Vec<f64> = xs.iter().map(|&x| exact(x)).collect();
            let (e, i) = worst(&out, &exact);
            // These formulas of the inverse hyperbolic functions are wrong by several units.
            let loose = if name.ends_with('h') { 6.0 } else { STANDARD };
            if e > bound + loose {
                failures.push(format!("{name} {level:?}: {e} ulp at {:e}: {:e}, not {:e}", xs[i], out[i], exact[i]));
            }
        }
        for (name, f, exact, bound) in twos64() {
            f(level, &xs, &ys, &mut out);
            let exact: Vec<f64> = xs.iter().zip(&ys).map(|(&x, &y)| exact(x, y)).collect();
            let (e, i) = worst(&out, &exact);
            if e > bound + STANDARD && name != "logaddexp" {
                failures.push(format!("{name} {level:?}: {e} ulp at {:e}, {:e}: {:e}, not {:e}", xs[i], ys[i], out[i], exact[i]));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Every 257th float, with a different offset for each level.
#[test]
fn singles_are_accurate_over_their_range() {
    let mut failures = Vec::new();
    for (l, level) in Level::available().into_iter().enumerate() {
        let xs: Vec<f32> = (l as u32 * 83..=u32::MAX - 300).step_by(257).map(f32::from_bits).collect();
        let mut out = vec![0.0; xs.len()];
        for (name, f, exact, bound) in ones32() {
            f(level, &xs, &mut out);
            let exact: Vec<f64> = xs.iter().map(|&x| exact(x.into())).collect();
            let (e, i) = worst(&out, &exact);
            println!("{name:10} {level:?} {:.4} ulp at {:e}", e, xs[i]);
            if e > bound {
                failures.push(format!("{name} {level:?}: {e} ulp at {:e}: {:e}, not {:e}", xs[i], out[i], exact[i]));
            }
        }
        let mut random = Random(8);
        let xs: Vec<f32> = (0..200_000).map(|_| random.f32()).collect();
        let ys: Vec<f32> = (0..200_000).map(|_| random.f32()).collect();
        let mut out = vec![0.0; xs.len()];
        for (name, f, exact, bound) in twos32() {
            f(level, &xs, &ys, &mut out);
            let exact: Vec<f64> = xs.iter().zip(&ys).map(|(&x, &y)| exact(x.into(), y.into())).collect();
            let (e, i) = worst(&out, &exact);
            println!("{name:10} {level:?} {:.4} ulp at {:e}, {:e}", e, xs[i], ys[i]);
            if e > bound {
                failures.push(format!("{name} {level:?}: {e} ulp at {:e}, {:e}: {:e}, not {:e}", xs[i], ys[i], out[i], exact[i]));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

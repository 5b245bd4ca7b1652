//! Functions of complex numbers that are infinite, NaN, large or on a branch cut, by Annex G of C99, as NumPy has them.
//!
//! The fast formulas of [`super::complex`] multiply what is infinite by 0, or square what is large. Here every case is written out, in
//! `f64` for both dtypes; these numbers are rare.

use num_complex::Complex64;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
/// Beyond this `1 + z^2` is `z^2`.
const LARGE: f64 = 1e8;

fn new(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

/// The parts exchanged: `i` times the conjugate.
fn turned(z: Complex64) -> Complex64 {
    new(z.im, z.re)
}

/// `exp(x) * (c, s)` where that may be finite although `exp(x)` is not.
fn grown(x: f64, c: f64, s: f64) -> Complex64 {
    let root = (x / 2.0).exp();
    new(root * c * root, root * s * root)
}

pub(super) fn exp(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return new(x.exp(), y);
    }
    match (x, y.is_finite()) {
        (INF, false) => new(INF, NAN),
        (f64::NEG_INFINITY, false) => new(0.0, 0f64.copysign(y)),
        (_, false) => new(NAN, NAN),
        _ if x > 700.0 => grown(x, y.cos(), y.sin()),
        _ => new(x.exp() * y.cos(), x.exp() * y.sin()),
    }
}

/// Both hyperbolic functions of `x` times those of the angle, `cosh(x) c` and `sinh(x) s`.
fn hyperbolic(x: f64, c: f64, s: f64) -> Complex64 {
    if x.abs() < 22.0 {
        return new(x.cosh() * c, x.sinh() * s);
    }
    let w = grown(x.abs(), 0.5 * c, 0.5 * s);
    new(w.re, w.im * x.signum())
}

pub(super) fn cosh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return new(x.cosh(), if x.is_nan() { y } else { 0f64.copysign(x) * 1f64.copysign(y) });
    }
    match (x.is_infinite(), y.is_finite()) {
        _ if x == 0.0 && !y.is_finite() => new(NAN, 0.0),
        (true, false) => new(INF, NAN),
        (true, true) => new(INF * y.cos(), x * y.sin()),
        (false, false) => new(NAN, NAN),
        _ => hyperbolic(x, y.cos(), y.sin()),
    }
}

pub(super) fn sinh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return new(x.sinh(), y);
    }
    match (x.is_infinite(), y.is_finite()) {
        _ if x == 0.0 && !y.is_finite() => new(x, NAN),
        (true, false) => new(INF, NAN),
        (true, true) => new(x * y.cos(), INF * y.sin()),
        (false, false) => new(NAN, NAN),
        _ => {
            // sinh(x) c + i cosh(x) s
            let w = hyperbolic(x, y.sin(), y.cos());
            turned(w)
        }
    }
}

pub(super) fn tanh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() {
        return new(NAN, if y == 0.0 { y } else { NAN });
    }
    if x.is_infinite() {
        let sign = if y.is_finite() { (y + y).sin() } else { y };
        return new(1f64.copysign(x), 0f64.copysign(if sign.is_nan() { 1.0 } else { sign }));
    }
    if !y.is_finite() {
        return new(if x == 0.0 { x } else { NAN }, NAN);
    }
    if x.abs() > 22.0 {
        return new(1f64.copysign(x), 4.0 * y.sin() * y.cos() * (-2.0 * x.abs()).exp());
    }
    // Kahan 1987.
    let (t, s) = (y.tan(), x.sinh());
    let (beta, rho) = (1.0 + t * t, (1.0 + s * s).sqrt());
    let d = 1.0 + beta * s * s;
    new(beta * rho * s / d, t / d)
}

pub(super) fn sin(z: Complex64) -> Complex64 {
    turned(sinh(turned(z)))
}

pub(super) fn cos(z: Complex64) -> Complex64 {
    cosh(new(-z.im, z.re))
}

pub(super) fn tan(z: Complex64) -> Complex64 {
    turned(tanh(turned(z)))
}

pub(super) fn sqrt(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x == 0.0 && y == 0.0 {
        return new(0.0, y);
    }
    if y.is_infinite() {
        return new(INF, y);
    }
    if x.is_infinite() {
        let rest = if y.is_nan() { NAN } else { 0.0 };
        return if x > 0.0 { new(x, rest.copysign(y)) } else { new(rest.abs(), INF.copysign(y)) };
    }
    // Even powers of 2, so that the scales are exact and so are their roots.
    let most = x.abs().max(y.abs());
    let (scale, root) = if most > 1e300 {
        (2f64.powi(-4), 4.0)
    } else if most < 1e-280 {
        (2f64.powi(108), 2f64.powi(-54))
    } else {
        (1.0, 1.0)
    };
    let (x, y) = (x * scale, y * scale);
    let big = (0.5 * (x.abs() + x.hypot(y))).sqrt();
    let small = 0.5 * y.abs() / big;
    let (re, im) = if x >= 0.0 { (big, small) } else { (small, big) };
    new(re * root, im.copysign(y) * root)
}

/// `log|2 z|` and the angle of a large number.
fn log_of_large(x: f64, y: f64) -> Complex64 {
    let (big, small) = (x.abs().max(y.abs()), x.abs().min(y.abs()));
    let ratio = small / big;
    new(big.ln() + 0.5 * (ratio * ratio).ln_1p() + LN_2, y.atan2(x))
}

/// The inverse sine of a number without negative parts, by Kahan (1987): nothing cancels.
fn asin_of_quadrant(x: f64, y: f64) -> Complex64 {
    let (p, q) = (sqrt(new(1.0 - x, -y)), sqrt(new(1.0 + x, y)));
    new(x.atan2(p.re * q.re - p.im * q.im), (p.re * q.im - p.im * q.re).asinh())
}

pub(super) fn asinh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() || y.is_nan() {
        return match () {
            () if x.is_infinite() => new(x, NAN),
            () if y.is_infinite() => new(INF, NAN),
            () => new(NAN, if y == 0.0 { y } else { NAN }),
        };
    }
    // The function is odd, and the conjugate of a number has the conjugate as its value: one quadrant is enough.
    let (a, b) = (x.abs(), y.abs());
    let w = match (a.is_infinite(), b.is_infinite()) {
        (true, true) => new(INF, FRAC_PI_4),
        (true, false) => new(INF, 0.0),
        (false, true) => new(INF, FRAC_PI_2),
        _ if a.max(b) > LARGE => log_of_large(a, b),
        _ => turned(asin_of_quadrant(b, a)),
    };
    new(w.re.copysign(x), w.im.copysign(y))
}

pub(super) fn asin(z: Complex64) -> Complex64 {
    turned(asinh(turned(z)))
}

pub(super) fn acosh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() || y.is_nan() {
        return match () {
            () if x.is_infinite() || y.is_infinite() => new(INF, NAN),
            () => new(NAN, if x == 0.0 { FRAC_PI_2 } else { NAN }),
        };
    }
    match (x.is_infinite(), y.is_infinite()) {
        (true, true) => new(INF, if x > 0.0 { FRAC_PI_4 } else { 3.0 * FRAC_PI_4 }.copysign(y)),
        (true, false) => new(INF, if x > 0.0 { 0.0 } else { PI }.copysign(y)),
        (false, true) => new(INF, FRAC_PI_2.copysign(y)),
        _ if x.abs().max(y.abs()) > LARGE => log_of_large(x, y),
        // Kahan, as above.
        _ => {
            let (p, q) = (sqrt(new(x - 1.0, y.abs())), sqrt(new(x + 1.0, y.abs())));
            new((p.re * q.re + p.im * q.im).asinh(), (2.0 * p.im.atan2(q.re)).copysign(y))
        }
    }
}

pub(super) fn acos(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() || y.is_nan() {
        return match () {
            () if x.is_infinite() => new(NAN, -INF),
            () if y.is_infinite() => new(NAN, -y),
            () => new(if x == 0.0 { FRAC_PI_2 } else { NAN }, NAN),
        };
    }
    let w = acosh(z);
    new(w.im.abs(), w.re.copysign(-y))
}

pub(super) fn atanh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() || y.is_nan() {
        return match () {
            () if y.is_infinite() => new(0f64.copysign(x), FRAC_PI_2.copysign(y)),
            () if x.is_infinite() || x == 0.0 => new(0f64.copysign(x), NAN),
            () => new(NAN, NAN),
        };
    }
    let (a, b) = (x.abs(), y.abs());
    if a.max(b) <= LARGE {
        // (log(1 + z) - log(1 - z)) / 2, whose real part is log1p(4 x / ((1 - x)^2 + y^2)) / 4.
        let near = (1.0 - a).hypot(b);
        let re = if near < 1e-100 { 0.5 * (LN_2 - near.ln()) } else { 0.25 * (4.0 * a / (near * near)).ln_1p() };
        let im = 0.5 * (2.0 * b).atan2((1.0 - a) * (1.0 + a) - b * b);
        return new(re.copysign(x), im.copysign(y));
    }
    // 1 / z + i pi / 2.
    let (re, im) = match a >= b {
        _ if a.is_infinite() || b.is_infinite() => (0.0, 0.0),
        true => (1.0 / (a + b * (b / a)), (b / a) / (a + b * (b / a))),
        false => ((a / b) / (b + a * (a / b)), 1.0 / (b + a * (a / b))),
    };
    new(re.copysign(x), (FRAC_PI_2 - im).copysign(y))
}

pub(super) fn atan(z: Complex64) -> Complex64 {
    turned(atanh(turned(z)))
}

/// `z / |z|`, of which an infinite part decides, unless both are.
pub(super) fn sign(z: Complex64) -> Complex64 {
    match (z.re.is_infinite(), z.im.is_infinite()) {
        (true, true) => new(NAN, NAN),
        (true, false) => new(z.re.signum(), 0.0),
        (false, true) => new(0.0, z.im.signum()),
        _ if z.re.is_nan() || z.im.is_nan() => new(NAN, NAN),
        _ => {
            let n = z.re.hypot(z.im);
            if n == 0.0 { new(0.0, 0.0) } else { new(z.re / n, z.im / n) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: f64 = NAN;
    const I: f64 = INF;

    /// The same number, with the signs of zeros.
    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
    }

    /// Some values of Annex G; `tests/e2e/test_numbers.py` compares all cases with NumPy.
    #[test]
    fn annex_g() {
        type Function = fn(Complex64) -> Complex64;
        let cases: [(&str, Function, [f64; 2], [f64; 2]); 26] = [
            ("exp", exp, [I, 0.0], [I, 0.0]),
            ("exp", exp, [-I, I], [0.0, 0.0]),
            ("exp", exp, [I, N], [I, N]),
            ("cosh", cosh, [0.0, I], [N, 0.0]),
            ("cosh", cosh, [-I, 0.0], [I, -0.0]),
            ("cosh", cosh, [I, -1.5], [I, -I]),
            ("sinh", sinh, [-0.0, I], [-0.0, N]),
            ("sinh", sinh, [-I, -0.0], [-I, -0.0]),
            ("tanh", tanh, [I, I], [1.0, 0.0]),
            ("tanh", tanh, [-I, 2.0], [-1.0, -0.0]),
            ("tanh", tanh, [400.0, 1.0], [1.0, 0.0]),
            ("tan", tan, [1.0, I], [0.0, 1.0]),
            ("sqrt", sqrt, [N, I], [I, I]),
            ("sqrt", sqrt, [-I, 1.0], [0.0, I]),
            ("sqrt", sqrt, [-I, N], [N, I]),
            ("sqrt", sqrt, [I, -1.0], [I, -0.0]),
            ("asinh", asinh, [1.0, -I], [I, -FRAC_PI_2]),
            ("asinh", asinh, [-I, I], [-I, FRAC_PI_4]),
            ("acosh", acosh, [-I, 1.0], [I, PI]),
            ("acosh", acosh, [0.0, N], [N, FRAC_PI_2]),
            ("acos", acos, [-I, I], [3.0 * FRAC_PI_4, -I]),
            ("acos", acos, [2.0, I], [FRAC_PI_2, -I]),
            ("atanh", atanh, [1.0, 0.0], [I, 0.0]),
            ("atanh", atanh, [N, -I], [0.0, -FRAC_PI_2]),
            ("atan", atan, [I, 1.0], [FRAC_PI_2, 0.0]),
            ("sign", sign, [-I, N], [-1.0, 0.0]),
        ];
        for (name, f, [x, y], [re, im]) in cases {
            let w = f(new(x, y));
            assert!(same(w.re, re) && same(w.im, im), "{name}({x}, {y}) = {w}");
        }
    }

    #[test]
    fn large_numbers_stay_finite() {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-14 * b.abs();
        let w = exp(new(710.0, 1.57));
        assert!(near(w.re, 1.778989703932881e+305) && w.im.is_infinite(), "{w}");
        let w = asin(new(1e200, 1e200));
        assert!(near(w.re, FRAC_PI_4) && near(w.im, 461.556_739_369_649_05), "{w}");
        let w = sqrt(new(1.5e308, -1.5e308));
        assert!(near(w.re, 1.345_607_733_249_115e154) && w.im < 0.0, "{w}");
        let w = atanh(new(1e300, -1.0));
        assert!(near(w.re, 1e-300) && near(w.im, -FRAC_PI_2), "{w}");
        let w = asinh(new(1e-12, 0.0));
        assert!(near(w.re, 1e-12) && same(w.im, 0.0), "{w}");
    }
}

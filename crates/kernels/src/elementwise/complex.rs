//! The transcendental functions of complex numbers, by real ones over slices of the parts.
//!
//! The formulas are those of the textbooks. The arguments for which they do not hold, those that `regular` is false of, are computed one by
//! one, mostly by [`super::complex_limits`].

/// Elements at a time: their parts, and what is computed of them, stay in the first-level cache.
const PIECE: usize = 256;

macro_rules! table {
    ($($t:ident $c:ident $growing:literal $large:literal)*) => {$(
        pub(super) mod $t {
            use super::super::op::ElementOp;
            use super::super::complex_limits;
            use super::super::numeric::Cplx;
            use super::super::strip::{Buffer, Element, Found, Strip};
            use super::PIECE;
            use crate::BlockElement;
            use chunkwise_math::{Elementary, Out};
            use num_complex::{$c, Complex64 as Wide};

            type Part = [$t; PIECE];

            /// Real and imaginary parts of some numbers.
            struct Parts {
                re: Part,
                im: Part,
            }

            fn real(f: fn(&[$t], Out<'_, $t>), x: &Part) -> Part {
                let mut out = [0.0; PIECE];
                f(x, Out::from(&mut out));
                out
            }

            fn two(f: fn(&[$t], &[$t], Out<'_, $t>), x: &Part, y: &Part) -> Part {
                let mut out = [0.0; PIECE];
                f(x, y, Out::from(&mut out));
                out
            }

            fn each(f: impl Fn($t, $t) -> $t, x: &Part, y: &Part) -> Part {
                std::array::from_fn(|i| f(x[i], y[i]))
            }

            /// Products part by part.
            fn times(a: &Part, b: &Part) -> Part {
                each(|x, y| x * y, a, b)
            }

            /// `f` of the numbers, written out.
            fn map(z: &Parts, f: impl Fn($c) -> $c) -> Parts {
                let mut out = Parts { re: [0.0; PIECE], im: [0.0; PIECE] };
                for i in 0..PIECE {
                    let w = f($c::new(z.re[i], z.im[i]));
                    (out.re[i], out.im[i]) = (w.re, w.im);
                }
                out
            }

            fn add(a: &Parts, b: &Parts) -> Parts {
                Parts { re: each(|x, y| x + y, &a.re, &b.re), im: each(|x, y| x + y, &a.im, &b.im) }
            }

            fn subtract(a: &Parts, b: &Parts) -> Parts {
                Parts { re: each(|x, y| x - y, &a.re, &b.re), im: each(|x, y| x - y, &a.im, &b.im) }
            }

            /// sin, cos, sinh and cosh of the real and of the imaginary parts.
            fn waves(circular: &Part, hyperbolic: &Part) -> [Part; 4] {
                [
                    real(<$t as Elementary>::sin, circular),
                    real(<$t as Elementary>::cos, circular),
                    real(<$t as Elementary>::sinh, hyperbolic),
                    real(<$t as Elementary>::cosh, hyperbolic),
                ]
            }

            fn exp(z: &Parts) -> Parts {
                let e = real(<$t as Elementary>::exp, &z.re);
                Parts { re: times(&e, &real(<$t as Elementary>::cos, &z.im)), im: times(&e, &real(<$t as Elementary>::sin, &z.im)) }
            }

            fn expm1(z: &Parts) -> Parts {
                let e = exp(z);
                let product = times(&real(<$t as Elementary>::expm1, &z.re), &real(<$t as Elementary>::cos, &z.im));
                let half = real(<$t as Elementary>::sin, &z.im.map(|y| y / 2.0));
                Parts { re: each(|p, s| p - 2.0 * s * s, &product, &half), im: e.im }
            }

            fn sin(z: &Parts) -> Parts {
                let [s, c, sh, ch] = waves(&z.re, &z.im);
                Parts { re: times(&s, &ch), im: times(&c, &sh) }
            }

            fn cos(z: &Parts) -> Parts {
                let [s, c, sh, ch] = waves(&z.re, &z.im);
                Parts { re: times(&c, &ch), im: each(|s, sh| -s * sh, &s, &sh) }
            }

            fn sinh(z: &Parts) -> Parts {
                let [s, c, sh, ch] = waves(&z.im, &z.re);
                Parts { re: times(&sh, &c), im: times(&ch, &s) }
            }

            fn cosh(z: &Parts) -> Parts {
                let [s, c, sh, ch] = waves(&z.im, &z.re);
                Parts { re: times(&ch, &c), im: times(&sh, &s) }
            }

            fn tan(z: &Parts) -> Parts {
                let [s, c, sh, ch] = waves(&z.re.map(|x| x + x), &z.im.map(|y| y + y));
                let d = each(|c, ch| c + ch, &c, &ch);
                Parts { re: each(|s, d| s / d, &s, &d), im: each(|sh, d| sh / d, &sh, &d) }
            }

            fn tanh(z: &Parts) -> Parts {
                let [s, c, sh, ch] = waves(&z.im.map(|y| y + y), &z.re.map(|x| x + x));
                let d = each(|c, ch| ch + c, &c, &ch);
                Parts { re: each(|sh, d| sh / d, &sh, &d), im: each(|s, d| s / d, &s, &d) }
            }

            fn log(z: &Parts) -> Parts {
                let norm = two(<$t as Elementary>::hypot, &z.re, &z.im);
                Parts { re: real(<$t as Elementary>::log, &norm), im: two(<$t as Elementary>::atan2, &z.im, &z.re) }
            }

            fn log1p(z: &Parts) -> Parts {
                let near = each(|x, y| x * (2.0 + x) + y * y, &z.re, &z.im);
                let near = real(<$t as Elementary>::log1p, &near);
                let mut out = log(&Parts { re: z.re.map(|x| x + 1.0), im: z.im });
                for i in 0..PIECE {
                    if (z.re[i].abs() < 0.5) & (z.im[i].abs() < 0.5) {
                        out.re[i] = 0.5 * near[i];
                    }
                }
                out
            }

            /// By the polar form.
            fn sqrt(z: &Parts) -> Parts {
                let r = two(<$t as Elementary>::hypot, &z.re, &z.im).map($t::sqrt);
                let half = two(<$t as Elementary>::atan2, &z.im, &z.re).map(|t| t / 2.0);
                Parts { re: times(&r, &real(<$t as Elementary>::cos, &half)), im: times(&r, &real(<$t as Elementary>::sin, &half)) }
            }

            /// -i log(sqrt(1 - z^2) + i z)
            fn asin(z: &Parts) -> Parts {
                let root = sqrt(&map(z, |z| 1.0 - z * z));
                let l = log(&add(&root, &map(z, |z| $c::new(-z.im, z.re))));
                map(&l, |l| $c::new(l.im, -l.re))
            }

            /// -i log(i sqrt(1 - z^2) + z)
            fn acos(z: &Parts) -> Parts {
                let root = sqrt(&map(z, |z| 1.0 - z * z));
                let l = log(&add(&map(&root, |r| $c::new(-r.im, r.re)), z));
                map(&l, |l| $c::new(l.im, -l.re))
            }

            /// (log(1 + i z) - log(1 - i z)) / 2 i
            fn atan(z: &Parts) -> Parts {
                let (a, b) = (log(&map(z, |z| $c::new(1.0 - z.im, z.re))), log(&map(z, |z| $c::new(1.0 + z.im, -z.re))));
                map(&subtract(&a, &b), |d| $c::new(d.im / 2.0, -d.re / 2.0))
            }

            /// log(z + sqrt(1 + z^2))
            fn asinh(z: &Parts) -> Parts {
                log(&add(z, &sqrt(&map(z, |z| 1.0 + z * z))))
            }

            /// 2 log(sqrt((z + 1) / 2) + sqrt((z - 1) / 2))
            fn acosh(z: &Parts) -> Parts {
                let (a, b) = (sqrt(&map(z, |z| (z + 1.0) / 2.0)), sqrt(&map(z, |z| (z - 1.0) / 2.0)));
                map(&log(&add(&a, &b)), |l| l * 2.0)
            }

            /// (log(1 + z) - log(1 - z)) / 2
            fn atanh(z: &Parts) -> Parts {
                let (a, b) = (log(&map(z, |z| 1.0 + z)), log(&map(z, |z| 1.0 - z)));
                map(&subtract(&a, &b), |d| d / 2.0)
            }

            fn finite(z: $c) -> bool {
                z.re.is_finite() & z.im.is_finite()
            }

            /// Finite, with an exponential of the real part that is finite also if it is squared.
            fn low(z: $c) -> bool {
                (z.re.abs() < $growing) & z.im.is_finite()
            }

            /// As `low`, of the imaginary part.
            fn flat(z: $c) -> bool {
                (z.im.abs() < $growing) & z.re.is_finite()
            }

            /// Not on an axis, where the branch cuts are, nor so large that 1 is lost beside the square.
            fn inside(z: $c) -> bool {
                (z.re.abs() < $large) & (z.im.abs() < $large) & (z.re != 0.0) & (z.im != 0.0)
            }

            /// A function in `f64`.
            pub(in super::super) fn limit(f: fn(Wide) -> Wide, z: $c) -> $c {
                let w = f(Wide::new(z.re.into(), z.im.into()));
                $c::new(w.re as $t, w.im as $t)
            }

            /// `f` of all, in pieces, and `slow` of those that are not `regular`.
            #[inline(always)]
            fn run(
                ins: &[Strip<'_>],
                n: usize,
                out: &mut Buffer,
                (f, regular, slow): (fn(&Parts) -> Parts, fn($c) -> bool, fn($c) -> $c),
            ) -> Option<()> {
                let (a, out) = ($c::of(*ins.first()?)?.get(..n)?, $c::vec(out)?);
                for a in a.chunks(PIECE) {
                    let mut z = Parts { re: [0.5; PIECE], im: [0.5; PIECE] };
                    for ((re, im), a) in z.re.iter_mut().zip(&mut z.im).zip(a) {
                        (*re, *im) = (a.re, a.im);
                    }
                    let (w, from) = (f(&z), out.len());
                    out.extend(w.re.iter().zip(&w.im).take(a.len()).map(|(&re, &im)| $c::new(re, im)));
                    if !a.iter().fold(true, |all, &z| all & regular(z)) {
                        out[from..].iter_mut().zip(a).filter(|(_, z)| !regular(**z)).for_each(|(o, &z)| *o = slow(z));
                    }
                }
                Some(())
            }

            macro_rules! found {
                ($f:expr, $regular:expr, $slow:expr) => {
                    Some(Found::Run(|ins, n, out| run(ins, n, out, ($f, $regular, $slow)), $c::DTYPE))
                };
            }

            /// A function of one input.
            pub(in super::super) fn unary(op: ElementOp) -> Option<Found> {
                use ElementOp as E;
                match op {
                    E::Acos => found!(acos, inside, |z| limit(complex_limits::acos, z)),
                    E::Acosh => found!(acosh, inside, |z| limit(complex_limits::acosh, z)),
                    E::Asin => found!(asin, inside, |z| limit(complex_limits::asin, z)),
                    E::Asinh => found!(asinh, inside, |z| limit(complex_limits::asinh, z)),
                    E::Atan => found!(atan, inside, |z| limit(complex_limits::atan, z)),
                    E::Atanh => found!(atanh, inside, |z| limit(complex_limits::atanh, z)),
                    E::Cos => found!(cos, flat, |z| limit(complex_limits::cos, z)),
                    E::Cosh => found!(cosh, low, |z| limit(complex_limits::cosh, z)),
                    E::Exp => found!(exp, low, |z| limit(complex_limits::exp, z)),
                    E::Expm1 => found!(expm1, finite, Cplx::exp_m1),
                    E::Log => found!(log, finite, |z| z.ln()),
                    E::Log1p => found!(log1p, finite, Cplx::ln_1p),
                    E::Log2 => found!(|z| map(&log(z), |l| l / std::$t::consts::LN_2), finite, |z| z.ln() / std::$t::consts::LN_2),
                    E::Log10 => found!(|z| map(&log(z), |l| l / std::$t::consts::LN_10), finite, |z| z.ln() / std::$t::consts::LN_10),
                    E::Sin => found!(sin, flat, |z| limit(complex_limits::sin, z)),
                    E::Sinh => found!(sinh, low, |z| limit(complex_limits::sinh, z)),
                    E::Tan => found!(tan, flat, |z| limit(complex_limits::tan, z)),
                    E::Tanh => found!(tanh, low, |z| limit(complex_limits::tanh, z)),
                    _ => None,
                }
            }
        }
    )*};
}
table! { f32 Complex32 40.0 10.0 f64 Complex64 300.0 100.0 }

"""Makes src/coefficients.rs: near-minimax polynomials by interpolation at Chebyshev nodes in 60 digits.

Usage: python coefficients.py > ../src/coefficients.rs; cargo fmt   (needs mpmath)

Every polynomial approximates a function with its leading terms taken off, so that rounding the coefficients does not hurt:
the error printed beside each table is that of the whole function, relative, with the rounded coefficients.
"""

from mpmath import mp, mpf, cos, pi, exp, log, sin, sinh, cosh, atan, asin, sqrt, lu_solve, matrix, taylor, nstr, asinh, tan
import struct

mp.dps = 60


def f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def f64(x):
    return mpf(float(x))


def fit(rest, lo, hi, terms):
    """Coefficients, lowest first, of the interpolant of `rest` at the Chebyshev nodes of [lo, hi]."""
    nodes = [(lo + hi) / 2 + (hi - lo) / 2 * cos((2 * i + 1) * pi / (2 * terms)) for i in range(terms)]
    a = matrix(terms, terms)
    b = matrix(terms, 1)
    for i, x in enumerate(nodes):
        for j in range(terms):
            a[i, j] = x**j
        b[i] = rest(x)
    return list(lu_solve(a, b))


def horner(c, x):
    y = mpf(0)
    for a in reversed(c):
        y = y * x + a
    return y


def table(name, doc, kind, rest, lo, hi, terms, weight):
    """`weight(z)` times an error of the polynomial at z is the relative error of the function."""
    rounding = f64 if kind == "f64" else f32
    c = [rounding(x) for x in fit(rest, mpf(lo), mpf(hi), terms)]
    worst = mpf(0)
    for i in range(2001):
        z = mpf(lo) + (mpf(hi) - mpf(lo)) * i / 2000
        if abs(z) < mpf(10) ** -12:
            continue
        worst = max(worst, abs((horner(c, z) - rest(z)) * weight(z)))
    bits = nstr(log(worst) / log(2), 4) if worst else "-inf"
    print(f"/// {doc}; relative error 2^{bits}.")
    numbers = []
    for x in c:
        if kind == "f64":
            numbers.append(repr(float(x)))
        else:
            digits = next(d for d in range(1, 18) if f32(float(f"{float(x):.{d}e}")) == x)
            numbers.append(f"{float(x):.{digits}e}")
    print(f"pub(crate) const {name}: [{kind}; {terms}] = [")
    for n in numbers:
        print(f"    {n},")
    print("];\n")


def series(f, z, order):
    """f near a removable singularity: the Taylor polynomial, given by its coefficients."""
    return horner(f[:order], z)


def factorial(n):
    return mpf(1) if n < 2 else n * factorial(n - 1)


N = 40
E = [1 / factorial(i + 2) for i in range(N)]
SH = [1 / factorial(2 * i + 3) for i in range(N)]
CH = [1 / factorial(2 * i + 2) for i in range(N)]
SN = [(-1) ** (i + 1) / factorial(2 * i + 3) for i in range(N)]
CS = [(-1) ** i / factorial(2 * i + 4) for i in range(N)]
# Slowly converging ones by their closed forms.
LOG = lambda z: sum(2 * z**i / (2 * i + 3) for i in range(60))
POW = lambda z: sum(2 * z**i / (2 * i + 5) for i in range(60))


def at(z):
    if z < mpf(10) ** -8:
        return sum((-1) ** (i + 1) * z**i / (2 * i + 3) for i in range(12))
    t = sqrt(z)
    return (atan(t) - t) / (t * z)


def asn(z):
    if z < mpf(10) ** -8:
        return sum(factorial(2 * i) / (4**i * factorial(i) ** 2 * (2 * i + 1)) * z ** (i - 1) for i in range(1, 12))
    t = sqrt(z)
    return (asin(t) - t) / (t * z)


def tn(z):
    if z < mpf(10) ** -8:
        return mpf(1) / 3 + z * 2 / 15 + z * z * 17 / 315 + z**3 * 62 / 2835
    t = sqrt(z)
    return (tan(t) - t) / (t * z)


def lg(f):
    if abs(f) < mpf(10) ** -8:
        return sum((-1) ** i * f**i / (i + 3) for i in range(12))
    return (log(1 + f) - f + f * f / 2) / f**3


def split(name, doc, value, bits, parts=2):
    """The value as a sum of numbers; all but the last have at most `bits` bits."""
    out = []
    for i in range(parts):
        if i == parts - 1:
            x = f64(value)
        else:
            e = int(mp.floor(log(abs(value)) / log(2)))
            scale = mpf(2) ** (bits - 1 - e)
            x = mp.nint(value * scale) / scale
        out.append(x)
        value = value - x
    print(f"/// {doc}, as a sum; every part but the last has {bits} bits at most.")
    print(f"pub(crate) const {name}: [f64; {parts}] = [{', '.join(repr(float(x)) for x in out)}];\n")


def split32(name, doc, value, bits, parts=2):
    out = []
    for i in range(parts):
        if i == parts - 1:
            x = f32(value)
        else:
            e = int(mp.floor(log(abs(value)) / log(2)))
            scale = mpf(2) ** (bits - 1 - e)
            x = mp.nint(value * scale) / scale
        out.append(x)
        value = value - x
    print(f"/// {doc}, as a sum; every part but the last has {bits} bits at most.")
    print(f"pub(crate) const {name}: [f32; {parts}] = [{', '.join(repr(float(x)) for x in out)}];\n")


print("//! Polynomials and constants, made by `tools/coefficients.py`.\n")
print("#![allow(clippy::excessive_precision, clippy::approx_constant)]\n")
L = log(mpf(2)) / 2 * mpf("1.0001")
Q = (pi / 4) * mpf("1.0001")
T = mpf("0.41425")
for kind, suffix, n in (("f64", "", 0), ("f64", "_SHORT", 1), ("f32", "_F32", 2)):
    pick = lambda *lengths: lengths[n]
    table(f"EXP{suffix}", "(exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2", kind, lambda r: series(E, r, N), -L, L, pick(10, 6, 5),
          lambda r: r * r * exp(-r))
    if n < 2:
        table(f"SINH{suffix}", "(sinh(r) - r) / r^3 in r^2, |r| <= ln(2)/2", kind, lambda z: series(SH, z, N), 0, L * L, pick(6, 3, 2),
              lambda z: z)
        table(f"COSH{suffix}", "(cosh(r) - 1) / r^2 in r^2, |r| <= ln(2)/2", kind, lambda z: series(CH, z, N), 0, L * L, pick(6, 3, 2),
              lambda z: z)
    S = mpf("0.2035")
    if n < 2:
        table(f"LOG{suffix}", "(log((1+s)/(1-s)) - 2 s) / s^3 in s^2", kind, LOG, 0, S * S, pick(8, 4, 3), lambda z: z / 2)
        table(f"SIN{suffix}", "(sin(r) - r) / r^3 in r^2, |r| <= pi/4", kind, lambda z: series(SN, z, N), 0, Q * Q, pick(6, 4, 3),
              lambda z: z)
        table(f"COS{suffix}", "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4", kind, lambda z: series(CS, z, N), 0, Q * Q, pick(6, 4, 3),
              lambda z: z * z / cos(sqrt(z)))
    else:
        table("SINH_F32", "(sinh(r) - r) / r^3 in r^2, |r| <= ln(2)/2", kind, lambda z: series(SH, z, N), 0, L * L, 3, lambda z: z)
        table("COSH_F32", "(cosh(r) - 1) / r^2 in r^2, |r| <= ln(2)/2", kind, lambda z: series(CH, z, N), 0, L * L, 3, lambda z: z)
        table("SIN_F32", "(sin(r) - r) / r^3 in r^2, |r| <= 0.82", kind, lambda z: series(SN, z, N), 0, mpf("0.82") ** 2, 3, lambda z: z)
        table("COS_F32", "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= 0.82", kind, lambda z: series(CS, z, N), 0, mpf("0.82") ** 2, 3,
              lambda z: z * z / cos(sqrt(z)))
        table("TAN_F32", "(tan(r) - r) / r^3 in r^2, |r| <= 0.82", kind, tn, 0, mpf("0.82") ** 2, 7, lambda z: z)
        table("TURN_F32", "(atan(t) - t) / t^3 in t^2, |t| <= 1", kind, at, 0, 1, 10, lambda z: z * sqrt(z) / atan(sqrt(z)) if z else mpf(0))
        table("SERIES_F32", "(log((1+s)/(1-s)) - 2 s) / s^3 in s^2", kind, LOG, 0, mpf("0.246") ** 2, 4, lambda z: z / 2)
        table("POW_F32", "As SERIES_F32 for sqrt(1/2) <= (1+s)/(1-s) <= sqrt(2)", kind, LOG, 0, mpf("0.1718") ** 2, 4, lambda z: z / 2)
        table("LOG_F32", "(log(1+f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2)", kind, lg, mpf("-0.29290"), mpf("0.41423"), 9,
              lambda f: f**3 / log(1 + f))
    table(f"ATAN{suffix}", "(atan(t) - t) / t^3 in t^2, |t| <= tan(pi/8)", kind, at, 0, T * T, pick(11, 6, 5), lambda z: z)
    table(f"ASIN{suffix}", "(asin(t) - t) / t^3 in t^2, |t| <= 1/2", kind, asn, 0, mpf("0.2501"), pick(14, 7, 6), lambda z: z)
P = mpf("0.1718")
table("POW", "(log((1+s)/(1-s)) - 2 s - 2/3 s^3) / s^5 in s^2", "f64", POW, 0, P * P, 8, lambda z: z**2 / 2)
split("LN2", "ln 2", log(mpf(2)), 40)
split("LN2_53", "ln 2", log(mpf(2)), 53)
split("PIO2", "pi/2", pi / 2, 53, 3)
split("PIO2_SHORT", "pi/2", pi / 2, 33)
split("LOG10_2", "log10 2", log(mpf(2)) / log(mpf(10)), 40)
split("LOG2_E", "1 / ln 2", 1 / log(mpf(2)), 53)
split("LOG10_E", "1 / ln 10", 1 / log(mpf(10)), 53)
split("TWO_THIRDS", "2/3", mpf(2) / 3, 53)
split32("PIO2_PARTS_F32", "pi/2", pi / 2, 24, 3)
split32("LN2_F32", "ln 2", log(mpf(2)), 12)
split32("PIO2_F32", "pi/2", pi / 2, 24)
split32("LOG10_2_F32", "log10 2", log(mpf(2)) / log(mpf(10)), 12)
split32("LOG2_E_F32", "1 / ln 2", 1 / log(mpf(2)), 24)
split32("LOG10_E_F32", "1 / ln 10", 1 / log(mpf(10)), 24)

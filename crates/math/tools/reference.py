"""Makes tests/reference.bin: arguments and results of every f64 function, from mpmath with 80 digits and more.

Usage: python reference.py ../tests/reference.bin   (needs mpmath)

For each function in the order of NAMES: little-endian u32 count, then count records of arguments and result, 8 bytes each, all f64.
Results are rounded to nearest once; results below the normal range are left out.
"""

import math
import random
import struct
import sys
from mpmath import mp, mpf
import mpmath

rng = random.Random(20)


def exponents(low, high, count, signed=True):
    """Random mantissas, exponents uniform in [low, high)."""
    out = []
    for _ in range(count):
        x = math.ldexp(1 + rng.random(), rng.randrange(low, high))
        out.append(-x if signed and rng.random() < 0.5 else x)
    return out


def near(points, count):
    """At and around given points, at distances of few and of many units."""
    out = []
    for p in points:
        for _ in range(count):
            u = math.ulp(p) * rng.choice([0, 1, -1, 2, -2, rng.randrange(-1000, 1000), rng.randrange(-(2**30), 2**30)])
            out.append(p + u)
    return out


def uniform(low, high, count):
    return [rng.uniform(low, high) for _ in range(count)]


K = 60
quarter = [float(k * mp.pi / 4) for k in list(range(-20, 21)) + [1000, 99999, 2**20 + 1, 85445659]]
HALF_LN2 = [k * math.log(2) / 2 for k in range(-9, 10)]
ARGUMENTS = {
    "exp": exponents(-60, 9, 300) + uniform(-700, 700, 300) + near(HALF_LN2 + [709.7, -708.3], 6),
    "exp2": exponents(-60, 10, 300) + uniform(-1020, 1020, 300) + near([0.5, 1.5, -0.5, 1023.5], 6),
    "expm1": exponents(-70, 9, 400) + uniform(-40, 40, 400) + near(HALF_LN2, 8),
    "log": exponents(-1022, 1024, 300, False) + uniform(0.5, 2, 300) + near([1.0, math.sqrt(0.5), math.sqrt(2)], 60) + [5e-324, 3e-310],
    "log1p": exponents(-70, 1000, 300, False) + exponents(-60, 3, 300, False) + uniform(-1, 1, 500) + near([-0.999999, -0.5, -0.25, 0.5, 1], 20),
    "sin": exponents(-60, 27, 700) + near(quarter, 8) + uniform(-10, 10, 300),
    "asin": exponents(-60, 0, 300) + uniform(-1, 1, 400) + near([0.5, -0.5, 0.99, 0.9999999], 20),
    "atan": exponents(-60, 60, 400) + uniform(-4, 4, 400) + near([0.4142, 2.4143, 1.0, -1.0], 20),
    "sinh": exponents(-60, 9, 400) + uniform(-8, 8, 400) + near(HALF_LN2 + [710.0], 8),
    "tanh": exponents(-60, 5, 400) + uniform(-3, 3, 400) + near(HALF_LN2, 8),
    "asinh": exponents(-60, 1000, 250) + exponents(-10, 10, 400) + near([0.35, 1.0, 1e9], 20),
    "acosh": [1 + abs(x) for x in exponents(-52, 10, 500)] + exponents(1, 1000, 200, False) + near([1.06, 1.5, 1e9], 20),
    "atanh": exponents(-60, 0, 300) + uniform(-1, 1, 500) + near([0.1716, 0.3, 0.999999], 20),
}
ARGUMENTS["log2"] = ARGUMENTS["log10"] = ARGUMENTS["log"]
ARGUMENTS["cos"] = ARGUMENTS["tan"] = ARGUMENTS["sin"]
ARGUMENTS["acos"] = ARGUMENTS["asin"]
ARGUMENTS["cosh"] = ARGUMENTS["sinh"]


def powers(count):
    out = []
    for _ in range(count):
        x = math.ldexp(1 + rng.random(), rng.choice([0, 0, -1, rng.randrange(-1022, 1024)]))
        if rng.random() < 0.2:
            x = 1 + rng.choice([-1, 1]) * math.ldexp(rng.random(), -rng.randrange(1, 50))
        if x == 1:
            continue
        y = rng.uniform(-700, 700) / math.log(x)
        if rng.random() < 0.5:
            y *= rng.random() ** 3
        out.append((x, y))
    return out


def pairs(low, high, count):
    return list(zip(exponents(low, high, count), exponents(low, high, count)))


ARGUMENTS2 = {
    "pow": powers(1000),
    "atan2": pairs(-3, 4, 500) + pairs(-300, 300, 200) + [(x * math.tan(a), x) for x, a in zip(uniform(-9, 9, 200), uniform(-3, 3, 200))],
    "hypot": pairs(-3, 4, 300) + pairs(-1000, 1000, 100) + pairs(-30, 30, 200),
    "logaddexp": pairs(-3, 6, 300) + [(x, x - d) for x, d in zip(uniform(-50, 50, 200), exponents(-30, 6, 200))],
}
FUNCTIONS = {
    "exp": mp.exp, "exp2": lambda x: mpf(2) ** x, "expm1": mp.expm1, "log": mp.log, "log2": lambda x: mp.log(x) / mp.log(2),
    "log10": lambda x: mp.log(x) / mp.log(10), "log1p": lambda x: mp.log(1 + x), "sin": mp.sin, "cos": mp.cos, "tan": mp.tan,
    "asin": mp.asin, "acos": mp.acos, "atan": mp.atan, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "asinh": mp.asinh,
    "acosh": mp.acosh, "atanh": mp.atanh, "pow": lambda x, y: x**y, "atan2": lambda y, x: mpmath.atan2(y, x),
    "hypot": lambda x, y: mp.sqrt(x * x + y * y), "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
}
NAMES = list(FUNCTIONS)

mp.prec = 2400  # beyond the 1,022 bits that small arguments beside one take
data = bytearray()
for name in NAMES:
    wide = name in ("log1p", "asinh", "expm1")
    mp.prec = 2400 if wide else 400
    records = []
    for a in ARGUMENTS2.get(name) or [(x,) for x in ARGUMENTS[name]]:
        if not all(math.isfinite(x) for x in a):
            continue
        if name == "logaddexp":
            mp.prec = 600
        y = float(FUNCTIONS[name](*map(mpf, a)))
        if math.isfinite(y) and (abs(y) >= 2.3e-308 or y == 0):
            records.append(struct.pack(f"<{len(a) + 1}d", *a, y))
    data += struct.pack("<I", len(records)) + b"".join(records)
    print(name, len(records), file=sys.stderr)
with open(sys.argv[1], "wb") as f:
    f.write(data)
print(len(data), file=sys.stderr)

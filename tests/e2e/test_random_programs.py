"""Programs drawn at random, with little memory, against NumPy: results, peak memory (of some, that of each task), and bytes read. Some are over
arrays of 100 MB and more.

Each of a program's arrays is one expression over the ones before it, and mostly over the last ones, so that reductions of reductions,
shuffles of products and views of views come about that nobody would think of. Integers must be equal; floats go through smooth
functions only, so that rounding is all that may differ.

`CHUNKWISE_DRAWN` is how many there are (60 if it is not set), and `CHUNKWISE_SEED` where they begin: a number, or `fresh` for other ones each time.
"""

import os

import numpy as np
import pytest
from harness import NUMPY, chunkwise, read_array, write_array, write_pipeline
from projections import check_projections
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

DRAWN = int(os.environ.get("CHUNKWISE_DRAWN", 60))
FIRST = int(os.environ.get("CHUNKWISE_SEED", "0"))
CODECS = [None, BloscCodec(cname="lz4"), ZstdCodec(level=1), GzipCodec(level=1)]


class Drawn:
    """A program that is drawn step by step, with the values that NumPy has for it; none has more than `most` elements."""

    def __init__(self, seed, most):
        self.most = most
        self.rng = np.random.default_rng(seed)
        self.exact = bool(self.rng.integers(2))
        self.values, self.expressions = {}, {}

    def upto(self, n):
        return int(self.rng.integers(n))

    def one(self, options):
        return options[self.upto(len(options))]

    def name(self):
        """An array, rather a late one."""
        names = list(self.values)
        return names[-1 - int(self.rng.beta(1, 2) * len(names))]

    def axes(self, rank, least):
        found = sorted(int(a) for a in self.rng.permutation(rank)[: least + self.upto(rank + 1 - least)])
        return found[0] if len(found) == 1 else tuple(found)

    def expression(self):
        """An expression, or None if nothing fits what was drawn."""
        a = self.name()
        rank = self.values[a].ndim
        kinds = [self.unary] + [self.binary] * 3 + [self.reduced] * 3
        if rank:
            kinds += [self.sliced] * 2 + [self.deviation] * 2 + [self.joined, self.reshaped, self.taken, self.moved, self.product]
        return self.one(kinds)(a, self.values[a], self.upto(rank) if rank else None)

    def unary(self, a, _x, _axis):
        smooth = [] if self.exact else [f"sqrt(abs({a}))", f"exp(-abs({a}))"]
        return self.one([f"abs({a})", f"{a} * 2 + 1", f"-{a}", f"maximum({a}, 3)", *smooth])

    def beside(self, fits):
        """Another array, if one fits."""
        return next((b for b in (self.name() for _ in range(10)) if fits(self.values[b])), None)

    def binary(self, a, x, _axis):
        def fits(y):
            try:
                return np.prod(np.broadcast_shapes(x.shape, y.shape)) <= self.most
            except ValueError:
                return False

        b = self.beside(fits)
        other = f"where({a} > {b}, {a}, {b} + 1)" if self.exact else f"{a} / (abs({b}) + 1)"
        return b and self.one([f"{a} + {b}", f"{a} - {b}", f"{a} * {b}", f"minimum({a}, {b})", other])

    def reduced(self, a, x, axis):
        keep = f"keepdims={bool(self.upto(2))}"
        if self.exact and axis is not None and self.upto(3) == 0:
            return f"{self.one(['argmax', 'argmin'])}({a}, {self.one([f'axis={axis}, ', ''])}{keep})"
        function = self.one(["sum", "max", "min", *(["prod"] if self.exact else ["mean", "std", "var"])])
        axes = self.axes(x.ndim, 0)
        return f"{function}({a}, {keep})" if axes == () else f"{function}({a}, axis={axes}, {keep})"

    def deviation(self, a, x, _axis):
        function = self.one(["max", "min", "sum" if self.exact else "mean"])
        return f"{a} - {function}({a}, axis={self.axes(x.ndim, 1)}, keepdims=True)"

    def sliced(self, a, x, _axis):
        def part(n):
            first = self.upto(n)
            return self.one([":", ":", f"{first}:{first + 1 + self.upto(n - first)}", f"{first}::{1 + self.upto(3)}", f"::-{1 + self.upto(3)}", str(first)])

        return f"{a}[{', '.join(part(n) for n in x.shape)}]"

    def joined(self, a, x, axis):
        function = self.one(["concat", "stack"])

        def fits(y):
            same = [m == n for i, (m, n) in enumerate(zip(x.shape, y.shape, strict=False)) if i != axis or function == "stack"]
            return y.ndim == x.ndim and y.dtype == x.dtype and all(same) and x.size + y.size <= self.most

        b = self.beside(fits)
        return b and f"{function}([{a}, {b}], axis={axis})"

    def reshaped(self, a, x, axis):
        shape = list(x.shape)
        if axis + 1 < x.ndim and self.upto(2):
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        else:
            factors = [d for d in range(2, 12) if shape[axis] % d == 0]
            if not factors or x.ndim > 3:
                return None
            factor = self.one(factors)
            shape[axis : axis + 1] = [factor, shape[axis] // factor]
        return f"reshape({a}, {shape})"

    def taken(self, a, x, axis):
        indices = [self.upto(x.shape[axis]) for _ in range(1 + self.upto(8))]
        return f"take({a}, {self.one([indices, sorted(indices)])}, axis={axis})"

    def moved(self, a, x, axis):
        width = [[0, 0] for _ in x.shape]
        width[axis] = [self.upto(4), self.upto(4)]
        mode = self.one(["constant", "edge", "wrap"])
        return self.one(
            [
                f"permute_dims({a}, {[int(i) for i in self.rng.permutation(x.ndim)]})",
                f"roll({a}, {self.upto(200) - 5}, axis={axis})",
                f"flip({a}, axis={axis})",
                f"diff({a}, axis={axis})" if x.shape[axis] > 1 else None,
                f"expand_dims({a}, axis={axis})" if x.ndim < 4 else None,
                f"pad({a}, {width}, mode='{mode}')",
            ]
        )

    def product(self, a, x, _axis):
        work = 300_000_000
        b = self.beside(lambda y: x.ndim == y.ndim == 2 and x.shape[1] == y.shape[0] and x.size * y.shape[1] < work)
        if b is None and x.ndim == 2 and x.size * x.shape[0] < work:
            return f"matmul({a}, permute_dims({a}, [1, 0]))"
        return b and f"matmul({a}, {b})"

    def input(self, folder, name, shape):
        """Write an input in small chunks of any shape, but not in very many."""
        kind = self.one(["int64", "int32"]) if self.exact else self.one(["float64", "float64", "float32"])
        values = self.rng.integers(-50, 50, shape) if self.exact else self.rng.uniform(-2, 2, shape)
        chunks = [1 + self.upto(n) for n in shape]
        while np.prod(chunks) > 50_000:
            axis = self.upto(len(shape))
            chunks[axis] = -(-chunks[axis] // 2)
        while np.prod(counts := [-(-n // c) for n, c in zip(shape, chunks, strict=True)]) > 400:
            chunks[int(np.argmax(counts))] *= 2
        shards = {"shards": tuple(c * (1 + self.upto(2)) for c in chunks)} if self.upto(5) == 0 else {}
        self.values[name] = values.astype(kind)
        write_array(folder / "in" / name, self.values[name], chunks, compressors=self.one(CODECS), **shards)

    def extend(self):
        """Add an array, unless it is empty, large, or far from 1."""
        expression = self.expression()
        if expression is None:
            return
        with np.errstate(all="ignore"):
            value = np.asarray(eval(expression, {"__builtins__": {}}, {**NUMPY, **self.values}))  # noqa: S307
        if 0 < value.size <= self.most and value.ndim <= 5 and (self.exact or np.all(np.abs(value) < 1e12)):
            name = f"a{len(self.expressions)}"
            self.expressions[name], self.values[name] = expression, value


# Seeds that found a defect: a shard of small chunks whose buffers left holes beside the arrays that were loaded after it.
FOUND = [1795701293395]


@pytest.mark.parametrize("seed", [*FOUND, *range(FIRST, FIRST + DRAWN)])
def test_programs_hold_what_numpy_does(tmp_path, seed):
    large = seed % 8 == 7
    drawn = Drawn(seed, 20_000_000 if large else 3_000_000)
    shape = tuple(n + drawn.upto(n) for n in ((90, 330, 330) if large else (25, 110, 110)))
    for name, own in {"x": shape, "w": shape, "p": shape[1:], "t": (shape[0], 1, 1)}.items():
        drawn.input(tmp_path, name, own)
    inputs = {name: f"in/{name}" for name in drawn.values}
    size = sum(values.nbytes for values in drawn.values.values())
    steps = 2 + drawn.upto(4 if large else 12)
    while len(drawn.expressions) < steps:
        drawn.extend()
    names = list(drawn.expressions)
    outputs = {f"out/{name}": name for name in dict.fromkeys([names[-1], drawn.one(names)])}
    budget, workers = 76 + drawn.upto(30), 1 + drawn.upto(3)
    path = write_pipeline(tmp_path, inputs, drawn.expressions, outputs, spec={"fuse": drawn.upto(8) > 0})
    # Half of these are the large ones.
    if seed % 4 == 3:
        report = check_projections(tmp_path, path, f"{budget}MB", "--workers", workers)
    else:
        report = chunkwise("run", path, "--allowed-mem", f"{budget}MB", "--workers", workers, "--json").ok().report
    assert report["peak_memory"] <= budget * 1e6
    assert report["bytes_read"] <= 25 * size + 50e6, f"{report['bytes_read'] / size:.0f} times the inputs"
    single = any(values.dtype == np.float32 for values in drawn.values.values())
    scale = max(float(np.max(np.abs(values))) for values in drawn.values.values())
    for target, name in outputs.items():
        found, expected = read_array(tmp_path / target), drawn.values[name]
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
        if drawn.exact:
            np.testing.assert_array_equal(found, expected, err_msg=name)
        else:
            tolerance = 2e-4 if single else 1e-9
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale, err_msg=name)

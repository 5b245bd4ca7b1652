"""What the end-to-end tests share: running the command, writing inputs, comparing with NumPy, drawing arrays.

An expression of the pipeline language whose functions have NumPy's names is also a Python expression, so most cases are one
string that is evaluated twice: by `chunkwise run` and by `eval` over NumPy.
"""

import json
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import zarr
from hypothesis import strategies as st

TIMEOUT = 120
NUMPY = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")}
NUMPY |= {"nan": np.nan, "inf": np.inf, "astype": lambda x, dtype: np.asarray(x).astype(dtype)}


def binary():
    path = os.environ.get("CHUNKWISE_BIN")
    if not path:
        raise RuntimeError("CHUNKWISE_BIN is not set: build the command and point CHUNKWISE_BIN at it, or use tests/run")
    if not pathlib.Path(path).is_file():
        raise RuntimeError(f"CHUNKWISE_BIN={path} is not a file")
    return str(pathlib.Path(path).resolve())


def write_array(path, values, chunks=None, dims=None, attributes=None, **options):
    """Write one Zarr v3 array; chunks default to the whole array."""
    values = np.asarray(values)
    chunks = tuple(max(1, c) for c in (values.shape if chunks is None else chunks))
    array = zarr.create_array(
        str(path),
        shape=values.shape,
        chunks=chunks,
        dtype=values.dtype,
        compressors=options.pop("compressors", None),
        dimension_names=dims,
        attributes=attributes or {},
        **options,
    )
    array[...] = values
    return array


def write_large(folder, name, seed):
    """Write 320 MB as (time, y, x) in chunks of 8 MB, piece by piece."""
    array = zarr.create_array(
        str(folder / "in.zarr" / name), shape=(400, 400, 500), chunks=(10, 400, 500), dtype="float32", compressors=None, dimension_names=["time", "y", "x"]
    )
    rng = np.random.default_rng(seed)
    for start in range(0, 400, 10):
        array[start : start + 10] = rng.standard_normal((10, 400, 500), dtype="float32")


def read_array(path):
    return np.asarray(zarr.open_array(str(path), mode="r")[...])


def stored(path):
    """The bytes of the chunks of an array in a folder."""
    return sum(found.stat().st_size for found in (pathlib.Path(path) / "c").rglob("*") if found.is_file())


def stages_reading(plan, array):
    return [stage for stage in plan["stages"] if any(step.get("read") == array for step in stage["program"]["steps"])]


@dataclass
class Finished:
    """A run of the command that has ended."""

    code: int
    stdout: str
    stderr: str
    outputs: dict = field(default_factory=dict)

    @property
    def report(self):
        """What `--json` printed: one document, or the last of several lines."""
        try:
            return json.loads(self.stdout)
        except json.JSONDecodeError:
            return json.loads(self.stdout.strip().splitlines()[-1])

    def ok(self):
        assert "panicked" not in self.stderr, self.stderr
        assert self.code == 0, f"exit code {self.code}\n{self.stdout[-2000:]}\n{self.stderr[-4000:]}"
        return self

    def failed(self, *names):
        """The run failed in an orderly way, and the message names each of `names` (a tuple: any of them)."""
        message = self.stderr + self.stdout
        assert "panicked" not in message, message
        assert 0 < self.code < 128 and self.code != 101, f"exit code {self.code}\n{message}"
        assert self.stderr.strip(), "an error must be reported on stderr"
        lower = message.lower()
        for name in names:
            accepted = (name,) if isinstance(name, str) else name
            assert any(n.lower() in lower for n in accepted), f"the error names none of {accepted}:\n{message}"
        return self


def chunkwise(*args, cwd=None, env=None, timeout=TIMEOUT, prefix=()):
    """Run the command with arguments; `prefix` is a command to run it under."""
    done = subprocess.run(
        [*prefix, binary(), *map(str, args)],
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def write_inputs(folder, arrays):
    """Write `{name: array | (array, chunks) | (array, chunks, dims)}`; returns the pipeline's inputs."""
    inputs = {}
    for name, spec in arrays.items():
        values, chunks, dims = (*spec, None, None)[:3] if isinstance(spec, tuple) else (spec, None, None)
        write_array(folder / "in.zarr" / name, values, chunks, dims)
        inputs[name] = f"in.zarr/{name}"
    return inputs


def write_pipeline(folder, inputs, arrays, outputs, name="pipeline.json", spec=None):
    document = {
        "inputs": inputs,
        "arrays": arrays,
        "outputs": outputs,
        # The arrays of tests are tiny, and would be one chunk.
        "spec": {"work_dir": str(folder / "work"), "join_chunks": False, **(spec or {})},
    }
    path = folder / name
    path.write_text(json.dumps({k: v for k, v in document.items() if v}, indent=1))
    return path


def run_in(folder, pipeline, arrays, outputs=None, allowed_mem="500MB", env=None, args=(), check=True):
    """Run a pipeline (`{"arrays": {name: expression}, ...}`) over arrays; read the outputs (default: every array) back."""
    folder = pathlib.Path(folder)
    inputs = {**write_inputs(folder, arrays), **pipeline.get("inputs", {})}
    if outputs is None:
        outputs = {name: name for name in pipeline.get("arrays", {})}
    # Dimensions have one length in a group: outputs with named dimensions are in groups of their own.
    apart = len(outputs) > 1 and any(isinstance(spec, tuple) and len(spec) > 2 and spec[2] for spec in arrays.values())
    places = {name: f"out/{name}.zarr/{name}" if apart else f"out.zarr/{name}" for name in outputs}
    targets = {places[name]: value for name, value in outputs.items()}
    path = write_pipeline(folder, inputs, pipeline.get("arrays", {}), targets, spec=pipeline.get("spec"))
    done = chunkwise("run", path, "--allowed-mem", allowed_mem, "--json", *args, env=env)
    if check:
        done.ok()
        assert done.report is not None
    if done.code == 0:
        done.outputs = {name: read_array(folder / place) for name, place in places.items()}
    return done


# Comparing


@dataclass
class Case:
    """One expression over named arrays. Floats may differ by `eps * (ulps * |expected| + scale)`."""

    expr: str
    arrays: dict
    ulps: float = 4
    scale: float = 0.0
    expected: object = None

    def reference(self):
        if self.expected is not None:
            return np.asarray(self.expected)
        values = {name: spec[0] if isinstance(spec, tuple) else spec for name, spec in self.arrays.items()}
        with np.errstate(all="ignore"):
            return np.asarray(eval(self.expr, {"__builtins__": {}}, {**NUMPY, **values}))  # noqa: S307

    def describe(self):
        parts = []
        for name, spec in self.arrays.items():
            values, chunks = spec[:2] if isinstance(spec, tuple) else (spec, None)
            parts.append(f"{name}: {values.dtype}{values.shape} chunks {chunks}")
        return f"{self.expr}  [{'; '.join(parts)}]"


def difference(actual, expected, ulps=4, scale=0.0):
    """None when the arrays agree, else a sentence."""
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    if expected.dtype.kind not in "fc":
        wrong = actual != expected
    else:
        eps = np.finfo(expected.dtype).eps
        with np.errstate(all="ignore"):
            wide = np.complex128 if expected.dtype.kind == "c" else np.float64
            a, e = actual.astype(wide), expected.astype(wide)
            close = np.abs(a - e) <= eps * (ulps * np.abs(e) + scale) + np.finfo(expected.dtype).smallest_normal
        wrong = ~(close | (a == e) | (np.isnan(a) & np.isnan(e)))
    if not np.any(wrong):
        return None
    where = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    a, e = np.atleast_1d(actual)[where], np.atleast_1d(expected)[where]
    return f"{int(np.sum(wrong))} of {wrong.size} elements differ; at {where}: {a!r}, expected {e!r}"


def assert_close(actual, expected, ulps=4, scale=0.0, what=""):
    found = difference(np.asarray(actual), np.asarray(expected), ulps, scale)
    assert found is None, f"{what}: {found}"


# How every batch is planned: the results may depend neither on what shares a stage nor on the budget.
MODES = [("500MB", {}), ("90MB", {"fuse": False})]


def check_batch(make_folder, cases, allowed_mem=None, args=(), modes=None):
    """Run all cases in one process, in every mode; when a run fails, run them one by one to say which are to blame."""
    cases = list(cases)
    for budget, spec in modes or MODES:
        check_mode(make_folder, cases, allowed_mem or budget, spec, args)


def check_mode(make_folder, cases, allowed_mem, spec, args):
    arrays, expressions = {}, {}
    for i, case in enumerate(cases):
        expressions[f"out{i}"] = _rename(case, i, arrays)
    done = run_in(make_folder(), {"arrays": expressions, "spec": spec}, arrays, allowed_mem=allowed_mem, args=args, check=False)
    problems = []
    if done.code == 0:
        for i, case in enumerate(cases):
            found = difference(done.outputs[f"out{i}"], case.reference(), case.ulps, case.scale)
            if found:
                problems.append(f"{case.describe()}: {found}")
    elif len(cases) == 1:
        problems.append(f"{cases[0].describe()}: exit code {done.code}: {done.stderr.strip()[-1500:]}")
    else:
        for case in cases:
            try:
                check_mode(make_folder, [case], allowed_mem, spec, args)
            except AssertionError as error:
                problems.append(str(error))
        problems = problems or [f"the batch failed although each case succeeds alone: {done.stderr.strip()[-1500:]}"]
    assert not problems, "\n".join(problems[:20]) + (f"\nand {len(problems) - 20} more" if len(problems) > 20 else "")


def _rename(case, i, arrays):
    """Give the case's arrays names of their own, and return its expression with them."""
    import re

    expr = case.expr
    for name, spec in case.arrays.items():
        arrays[f"{name}{i}"] = spec
        # A name, but not a keyword argument, a function or text.
        expr = re.sub(rf"(?<![\w\"'.]){name}(?![\w\"'(]|\s*=[^=])", f"{name}{i}", expr)
    return expr


# Drawing

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
NUMERIC = INTEGERS + FLOATS + COMPLEX
ALL = BOOL + NUMERIC


def values(seed, shape, dtype, low=-8, high=8):
    """Random values that overflow nothing when a few are multiplied."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(max(low, 0) if dtype.kind == "u" else low, high, size=shape)).astype(dtype)
    real = rng.uniform(low, high, size=shape)
    if dtype.kind == "c":
        return np.asarray(real + 1j * rng.uniform(low, high, size=shape)).astype(dtype)
    return np.asarray(real).astype(dtype)


def chunks_for(shape):
    """Chunk lengths from 1 to a little more than the axis: size 1, uneven, exact and too large."""
    return st.tuples(*(st.integers(1, n + 2) for n in shape))


def shapes(min_dims=0, max_dims=4, min_side=0, max_side=7):
    return st.lists(st.integers(min_side, max_side), min_size=min_dims, max_size=max_dims).map(tuple)


@st.composite
def arrays(draw, dtype=None, shape=None, low=-8, high=8, **sides):
    """A pair (array, chunks)."""
    dtype = draw(st.sampled_from(dtype if isinstance(dtype, list) else [dtype or "float64"]))
    shape = draw(shapes(**sides)) if shape is None else shape
    seed = draw(st.integers(0, 2**32 - 1))
    return values(seed, shape, dtype, low, high), draw(chunks_for(shape))


def batches(case, size=40):
    return st.lists(case, min_size=size, max_size=size)


if __name__ == "__main__":
    sys.exit("this module is for the tests beside it")

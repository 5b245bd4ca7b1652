"""The examples of docs/functions.md, docs/pipelines.md and the table of operations: read, run and compared.

An example is an expression, its result as it is printed, and mostly the same in NumPy or xarray:

    >>> mean(t, dim="time")
    float64 (lat: 2) [23, 14]
    # xarray: t.mean("time")

The first line of a result is the dtype, the shape with the names of dimensions, and the values with six digits. Coordinates whose
labels are not simply those of the inputs follow, a line each. `refused` stands for an error. The first Python block of
docs/functions.md makes the inputs. `CHUNKWISE_BIN=... python tests/reference.py FILE ...` writes the results of a page or of a file of the
table anew. docs/functions.md itself is made from the table.
"""

import pathlib
import re
import sys
import tempfile
from dataclasses import dataclass, field

import numpy as np
import xarray as xr
import zarr
from harness import chunkwise, write_array, write_pipeline

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUNCTIONS = ROOT / "docs/functions.md"


@dataclass
class Example:
    """An expression with what the page says of it."""

    expr: str
    heading: str
    line: int
    printed: list = field(default_factory=list)
    counterpart: tuple = None


def examples(text):
    """The examples of a page."""
    found, heading, fence = [], None, None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fence = None if fence else line
        # A description in the table: prose, then examples.
        elif line.endswith('r#"') or line.startswith('"#'):
            fence = "prose" if line.endswith('r#"') else None
        elif fence == "prose" and line.startswith(">>> "):
            fence = "```text"
            found.append(Example(line[4:], heading, number))
        elif not fence and re.match(r"#+ ", line):
            heading = line.lstrip("# ")
        elif fence != "```text":
            continue
        elif line.startswith(">>> "):
            found.append(Example(line[4:], heading, number))
        elif found and (counterpart := re.match(r"# (numpy|xarray): (.*)", line)):
            found[-1].counterpart = counterpart.groups()
        elif found:
            found[-1].printed.append(line)
    return found


def inputs():
    """The inputs of the examples by name: xarray's for those with names, else NumPy's."""
    code = re.search(r"```python\n(.*?)```", FUNCTIONS.read_text(), re.S)[1]
    scope = {}
    exec(code, scope)  # noqa: S102
    arrays = {k: v for k, v in scope.items() if isinstance(v, np.ndarray)}
    return scope["ds"], arrays


def write(folder):
    """Write the inputs into a folder; returns the inputs of a pipeline."""
    ds, arrays = inputs()
    ds.to_zarr(folder / "in/ds.zarr", consolidated=False)
    for name, values in arrays.items():
        write_array(folder / f"in/{name}", values)
    return {"ds": "in/ds.zarr"} | {n: f"in/ds.zarr/{n}" for n in ds.data_vars} | {n: f"in/{n}" for n in arrays}


def run(folder, found):
    """The results of examples, all of one run but for those that are refused."""
    given = write(folder)
    places = {k: f"out/{k}.zarr" for k, e in enumerate(found) if e.printed != ["refused"]}
    chunkwise("run", write_pipeline(folder, given, {}, {f"{place}/x": found[k].expr for k, place in places.items()})).ok()
    return [result(folder / places[k]) if k in places else refused(folder, given, e) for k, e in enumerate(found)]


def refused(folder, given, example):
    """Nothing, for an example that fails without having written anything."""
    chunkwise("run", write_pipeline(folder, given, {}, {"out/refused.zarr/x": example.expr}, name="refused.json")).failed()
    assert not (folder / "out/refused.zarr").exists(), example.expr


def result(store):
    stored = zarr.open_array(str(store / "x"), mode="r")
    # Arrays without names get dim_0, dim_1 and so on when they are stored.
    if stored.ndim and all(n is None or n == f"dim_{k}" for k, n in enumerate(stored.metadata.dimension_names)):
        return Result(np.asarray(stored[...]), (None,) * stored.ndim, {})
    data = xr.open_zarr(store, chunks=None)["x"].load()
    return Result(np.asarray(stored[...]), data.dims, dict(data.coords))


@dataclass
class Result:
    """An array as it was written; dimensions without names are None."""

    values: np.ndarray
    dims: tuple
    coords: dict

    def shown(self, ds):
        """The result as a page prints it."""
        named = [f"{d}: {n}" if d else str(n) for d, n in zip(self.dims, self.values.shape, strict=True)]
        lines = [f"{self.values.dtype} ({', '.join(named)}) {value(self.values)}"]
        changed = [n for n, c in sorted(self.coords.items()) if n not in ds.coords or not c.variable.equals(ds[n].variable)]
        return lines + [f"{name}: {value(self.coords[name].values)}" for name in changed]


def value(v):
    """Values as a page prints them."""
    if isinstance(v, np.ndarray) and v.ndim:
        return f"[{', '.join(value(e) for e in v)}]"
    v = v[()] if isinstance(v, np.ndarray) else v
    if isinstance(v, np.datetime64):
        return str(v.astype("datetime64[m]")).replace("T00:00", "").replace("T", " ")
    if isinstance(v, (complex, np.complexfloating)):
        return f"{number(v.real)}{'+' if v.imag >= 0 or np.isnan(v.imag) else ''}{number(v.imag)}j"
    return number(v) if isinstance(v, (float, np.floating)) else str(v)


def number(v):
    # Without digits that are rounding: 2e-17 is 0.
    return "0" if abs(v) < 1e-12 else f"{v:.6g}"


def differs(example, result, ds, arrays):
    """What is wrong with the result of an example, or None."""
    if result is None:
        return None
    if result.shown(ds) != example.printed:
        return f"the page says {example.printed}, the result is {result.shown(ds)}"
    if example.counterpart is None:
        return None
    library, code = example.counterpart
    scope = {"np": np, "xr": xr, "ds": ds, **arrays, **{n: ds[n] for n in [*ds.data_vars, *ds.coords]}}
    with np.errstate(all="ignore"):
        expected = eval(code, scope)  # noqa: S307
    if library == "numpy":
        expected = np.asarray(expected)
    elif result.dims != expected.dims:
        return f"dimensions {result.dims}, those of {code} are {expected.dims}"
    if result.values.dtype != expected.dtype or result.values.shape != expected.shape:
        return f"{result.values.dtype} {result.values.shape}; {code} is {expected.dtype} {expected.shape}"
    if not np.allclose(result.values, np.asarray(expected), rtol=1e-12, atol=1e-13, equal_nan=True):
        return f"{result.values}; {code} is {np.asarray(expected)}"
    if library == "xarray":
        if set(result.coords) != set(expected.coords):
            return f"coordinates {set(result.coords)}; those of {code} are {set(expected.coords)}"
        for name, c in expected.coords.items():
            if result.coords[name].dims != c.dims or not np.array_equal(result.coords[name].values, c.values):
                return f"{name} is {result.coords[name].values}; that of {code} is {c.values}"
    return None


def main(pages):
    for page in map(pathlib.Path, pages):
        text = page.read_text()
        found = examples(text)
        with tempfile.TemporaryDirectory() as folder:
            results = run(pathlib.Path(folder), found)
        ds, arrays = inputs()
        lines = text.splitlines()
        for e, r in reversed([pair for pair in zip(found, results, strict=True) if pair[1]]):
            lines[e.line : e.line + len(e.printed)] = r.shown(ds)
            e.printed = r.shown(ds)
            wrong = differs(e, r, ds, arrays)
            if wrong:
                print(f"{page}:{e.line}: {e.expr}: {wrong}")
        page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

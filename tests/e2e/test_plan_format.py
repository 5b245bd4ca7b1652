"""The plan format as an outsider meets it: the document, the schema, plans written by hand, plans that are refused."""

import copy
import json
import pathlib
import re
import shutil

import jsonschema
import numpy as np
import pytest
import xarray as xr
import zarr
from harness import chunkwise, read_array, values, write_array, write_pipeline

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/plan-format.md").read_text()
SCHEMA = json.loads((ROOT / "docs/plan.schema.json").read_text())
PLAN = json.loads((ROOT / "examples/plan.json").read_text())


@pytest.fixture(scope="module")
def winds(tmp_path_factory):
    """A folder with the winds."""
    folder = tmp_path_factory.mktemp("plans")
    shutil.copytree(ROOT / "examples/data/winds.zarr", folder / "data/winds.zarr")
    return folder


def test_a_plan_written_by_hand(winds):
    shutil.copy(ROOT / "examples/plan.json", winds)
    chunkwise("run", "plan.json", cwd=winds).ok()
    source = zarr.open_group(str(winds / "data/winds.zarr"), mode="r")
    speed = np.hypot(source["uwnd"][...], source["vwnd"][...])
    mean, series = (zarr.open_array(str(winds / "out/plan.zarr" / name), mode="r") for name in ("mean", "series"))
    np.testing.assert_allclose(mean[...], speed.mean(axis=0, dtype="f8"), rtol=1e-6)
    np.testing.assert_array_equal(series[...], speed)
    assert series.chunks == (132, 10, 12) and series.shards == (132, 20, 36)
    assert dict(mean.attrs)["units"] == "m s-1" and mean.metadata.dimension_names == ("lat", "lon")


def test_one_task_at_a_time(winds, tmp_path):
    """Tasks are numbered in C order, and together they make the array."""
    plan = copy.deepcopy(PLAN)
    plan["spec"]["work_dir"] = str(tmp_path / "work")
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    for task in range(11):
        chunkwise("run-task", tmp_path / "plan.json", 0, task, cwd=winds).ok()
    done = chunkwise("run-task", tmp_path / "plan.json", 2, 2, cwd=winds).ok()
    # Task 2 of 1 x 2 x 2 regions: the second 33 rows of latitude and the first 72 columns.
    assert {tuple(w["chunk"]) for w in done.report["written"]} == {(0, y, x) for y in (2, 3) for x in (0, 1)}
    chunkwise("run-task", tmp_path / "plan.json", 2, 4, cwd=winds).failed("4")


def test_a_function_that_the_command_does_not_have(winds, tmp_path):
    """Nothing is written by a plan that calls a function of a user which is not there."""
    plan = copy.deepcopy(PLAN)
    plan["spec"]["work_dir"] = str(tmp_path / "work")
    step, grid = plan["stages"][0]["program"]["steps"][2], plan["stages"][0]["outputs"][0]["tasks"]
    taken = [{"chunk": {"axis": i, "chunks": grid[i]}} for i in range(3)]
    step["kernel"] = {"call": {"function": "gust", "version": "7", "blocks": grid, "inputs": [taken, taken], "memory": 1000}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    chunkwise("run", tmp_path / "plan.json", cwd=winds).failed("'gust' in version '7'", "register")
    chunkwise("run-task", tmp_path / "plan.json", 0, 0, cwd=winds).failed("'gust' in version '7'", "register")
    assert not list((tmp_path / "work").glob("*/speed/c"))


# The documents


def test_the_document_shows_the_example():
    blocks = re.findall(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)
    assert json.loads(blocks[0]) == PLAN


def test_the_schema_is_that_of_this_version():
    printed = json.loads(chunkwise("plan-schema").ok().stdout)
    assert printed == SCHEMA, "the format has changed: chunkwise plan-schema >docs/plan.schema.json, and see docs/plan-format.md"


def names(node):
    """Every property and every enumerated value of a schema."""
    if isinstance(node, dict):
        yield from node.get("properties", {})
        yield from (v for v in [node.get("const"), *node.get("enum", [])] if isinstance(v, str))
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from names(child)


def test_the_document_names_every_field():
    # `chunkwise functions` lists the element-wise functions. A range of integer dtypes is written with its ends.
    skipped = set(names(SCHEMA["$defs"]["ElementOp"])) | {"int16", "int32", "uint16", "uint32"}
    missing = {n for n in names(SCHEMA) if n not in skipped and not re.search(rf"\b{n}\b", DOCUMENT.replace(json.dumps(PLAN), ""))}
    assert not missing, f"docs/plan-format.md does not explain {sorted(missing)}"


def validate(plan):
    jsonschema.validate(plan, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_the_example_follows_the_schema():
    validate(PLAN)


def test_the_kernels_of_the_document_follow_the_schema():
    validator = jsonschema.Draft202012Validator({"$ref": "#/$defs/Kernel", "$defs": SCHEMA["$defs"]})
    rows = re.findall(r"^\| .*?\| `(.*?)` \|", DOCUMENT[DOCUMENT.index("### Kernels") : DOCUMENT.index("`reduce` knows")], re.MULTILINE)
    assert len(rows) >= 16
    for row in rows:
        validator.validate(json.loads(row))


def test_plans_that_are_made_follow_the_schema(tmp_path):
    write_array(tmp_path / "in.zarr", values(1, (40, 30), "float32"), (10, 7), ["time", "space"], {"units": "m"})
    arrays = {
        "a": "mean(x, dim=\"time\") - max(x[::2, ::-1], axis=0)",
        "b": "concat([x, pad(x, [[1, 2], [0, 0]], mode=\"edge\")], axis=0)",
        "c": "permute_dims(x, [1, 0]) @ x",
        "d": "where(x > 0, x, nan) * var(x, axis=0) + 1e300",
        "g": "take(roll(x, 3, axis=0), [4, 0, 0], axis=1)",
        "f": "reshape(x, [60, 20]) + zeros([60, 20])",
    }
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, arrays, {f"{n}.zarr/{n}": {"array": n, "codec": "zstd"} for n in arrays})
    validate(json.loads(chunkwise("plan", path, "--format", "json", "--allowed-mem", "500MB").ok().stdout))


def test_the_plan_of_an_example_follows_the_schema(examples):
    validate(json.loads(chunkwise("plan", examples / "winds.yaml", "--format", "json").ok().stdout))


# Kernels, one at a time


def one_kernel(kernel, inputs, dtype, shape, work):
    """A plan of one stage and one task that applies a kernel to stored arrays."""

    def grid(shape):
        return [{"regular": {"len": n, "size": n}} for n in shape]

    read = [{"role": "input", "url": f"in/{i}", "dtype": str(x.dtype), "shape": list(x.shape), "grid": grid(x.shape)} for i, x in enumerate(inputs)]
    steps = [{"read": f"in{i}", "type": {"dtype": a["dtype"], "shape": a["shape"]}} for i, a in enumerate(read)]
    steps.append({"kernel": kernel, "inputs": list(range(len(inputs))), "type": {"dtype": dtype, "shape": shape}})
    out = {"role": "output", "url": "out", "dtype": dtype, "shape": shape, "grid": grid(shape)}
    out["encoding"] = {"chunks": shape, "fill_value": {"int": 0} if "int" in dtype else {"float": 0.0}}
    return {
        "format": "chunkwise-plan/1",
        "spec": {"allowed_mem": 300_000_000, "reserved_mem": 60_000_000, "workers": 1, "work_dir": work},
        "arrays": {f"in{i}": a for i, a in enumerate(read)} | {"out": out},
        "stages": [{
            "name": "one", "kind": "blockwise", "program": {"steps": steps},
            "outputs": [{"step": len(inputs), "array": "out", "tasks": grid(shape)}],
            "projected_mem": 0, "cost": {"bytes_read": 0, "bytes_written": 0, "gets": 0, "puts": 0},
        }],
    }  # fmt: skip


X = values(1, (4, 6), "float64")
Y = values(2, (6, 3), "float64")
L = np.arange(4)
KERNELS = {
    "full": ({"create": {"what": {"full": {"value": {"int": 7}}}}}, [], np.full((2, 3), 7)),
    "arange": ({"create": {"what": {"arange": {"start": {"int": 3}, "step": {"int": 2}}}}}, [], np.arange(3, 13, 2)),
    "linspace": ({"create": {"what": {"linspace": {"start": {"int": 0}, "stop": {"int": 1}, "num": 11, "endpoint": True}}}}, [], np.linspace(0, 1, 11)),
    "eye": ({"create": {"what": {"eye": {"k": 1}}}}, [], np.eye(3, 4, 1)),
    "constant": ({"create": {"what": {"constant": {"values": [{"int": 3}, {"float": "Infinity"}]}}}}, [], np.array([3, np.inf])),
    "element": ({"element": {"function": "add"}}, [X, X], X + X),
    "cast": ("cast", [X], X.astype("int32")),
    "view": ({"view": {"axes": [{"in": 1}, "new", {"in": 0}]}}, [X], np.broadcast_to(X.T[:, None], (6, 2, 4))),
    "slice": ({"gather": {"axes": [{"slice": {"start": 3, "step": -1}}, {"take": [4, 0, 0]}], "fill": {"int": 0}}}, [X], X[::-1][:, [4, 0, 0]]),
    "pad": ({"gather": {"axes": [{"pad": {"before": 1, "mode": "constant"}}, {"roll": {"shift": 2}}], "fill": {"float": "NaN"}}}, [X], np.pad(np.roll(X, 2, 1), [[1, 2], [0, 0]], constant_values=np.nan)),
    "repeat": ({"gather": {"axes": [{"repeat": {"times": 3}}, {"slice": {"start": 1, "step": 2}}], "fill": {"int": 0}}}, [X], np.repeat(X, 3, 0)[:, 1::2]),
    "concat": ({"concat": {"axis": 0}}, [X, X], np.concatenate([X, X])),
    "reshape": ("reshape", [X], X.reshape(3, 8)),
    "reduce": ({"reduce": {"function": "sum", "axes": [0]}}, [X], X.sum(0)),
    "segments": ({"reduce": {"function": "max", "axes": [1], "segments": [{"irregular": [4, 2]}]}}, [X], np.stack([X[:, :4].max(1), X[:, 4:].max(1)], 1)),
    "group": ({"group": {"function": "sum", "axis": 0, "labels": [0, 1, 0, -1], "groups": 2}}, [X], np.stack([X[0] + X[2], X[1]])),
    "group mean": ({"group": {"function": {"mean": {"skip_nan": False}}, "axis": 0, "labels": [0, 1, 0, -1], "groups": 2}}, [X], np.stack([(X[0] + X[2]) / 2, X[1]])),
    "contract segments": ({"contract": {"a": [0, 1], "b": [1, 2], "out": [0, 2], "segments": [1, {"irregular": [4, 2]}]}}, [X, Y], np.stack([X[:, :4] @ Y[:4], X[:, 4:] @ Y[4:]])),
    "contract": ({"contract": {"a": [0, 1], "b": [1, 2], "out": [0, 2]}}, [X, Y], X @ Y),
    "stencil": ({"stencil": {"window": [1, 3], "function": {"weights": [0.25, 0.5, 0.25]}}}, [X], X[:, :-2] / 4 + X[:, 1:-1] / 2 + X[:, 2:] / 4),
    "moments": ({"reduce": {"function": {"moments": {"skip_nan": False}}, "axes": [0]}}, [X], np.stack([np.full(6, 4.0), X.mean(0), X.var(0) * 4], 1)),
}  # fmt: skip


@pytest.mark.parametrize("kernel, inputs, expected", KERNELS.values(), ids=KERNELS.keys())
def test_kernel(tmp_path, kernel, inputs, expected):
    for i, x in enumerate(inputs):
        write_array(tmp_path / f"in/{i}", x)
    plan = one_kernel(kernel, inputs, str(expected.dtype), list(expected.shape), str(tmp_path / "work"))
    validate(plan)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    chunkwise("run", "plan.json", cwd=tmp_path).ok()
    np.testing.assert_allclose(read_array(tmp_path / "out"), expected, rtol=1e-13, atol=1e-13)
    assert not (tmp_path / "zarr.json").exists(), "a folder with other files does not become a group"


SUM = {"reduce": {"function": "sum", "axes": [0]}}
MOMENTS = {"moments": {"skip_nan": False}}
SAME = {"slice": {"start": 0, "step": 1}}


def group(function, labels=(0, 1, 0, -1), groups=2):
    return {"group": {"function": function, "axis": 0, "labels": list(labels), "groups": groups}}


def contract(a=(0, 1), b=(1, 2), out=(0, 2), **more):
    return {"contract": {"a": list(a), "b": list(b), "out": list(out), **more}}


def gather(first):
    return {"gather": {"axes": [first, SAME], "fill": {"int": 0}}}


def segments(entry):
    return {"reduce": {"function": "sum", "axes": [1], "segments": [entry]}}


# Kernels whose output is not what they make, or that cannot be applied: the kernel, its inputs, the output, what is named.
WRONG = {
    "reduce, length": (SUM, [X], "float64", [7], ["[6]"]),
    "reduce, rank": (SUM, [X], "float64", [6, 2], ["[6]"]),
    "reduce, too few axes": (SUM, [X], "float64", [], ["[6]"]),
    "reduce, dtype": (SUM, [X], "int8", [6], ["int8", "float64"]),
    "reduce, mean": ({"reduce": {"function": {"mean": {"skip_nan": False}}, "axes": [0]}}, [X], "float64", [6], ["groups"]),
    "moments, too few axes": ({"reduce": {"function": MOMENTS, "axes": [0]}}, [X], "float64", [6], ["[6, 3]"]),
    "merged moments": ({"reduce": {"function": "merge_moments", "axes": [0]}}, [X], "float64", [6], ["moments"]),
    "segments, length": (segments({"irregular": [4, 2]}), [X], "float64", [4, 5], ["[4, 2]"]),
    "segments of nothing": (segments({"regular": {"len": 6, "size": 0}}), [X], "float64", [4, 6], ["segments"]),
    "contract, length": (contract(), [X, Y], "float64", [4, 9], ["[4, 3]"]),
    "contract, too few axes": (contract(), [X, Y], "float64", [4], ["[4, 3]"]),
    "contract, dtype": (contract(), [X, Y], "float32", [4, 3], ["float32"]),
    "contract, labels": (contract(a=[0]), [X, Y], "float64", [4, 3], ["label"]),
    "contract, segments": (contract(segments=[1, {"irregular": [4, 9]}]), [X, Y], "float64", [2, 4, 3], ["segments"]),
    "group, length": (group("sum"), [X], "float64", [2, 9], ["[2, 6]"]),
    "group, too few axes": (group("sum"), [X], "float64", [2], ["[2, 6]"]),
    "group, label": (group("sum", [0, 1, 0, -(2**63)]), [X], "float64", [2, 6], ["label"]),
    "group, function": (group("arg_min"), [X], "int64", [2, 6], ["arg_min"]),
    "group moments, too few axes": (group(MOMENTS), [X], "float64", [2, 6], ["[2, 6, 3]"]),
    "element, dtype": ({"element": {"function": "add"}}, [X, X], "int8", [4, 6], ["int8", "float64"]),
    "element, inputs": ({"element": {"function": "add"}}, [X, X.astype("float32")], "float64", [4, 6], ["cast"]),
    "gather, dtype": (gather(SAME), [X], "int8", [4, 6], ["int8", "float64"]),
    "pad, huge": (gather({"pad": {"before": 2**64 - 1, "mode": "constant"}}), [X], "float64", [4, 6], ["axis 0"]),
    "view, dtype": ({"view": {"axes": [{"in": 0}, {"in": 1}]}}, [X], "int8", [4, 6], ["int8", "float64"]),
    "reshape, dtype": ("reshape", [X], "int8", [24], ["int8", "float64"]),
    "stencil, huge": ({"stencil": {"window": [2**64 - 1, 1], "function": "sum"}}, [X], "float64", [4, 6], ["window"]),
    "stencil, weights": ({"stencil": {"window": [1, 3], "function": {"weights": [1]}}}, [X], "float64", [4, 4], ["weights"]),
    "stencil, dtype": ({"stencil": {"window": [1, 3], "function": "sum"}}, [X], "int8", [4, 4], ["int8", "float64"]),
    "too few constants": ({"create": {"what": {"constant": {"values": [{"int": 1}]}}}}, [], "float64", [5], ["constant"]),
    "normal integers": ({"create": {"what": {"random": {"seed": 1, "stream": 0, "distribution": "normal"}}}}, [], "int64", [5], ["int64"]),
}  # fmt: skip


@pytest.mark.parametrize("kernel, inputs, dtype, shape, named", WRONG.values(), ids=WRONG.keys())
def test_kernel_with_a_wrong_type(tmp_path, kernel, inputs, dtype, shape, named):
    # The inputs are not even looked for.
    (tmp_path / "plan.json").write_text(json.dumps(one_kernel(kernel, inputs, dtype, shape, str(tmp_path / "work"))))
    chunkwise("run", "plan.json", cwd=tmp_path).failed("stage 0", f"step {len(inputs)}", *named)


# Refusals: what is changed, and what the message must name


def stage(n, change):
    return lambda p: change(p["stages"][n])


def step(n, k, **changes):
    return lambda p: p["stages"][n]["program"]["steps"][k].update(changes)


def grid(name, axis, entry):
    return lambda p: p["arrays"][name]["grid"].__setitem__(axis, entry)


def drop(*path):
    def change(plan):
        for key in path[:-1]:
            plan = plan[key]
        del plan[path[-1]]

    return change


REFUSED = {
    "another format": (lambda p: p.update(format="chunkwise-plan/9"), ["chunkwise-plan/9", "chunkwise-plan/1"]),
    "unknown field": (lambda p: p["spec"].update(allowed_memory=1), ["allowed_memory"]),
    "unknown field of a step": (step(0, 2, stram=[]), ["stram"]),
    "missing field": (drop("spec", "workers"), ["workers"]),
    "unknown kernel": (step(0, 2, kernel={"elemental": {}}), ["elemental"]),
    "unknown function": (step(0, 2, kernel={"element": {"function": "hypo"}}), ["hypo"]),
    "negative length": (lambda p: p["arrays"]["u"].update(shape=[-1, 73, 144]), ["-1"]),
    "too large": (lambda p: p["arrays"]["u"].update(shape=[2**62, 2**62, 144]), ["'u'", "large"]),
    "grid of another length": (grid("u", 0, {"regular": {"len": 131, "size": 12}}), ["'u'", "131", "132"]),
    "chunks of length 0": (grid("u", 0, {"regular": {"len": 132, "size": 0}}), ["'u'", "axis 0"]),
    "grid of another rank": (lambda p: p["arrays"]["u"]["grid"].pop(), ["'u'", "axes"]),
    "no encoding": (drop("arrays", "mean", "encoding"), ["'mean'", "encoding"]),
    "grid is not that of the encoding": (lambda p: p["arrays"]["mean"]["encoding"].update(chunks=[10, 10]), ["'mean'", "grid"]),
    "shards that do not fit": (lambda p: p["arrays"]["series"]["encoding"].update(chunks=[132, 7, 12]), ["'series'", "multiple"]),
    "no such array": (step(0, 0, read="w"), ["stage 0", "step 0", "'w'"]),
    "later step": (step(0, 2, inputs=[0, 2]), ["stage 0", "step 2"]),
    "type of a read": (step(0, 0, type={"dtype": "float64", "shape": [132, 73, 144]}), ["stage 0", "step 0", "'u'"]),
    "read and kernel": (step(0, 0, kernel="cast"), ["step 0", "kernel"]),
    "neither": (lambda p: p["stages"][0]["program"]["steps"][0].pop("read"), ["step 0", "read"]),
    "too many workers": (lambda p: p["spec"].update(workers=2**63), ["workers"]),
    "a chunk that is too large": (lambda p: p["arrays"]["u"]["grid"].__setitem__(0, {"regular": {"len": 132, "size": 2**63}}), ["'u'", "chunk"]),
    "a long axis beside an empty one": (step(0, 2, type={"dtype": "float32", "shape": [0, 2**64 - 1]}), ["step 2", "large"]),
    "stream of nothing": (step(1, 1, stream=[{"regular": {"len": 132, "size": 0}}]), ["stage 1", "step 1", "stream"]),
    "number of inputs": (step(0, 2, inputs=[0]), ["step 2", "2 inputs"]),
    "shapes differ": (step(1, 3, type={"dtype": "float64", "shape": [73, 143]}), ["stage 1", "step 3"]),
    "axes of a reduction": (step(1, 1, kernel={"reduce": {"function": "sum", "axes": [3]}}), ["stage 1", "step 1", "axes"]),
    "stream": (step(1, 1, stream=[{"regular": {"len": 131, "size": 12}}]), ["stage 1", "step 1", "stream"]),
    "read before written": (lambda p: p["stages"].reverse(), ["'speed'", "before"]),
    "written twice": (lambda p: p["stages"].append(p["stages"][2]), ["'series'", "twice"]),
    "an input is written": (stage(2, lambda s: s["outputs"][0].update(array="u")), ["'u'"]),
    "no output": (stage(2, lambda s: s.update(outputs=[])), ["stage 2", "output"]),
    "no such step": (stage(2, lambda s: s["outputs"][0].update(step=7)), ["stage 2", "'series'"]),
    "tasks through shards": (stage(2, lambda s: s["outputs"][0]["tasks"].__setitem__(1, {"irregular": [30, 43]})), ["stage 2", "axis 1", "shards"]),
    "tasks that do not cover": (stage(2, lambda s: s["outputs"][0]["tasks"].__setitem__(1, {"irregular": [40, 30]})), ["stage 2", "70", "73"]),
    "no such input": (lambda p: p["arrays"]["u"].update(url="data/winds.zarr/nothing"), ["data/winds.zarr/nothing"]),
    "an intermediate outside the run": (lambda p: p["arrays"]["speed"].update(url="../speed"), ["'speed'", "../speed", "plain name"]),
    "an intermediate that is the run": (lambda p: p["arrays"]["speed"].update(url=""), ["'speed'", "plain name"]),
    "two outputs in one place": (lambda p: p["arrays"]["series"].update(url=p["arrays"]["mean"]["url"]), ["'mean'", "'series'"]),
    "an output over an input": (lambda p: p["arrays"]["mean"].update(url=p["arrays"]["u"]["url"]), ["'mean'", "'u'"]),
    "too little memory": (lambda p: p["spec"].update(allowed_mem=70_000_000), ["memory"]),
}  # fmt: skip


@pytest.mark.parametrize("change, named", REFUSED.values(), ids=REFUSED.keys())
def test_refused(winds, tmp_path, change, named):
    plan = copy.deepcopy(PLAN)
    plan["spec"]["work_dir"] = str(tmp_path / "work")
    for name in ("mean", "series"):
        plan["arrays"][name]["url"] = str(tmp_path / name)
    change(plan)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    chunkwise("run", tmp_path / "plan.json", cwd=winds).failed(*named)
    assert not (tmp_path / "mean/zarr.json").exists() and not (tmp_path / "series/zarr.json").exists()


def test_an_input_that_has_changed(tmp_path):
    write_array(tmp_path / "in/0", X.astype("float32"))
    (tmp_path / "plan.json").write_text(json.dumps(one_kernel("cast", [X], "int32", [4, 6], str(tmp_path / "work"))))
    chunkwise("run", "plan.json", cwd=tmp_path).failed("in0", "in/0", "float64", "float32")


def test_outputs_of_a_plan_open_in_xarray(winds):
    """A plan needs no pipeline to leave a store behind: the group of its outputs is one that can be opened."""
    if not (winds / "out/plan.zarr/mean").exists():
        test_a_plan_written_by_hand(winds)
    data = xr.open_zarr(winds / "out/plan.zarr", chunks=None)
    assert data["mean"].dims == ("lat", "lon") and data.series.dims == ("time", "lat", "lon")

"""The pages on the language: every function is on them, and every example gives what is printed there and what NumPy or xarray give."""

import json
import re
import shutil

import pytest
import reference
import yaml
import zarr
from harness import chunkwise
from reference import FUNCTIONS, ROOT

PIPELINES = ROOT / "docs/pipelines.md"
PAGES = [FUNCTIONS, PIPELINES]


@pytest.fixture(scope="module")
def listed():
    """The names of all functions that the command lists."""
    text = chunkwise("functions").ok().stdout
    signatures, _, element_wise = text.partition("element-wise: ")
    return {s.split("(")[0] for s in signatures.splitlines() if s} | set(element_wise.strip().split(", "))


def described():
    """The signature under each heading of the page that is a function's."""
    return dict(re.findall(r"^### (\w+)\n\n`(.*)`\n", FUNCTIONS.read_text(), re.M))


def test_every_function_has_a_heading_and_an_example(listed):
    headings = re.findall(r"^### (.*)$", FUNCTIONS.read_text(), re.M)
    assert sorted(headings) == sorted(listed)
    assert set(described()) == set(headings), "a signature must follow each heading"
    used = {e.heading for e in reference.examples(FUNCTIONS.read_text()) if f"{e.heading}(" in e.expr}
    assert used >= set(headings), f"no example of {sorted(set(headings) - used)}"


def test_signatures():
    """A page says what `chunkwise functions NAME` says."""
    for name, signature in described().items():
        assert chunkwise("functions", name).ok().stdout.splitlines()[0] == signature


def test_the_command_describes_functions():
    """`chunkwise functions NAME` says what the page says."""
    printed = chunkwise("functions", "max").ok().stdout
    assert "The greatest element. Not for complex numbers." in printed
    assert '>>> max(a, dim=1, keepdims=True)\nint64 (2, 1) [[3], [6]]\n' in printed
    told = json.loads(chunkwise("functions", "maximum", "--json").ok().stdout)
    # Links have no meaning in a terminal.
    assert told["about"].endswith("For the greatest element of one array see max.")
    assert told["subject"] == "Comparison and choice" and told["parameters"] == [{"name": "x", "default": None}, {"name": "y", "default": None}]
    assert told["examples"] == [{"expression": "maximum(v, 0)", "result": ["float64 (4) [0, 0, 0.5, 2.5]"]}]


def test_other_names():
    rows = dict(re.findall(r"^\| `(\w+)` \| \[(\w+)\]", FUNCTIONS.read_text(), re.M))
    for other, name in rows.items():
        printed = chunkwise("functions", other).ok().stdout
        assert printed.startswith(f"{described()[name]} ") and f"{other} is another name" in printed
    text = re.findall(r"Another name is `(\w+)`", FUNCTIONS.read_text().replace("\n", " "))
    assert sorted(text) == sorted(rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_examples(page, tmp_path):
    found = reference.examples(page.read_text())
    ds, arrays = reference.inputs()
    results = reference.run(tmp_path, found)
    compared = [(e, reference.differs(e, r, ds, arrays)) for e, r in zip(found, results, strict=True)]
    wrong = [f"{page.relative_to(ROOT)}:{e.line}: {e.expr}: {why}" for e, why in compared if why]
    assert not wrong, "\n".join(wrong)
    # Few examples have nothing to be compared with but the page itself.
    assert sum(e.counterpart is None and r is not None for e, r in zip(found, results, strict=True)) <= len(found) // 20


BLOCKS = re.findall(r"```yaml\n(.*?)```", PIPELINES.read_text(), re.S)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_pipelines(number, tmp_path, examples):
    """Every pipeline on the page runs on the example data, and writes what it says it writes."""
    shutil.copytree(examples / "data", tmp_path / "data")
    (tmp_path / "pipeline.yaml").write_text(BLOCKS[number])
    chunkwise("run", tmp_path / "pipeline.yaml", *([] if "work_dir" in BLOCKS[number] else ["--work-dir", tmp_path / "work"])).ok()
    for place, output in yaml.safe_load(BLOCKS[number])["outputs"].items():
        found = zarr.open(str(tmp_path / place), mode="r")
        if not isinstance(output, dict):
            continue
        wanted = dict(zip(found.metadata.dimension_names, found.chunks, strict=True))
        if isinstance(output.get("chunks"), dict):
            wanted |= {d: found.shape[list(wanted).index(d)] if n == -1 else n for d, n in output["chunks"].items()}
        assert found.chunks == tuple(output["chunks"] if isinstance(output.get("chunks"), list) else wanted.values())
        assert found.shards == (tuple(output["shards"]) if "shards" in output else None)
        assert list(found.metadata.dimension_names) == output.get("dims", ["time", "lat", "lon"])
        assert found.attrs.items() >= output.get("attributes", {}).items()


def test_every_key_is_described(tmp_path):
    """The keys that the command knows are those of the tables."""
    page = PIPELINES.read_text()
    for heading, text in {"The file": "x: 1", "Inputs": "inputs: {a: {x: 1}}", "Outputs": "outputs: {o: {x: 1}}", "Spec": "spec: {x: 1}"}.items():
        (tmp_path / "pipeline.yaml").write_text(text + "\n")
        known = re.search(r"known keys: (.*)", chunkwise("run", tmp_path / "pipeline.yaml").failed().stderr)[1].split(", ")
        section = re.search(rf"^#+ {heading}\n(.*?)^#", page, re.S | re.M)[1]
        described = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
        assert described >= set(known), f"{heading}: {set(known) - described}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs/tutorial.md", ROOT / "README.md"], ids=lambda p: p.stem)
def test_links(page):
    """Links go to pages and headings that are there."""
    for name, anchor in re.findall(r"\]\(([\w./-]*)#?([\w-]*)\)", page.read_text()):
        target = page.parent / name if name else page
        assert target.exists(), name
        titles = re.findall(r"^#+ (.*)$", target.read_text(), re.M) if anchor else []
        slugs = {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}
        assert not anchor or anchor in slugs, f"{name}#{anchor}"

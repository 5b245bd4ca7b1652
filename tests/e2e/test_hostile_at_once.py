"""One hostile pipeline, one hostile plan and one hostile store, each with all attacks in one document, run by a victim who has keys.

A refusal names an attack. That one is taken out, and the rest is run again, until only honest work is left, which must succeed. After every run
the same must be true: the server of the attacker has not seen a connection, no file has changed but outputs and work directory, the process
has stayed in its memory, and nothing has reached the terminal that acts there.
"""

import copy
import json
import os
import pathlib
import re
import struct
import zlib

import numpy as np
import pytest
import zarr
from harness import read_array, write_array
from projections import MB, measured
from services import Recorder
from shards import crc32c
from victim import Victim, X

HOSTILE = pathlib.Path(__file__).resolve().parent.parent / "hostile"
BUDGET = 300 * MB
MEM = ["--allowed-mem", "300MB"]
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Scene:
    """A victim, the attacker's server, and what must stay true."""

    def __init__(self, victim, recorder, aside):
        self.victim, self.recorder, self.aside = victim, recorder, aside

    def file(self, name, document):
        path = self.victim.here / name
        text = json.dumps(document, indent=1)
        path.write_text(text.replace("HOST", self.recorder.host))
        return path

    def run(self, *args):
        before = self.victim.files()
        done, peak = measured(self.aside, *args, env=self.victim.env, cwd=self.victim.here)
        assert self.recorder.seen() == "", args
        assert self.victim.files() == before, args
        assert peak < BUDGET, f"{args}: {peak / MB:.0f} MB"
        for text in (done.stdout, done.stderr):
            assert not ACTS.search(text), f"{args}: {text!r}"
            assert "hunter2" not in text, f"{args}: {text}"
        return done

    def peel(self, name, document, attacks, *args):
        """Run a document; take out what is refused, and run it again. Returns what is left."""
        left = dict(attacks)
        for _ in attacks:
            path = self.file(name, document)
            error = json.loads(self.run("run", path, *args, "--json").failed().stdout)["error"]
            # What it says, and the line of the file that it points at.
            line = path.read_text().splitlines()[error["where"].get("line", 1) - 1]
            told = f"{error['message']}\n{line}"
            named = [a for a, (_, words) in left.items() if re.search(words.replace("HOST", self.recorder.host), told, re.DOTALL)]
            assert named, f"{told}\nis none of {list(left)}"
            remove, _ = left.pop(named[0])
            remove(document)
        assert not left
        return document


@pytest.fixture
def scene(tmp_path_factory):
    victim = Victim(tmp_path_factory.mktemp("victim"))
    (victim.here / "link.zarr").symlink_to(victim.home)
    with Recorder(victim.folder) as recorder:
        yield Scene(victim, recorder, tmp_path_factory.mktemp("aside"))


def without(*path):
    """Takes out what is at a place of a document."""

    def remove(document):
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return remove


def put(*path):
    """Puts the last argument where the others lead."""

    def replace(document):
        for key in path[:-2]:
            document = document[key]
        document[path[-2]] = path[-1]

    return replace


PIPELINE = {
    "parentheses": (without("arrays", "deep"), "nests more than"),
    "an endpoint of S3": (without("spec", "storage", "s3://"), "--allow endpoint=http://HOST"),
    "a profile": (without("spec", "storage", "s3://other"), "--allow profile=admin"),
    "a region": (without("spec", "storage", "s3://more"), "no region"),
    "an endpoint of Google": (without("spec", "storage", "gs://"), "--allow endpoint=https://HOST"),
    "an account": (without("spec", "storage", "az://"), "no storage account"),
    "no keys": (without("spec", "storage", "s3://public"), "--allow anonymous"),
    "a server of this machine": (without("inputs", "web"), "--allow host=http://HOST"),
    "a bucket that is a host": (without("inputs", "bucket"), "s3://\\*\\*\\*@HOST"),
    "the service with credentials": (without("inputs", "machine"), "the link of this machine"),
    "a password": (without("inputs", "password"), "https://\\*\\*\\*@HOST"),
    "a file with keys": (without("inputs", "keys"), "credentials.*not a Zarr array"),
    "an index": (without("arrays", "take"), "the number is too large"),
    "an array of everything": (without("arrays", "huge"), "4611686018427387904"),
    "an output in the home": (without("outputs", "../home"), "must not .*\\.\\./home|home' (is not replaced|exists)"),
    "an output in an input": (without("outputs", "in.zarr/c"), "must not .*in.zarr/c"),
    "an output in a link": (without("outputs", "link.zarr"), "must not .*link.zarr|link.zarr' (is not replaced|exists)"),
    "an output that is an input": (without("outputs", "./in.zarr/../in.zarr"), "must not .*in.zarr/\\.\\./in.zarr"),
    "an output that is the root": (without("outputs", "/"), "the root of the file system"),
    "an output in the web": (without("outputs", "http://HOST/out.zarr"), "can only be read"),
    "an output above a bucket": (without("outputs", "s3://bucket/../out.zarr"), "'\\.\\.' is not allowed"),
    "more memory": (without("outputs", "rows.zarr"), "allowed memory"),
    "a program": (put("spec", "executor_options", {}), "command"),
    "an executor without a program": (put("spec", "executor", "threads"), "command"),
}


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_a_pipeline(scene, more):
    document = json.loads((HOSTILE / "pipeline.json").read_text())
    left = scene.peel("p.json", document, PIPELINE, *MEM, *more)
    scene.run("run", scene.file("p.json", left), *MEM, *more).ok()
    assert np.array_equal(read_array(scene.victim.here / "out.zarr"), X * 2)
    scene.run("info", scene.victim.here / "out.zarr").ok()
    assert not (scene.victim.here / "pwned").exists()


def hostile_plan(plan, home):
    """All attacks, and how each is taken out again. An honest array that is changed is put back."""
    honest = copy.deepcopy(plan)
    out = next(n for n, a in plan["arrays"].items() if a["role"] == "output")
    tmp = next(n for n, a in plan["arrays"].items() if a["role"] == "intermediate")
    inp = next(n for n, a in plan["arrays"].items() if a["role"] == "input")
    extra = copy.deepcopy(plan["arrays"][inp])
    attacks = {
        "more workers": (put("spec", "workers", honest["spec"]["workers"]), "65536 workers"),
        "more memory": (put("spec", "allowed_mem", honest["spec"]["allowed_mem"]), "--allowed-mem"),
        "an endpoint": (without("spec", "storage", "s3://"), "--allow endpoint=http://HOST"),
        "a region": (without("spec", "storage", "s3://more"), "no region"),
        "an account": (without("spec", "storage", "az://"), "no storage account"),
        "a group that is a home": (put("groups", honest.get("groups", [])), "no output is in the group"),
        "an intermediate elsewhere": (put("arrays", tmp, "url", honest["arrays"][tmp]["url"]), "must be a plain name"),
        "an output at the home": (put("arrays", out, "url", honest["arrays"][out]["url"]), "home' (is not replaced|exists)"),
        "bytes under way": (put("arrays", out, "in_flight", 0), "under way at once"),
        "an input elsewhere": (without("arrays", "web"), "--allow host=http://HOST"),
        "an input that is a host": (without("arrays", "bucket"), "s3://\\*\\*\\*@HOST"),
        "a chunk that is too large": (without("arrays", "large"), "too large"),
        "metadata that differ": (without("arrays", "lie"), "plan again|its metadata"),
    }
    plan["spec"].update(workers=65536, allowed_mem=10**15)
    plan["spec"]["storage"] = {"s3://": {"endpoint": "http://HOST"}, "s3://more": {"region": "x@HOST/"}, "az://": {"account": "HOST/"}}
    text = {"name": "thesis.txt", "dims": ["time"], "shape": [1], "values": {"text": ["owned"]}}
    plan["groups"] = [{"url": f"file://{home}", "coordinates": [text]}]
    plan["arrays"][tmp]["url"] = "../../../home/thesis.txt"
    plan["arrays"][out].update(url=f"file://{home}", in_flight=1 << 50)
    plan["arrays"]["web"] = {**extra, "url": "http://HOST/in.zarr"}
    plan["arrays"]["bucket"] = {**extra, "url": "s3://x@HOST/in.zarr"}
    lengths = {"shape": [1 << 30, 1 << 30], "grid": [{"regular": {"len": 1 << 30, "size": 1 << 30}}] * 2, "metadata": None}
    plan["arrays"]["large"] = {k: v for k, v in {**extra, **lengths}.items() if v is not None}
    plan["arrays"]["lie"] = {**copy.deepcopy(extra), "shape": [8, 6], "grid": [{"regular": {"len": 8, "size": 2}}, {"regular": {"len": 6, "size": 6}}]}
    return attacks


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_a_plan(scene, more):
    victim = scene.victim
    honest = scene.file("p.json", {"inputs": {"x": "in.zarr"}, "outputs": {"out.zarr": "x - mean(x)"}, "spec": {"work_dir": "work"}})
    plan = json.loads(scene.run("plan", honest, *MEM, "--format", "json").ok().stdout)
    attacks = hostile_plan(plan, victim.home)
    left = scene.peel("plan.json", plan, attacks, *MEM, *more)
    path = scene.file("plan.json", left)
    for command in (["run-task", path, 0, 0], ["worker", "--plan", path, "--stage", 0]):
        scene.run(*command)
    scene.run("run", path, *MEM, "--overwrite").ok()
    assert np.allclose(read_array(victim.here / "out.zarr"), X - X.mean())


EVIL = "\x1b]0;owned\x07\x1b[2J\u202e"
LITTLE, CRC, GZIP = {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}, {"name": "gzip", "configuration": {"level": 5}}


def bomb():
    """Half a gigabyte of zeros in gzip."""
    squeeze, piece = zlib.compressobj(9, wbits=31), bytes(1 << 24)
    return b"".join([*(squeeze.compress(piece) for _ in range(32)), squeeze.flush()])


def array(at, codecs, chunk=None, attributes=None, **more):
    grid = {"name": "regular", "configuration": {"chunk_shape": more.pop("chunks", [2, 6])}}
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "float64", "chunk_grid": grid, "fill_value": 0,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": codecs, "attributes": attributes or {}, **more,
    }  # fmt: skip
    (at / "c/0").mkdir(parents=True)
    (at / "zarr.json").write_text(json.dumps(document))
    if chunk is not None:
        (at / "c/0/0").write_bytes(chunk)


def shard(entries):
    index = b"".join(struct.pack("<QQ", *e) for e in entries)
    return bytes(96) + index + struct.pack("<I", crc32c(index))


def hostile_store(at, home, host):
    """A group of arrays, each of which attacks in its own way, and of one that is honest. Returns what names the refusal of each."""
    group = zarr.create_group(str(at), attributes={"title": EVIL, EVIL: [EVIL]})
    write_array(at / "honest", X, (2, 6), ["time", "x"], {"units": EVIL, "coordinates": f"../../home/thesis.txt {EVIL} http://{host}/x"})
    group.create_array("time", data=np.arange(4), dimension_names=["time"], attributes={"units": EVIL})
    sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 6], "codecs": [LITTLE], "index_codecs": [LITTLE, CRC], "index_location": "end"}}
    array(at / "bomb", [LITTLE, GZIP], bomb())
    array(at / "index", [sharding], shard([(0, 48), (2**64 - 2, 48)]))
    array(at / "wraps", [sharding], shard([(2**63, 2**63), (0, 48)]))
    array(at / "cut", [LITTLE, GZIP], bomb()[:1000])
    array(at / "attributes", [LITTLE], bytes(96), {"history": "x" * (50 * MB)})
    array(at / "zero", [LITTLE], bytes(96), chunks=[0, 6])
    array(at / "wide", [LITTLE], bytes(96), shape=[2**63, 2**63], chunks=[2**62, 2**62])
    array(at / "codec", [LITTLE, {"name": EVIL, "configuration": {"url": f"http://{host}/x"}}], bytes(96))
    array(at / "large", [LITTLE], None)
    with open(at / "large/c/0/0", "wb") as file:
        file.truncate(4_000_000_000)
    array(at / "link", [LITTLE], None)
    (at / "link/c/0/0").symlink_to(home / ".aws/credentials")
    array(at / "loop", [LITTLE], None)
    (at / "loop/c/0/0").symlink_to(at / "loop/c/0/0")
    (at / "listed").mkdir()
    (at / "listed/zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}' + " " * 100 + "[" * 100_000)
    (at / "honest/chunkwise.xxh3").write_text(f"XXH3_0000000000000000  ../../../home/thesis.txt\nXXH3_0000000000000000  {EVIL}\nXXH3_0000000000000000  /etc/passwd\n")
    return {
        "bomb": "decodes to more than|can be right", "index": "index", "wraps": "index", "cut": "damaged|corrupt", "attributes": "are read|can be right", "zero": "chunk shape",
        "wide": "too large", "codec": "codec|supported", "large": "4000000000", "link": "bytes", "loop": "loop|links|level", "listed": "JSON",
    }  # fmt: skip


def test_a_store(scene):
    victim = scene.victim
    at = victim.here / "theirs.zarr"
    for name, words in hostile_store(at, victim.home, scene.recorder.host).items():
        path = scene.file("p.json", {"inputs": {"x": f"theirs.zarr/{name}"}, "outputs": {"out.zarr": "x * 2"}, "spec": {"work_dir": "work"}})
        done = scene.run("run", path, *MEM, "--overwrite").failed()
        assert re.search(words, done.stderr), f"{name}: {done.stderr}"
        for command in ("info", "verify", "show"):
            done = scene.run(command, at / name)
            assert "panicked" not in done.stderr, done.stderr
        assert not (victim.here / "out.zarr/zarr.json").exists()
    for args in (["info", at], ["info", at, "--json"], ["verify", at], ["show", at / "honest"]):
        assert "panicked" not in scene.run(*args).stderr
    # What is honest among them can be used.
    path = scene.file("p.json", {"inputs": {"x": "theirs.zarr/honest"}, "outputs": {"out.zarr": "x * 2"}, "spec": {"work_dir": "work"}})
    scene.run("run", path, *MEM, "--overwrite").ok()
    assert np.array_equal(read_array(victim.here / "out.zarr"), X * 2)
    assert (victim.home / "thesis.txt").read_text() == "years of work" and os.listdir(victim.home / ".aws") == ["credentials"]

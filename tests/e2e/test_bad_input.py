"""Bad input: one clear error that names the thing, a non-zero exit code, no panic, no hang, nothing half-published silently."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import zarr
from harness import binary, chunkwise, read_array, values, write_array, write_pipeline
from zarr.codecs import GzipCodec, ZstdCodec


def run(folder, arrays=None, outputs=None, inputs=None, *args, mem="500MB", prefix=()):
    path = write_pipeline(folder, inputs or {"x": "in.zarr"}, arrays or {"y": "x + 1"}, outputs or {"out.zarr/y": "y"})
    return chunkwise("run", path, "--allowed-mem", mem, *args, prefix=prefix)


def source(folder, shape=(40, 30), chunks=(10, 30), **options):
    x = values(1, shape, "float64")
    write_array(folder / "in.zarr", x, chunks, ["time", "space"][: len(shape)], **options)
    return x


def edit(path, change):
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def published_nothing_silently(folder, done):
    if (folder / "out.zarr").exists():
        assert "out.zarr" in done.stderr, f"out.zarr was left behind without a word:\n{done.stderr}"


@pytest.fixture
def failing(tmp_path):
    """Run and expect an orderly failure."""

    def failing(*names, **options):
        done = run(tmp_path, **options).failed(*names)
        published_nothing_silently(tmp_path, done)
        return done

    return failing


# Stores


def test_missing_store(failing):
    failing("in.zarr")


def test_a_folder_that_is_no_store(failing, tmp_path):
    (tmp_path / "in.zarr").mkdir()
    failing("in.zarr")


def test_a_group_for_an_array(failing, tmp_path):
    zarr.create_group(str(tmp_path / "in.zarr"))
    failing("in.zarr", "group")


@pytest.mark.parametrize("compressors", [ZstdCodec(checksum=True), GzipCodec()], ids=["zstd", "gzip"])
def test_corrupt_chunk(failing, tmp_path, compressors):
    source(tmp_path, compressors=compressors)
    chunk = tmp_path / "in.zarr/c/2/0"
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    chunk.write_bytes(data)
    failing("in.zarr", ("c/2/0", "2, 0", "2,0", "2/0"))


@pytest.mark.parametrize("keep", [0, 1, 100])
@pytest.mark.parametrize("compressors", [None, ZstdCodec()], ids=["raw", "zstd"])
def test_truncated_chunk(failing, tmp_path, compressors, keep):
    source(tmp_path, compressors=compressors)
    os.truncate(tmp_path / "in.zarr/c/1/0", keep)
    failing("in.zarr", ("c/1/0", "1, 0", "1,0", "1/0"))


def test_truncated_metadata(failing, tmp_path):
    source(tmp_path)
    os.truncate(tmp_path / "in.zarr/zarr.json", 100)
    failing("in.zarr")


def test_chunk_larger_than_metadata_says(failing, tmp_path):
    source(tmp_path)
    edit(tmp_path / "in.zarr/zarr.json", lambda d: d["chunk_grid"]["configuration"].update(chunk_shape=[10, 7]))
    failing("in.zarr")


def test_metadata_of_another_rank(failing, tmp_path):
    source(tmp_path)
    edit(tmp_path / "in.zarr/zarr.json", lambda d: d.update(shape=[40, 30, 2]))
    failing("in.zarr")


@pytest.mark.parametrize("shape", [[-1, 30], [40, 1.5], ["40", 30], [2**63, 2**63]])
def test_impossible_shape(failing, tmp_path, shape):
    source(tmp_path)
    edit(tmp_path / "in.zarr/zarr.json", lambda d: d.update(shape=shape))
    failing("in.zarr")


def test_zero_chunk_length(failing, tmp_path):
    source(tmp_path)
    edit(tmp_path / "in.zarr/zarr.json", lambda d: d["chunk_grid"]["configuration"].update(chunk_shape=[0, 30]))
    failing("in.zarr")


def test_chunk_that_would_be_enormous(failing, tmp_path):
    """A decoded chunk of 2^50 bytes is refused when planning, not allocated."""
    source(tmp_path)

    def change(document):
        document["shape"] = [2**40, 2**10]
        document["chunk_grid"]["configuration"]["chunk_shape"] = [2**40, 2**10]

    edit(tmp_path / "in.zarr/zarr.json", change)
    failing(("in.zarr", "memory"))


def test_unknown_codec(failing, tmp_path):
    source(tmp_path)
    edit(tmp_path / "in.zarr/zarr.json", lambda d: d["codecs"].append({"name": "shrinkwrap", "configuration": {}}))
    failing("shrinkwrap", "in.zarr")


def test_unknown_dtype(failing, tmp_path):
    source(tmp_path)
    edit(tmp_path / "in.zarr/zarr.json", lambda d: d.update(data_type="float31"))
    failing("float31", "in.zarr")


def test_strings_are_not_supported(failing, tmp_path):
    array = zarr.create_array(str(tmp_path / "in.zarr"), shape=(3,), chunks=(3,), dtype="<U4", zarr_format=2)
    array[...] = np.array(["a", "b", "c"])
    failing("in.zarr", ("<U4", "string", "dtype", "data type"))


# Expressions


@pytest.mark.parametrize("expression, names", [
    ("x +* 1", [("line", ":")]),
    ("meen(x)", ["meen", "mean"]),
    ("x + yy", ["yy"]),
    ("sqrt(x", [("(", ")")]),
    ("", [("empty", "y")]),
    ('mean(x, dim="tme")', ["tme", "time"]),
    ("mean(x, axis=5)", ["5"]),
    ("mean(x, axes=0)", ["axes"]),
    ("x[50]", ["50"]),
    ("x[0, 0, 0]", [("2", "index", "dimension")]),
    ("x + x[:, :7]", ["30", "7"]),
    ("x @ x", ["30", "40"]),
    ("reshape(x, [7, 7])", ["7"]),
    ("concat([x, x[:, :3]], axis=0)", ["3"]),
    ("x & 1", ["float64"]),
    ("permute_dims(x, [0, 0])", [("0", "permut")]),
    ("take(x, [0, 99], axis=0)", ["99"]),
    ('astype(x, "float31")', ["float31"]),
    ('pad(x, [[1, 0], [0, 0]], mode="sideways")', ["sideways"]),
    ("x.__class__", [("__class__", "unexpected", ".")]),
    ('open("secret")', ["open"]),
    ("zeros([1000000000000, 1000000000000])", [("memory", "large", "size", "overflow", "zeros", "elements", "chunk")]),
    ("(" * 2000 + "x" + ")" * 2000, [("nest", "deep")]),
    ("sqrt(x, x)", ["sqrt"]),
    ("einsum('ij,k', x, x)", ["einsum"]),
])  # fmt: skip
def test_expressions(failing, tmp_path, expression, names):
    source(tmp_path)
    failing(*names, arrays={"y": expression})


def test_error_points_at_line_and_column(tmp_path):
    source(tmp_path)
    path = tmp_path / "p.yaml"
    path.write_text("inputs:\n  x: in.zarr\narrays:\n  ok: x + 1\n  bad: sqrt(x) + missing\noutputs:\n  out.zarr/y: bad\n")
    done = chunkwise("run", path, "--allowed-mem", "500MB").failed("missing", "p.yaml")
    assert "5:18" in done.stderr, done.stderr


# Pipelines


def pipeline(folder, text, name="p.yaml"):
    source(folder)
    (folder / name).write_text(text)
    return chunkwise("run", folder / name, "--allowed-mem", "500MB")


PIPELINES = {
    "cycle": ("inputs: {x: in.zarr}\narrays:\n  a: b + 1\n  b: a + x\noutputs: {out.zarr/y: a}\n", ["a", "b", ("cycle", "depend")]),
    "itself": ("inputs: {x: in.zarr}\narrays:\n  a: a + 1\noutputs: {out.zarr/y: a}\n", ["a", ("cycle", "depend")]),
    "duplicate array": ("inputs: {x: in.zarr}\narrays:\n  twice: x\n  twice: x + 1\noutputs: {out.zarr/y: twice}\n", ["twice"]),
    "input and array": ("inputs: {x: in.zarr}\narrays:\n  x: x + 1\noutputs: {out.zarr/y: x}\n", ["x", ("twice", "duplicate", "already")]),
    "duplicate output": ("inputs: {x: in.zarr}\noutputs:\n  out.zarr/y: x\n  out.zarr/y: x\n", ["out.zarr/y"]),
    "nested outputs": ("inputs: {x: in.zarr}\noutputs:\n  out.zarr/y: x\n  out.zarr/y/z: x\n", ["out.zarr/y"]),
    "output is input": ("inputs: {x: in.zarr}\narrays: {y: x + 1}\noutputs:\n  in.zarr: y\n", ["in.zarr"]),
    "unknown section": ("inptus: {x: in.zarr}\noutputs: {out.zarr/y: x}\n", ["inptus", "inputs"]),
    "unknown option": ("inputs: {x: {url: in.zarr, decode: true}}\noutputs: {out.zarr/y: x}\n", ["decode"]),
    "unknown spec": ("inputs: {x: in.zarr}\noutputs: {out.zarr/y: x}\nspec: {allowed_memory: 2GB}\n", ["allowed_memory"]),
    "bad size": ("inputs: {x: in.zarr}\noutputs: {out.zarr/y: x}\nspec: {allowed_mem: 2 parsecs}\n", ["parsecs"]),
    "no outputs": ("inputs: {x: in.zarr}\n", ["output"]),
    "unknown codec": ("inputs: {x: in.zarr}\noutputs: {out.zarr/y: {array: x, codec: shrinkwrap}}\n", ["shrinkwrap"]),
    "unknown dimension": ("inputs: {x: in.zarr}\noutputs: {out.zarr/y: {array: x, chunks: {tme: 3}}}\n", ["tme"]),
    "shards that do not fit": ("inputs: {x: in.zarr}\noutputs: {out.zarr/y: {array: x, chunks: {time: 4}, shards: {time: 10}}}\n", ["10", "4"]),
    "unknown scheme": ("inputs: {x: 'gopher://host/x'}\noutputs: {out.zarr/y: x}\n", ["gopher"]),
    "not yaml": ("inputs: [x: {\n", ["p.yaml"]),
    "empty": ("", [("p.yaml", "output", "empty")]),
    "alias bomb": ("a: &a [x,x,x,x,x,x,x,x]\n" + "".join(f"{c}: &{c} [{','.join(['*' + p] * 8)}]\n" for p, c in zip("abcdefghi", "bcdefghij")), []),
}  # fmt: skip


@pytest.mark.parametrize("text, names", PIPELINES.values(), ids=PIPELINES.keys())
def test_pipelines(tmp_path, text, names):
    done = pipeline(tmp_path, text).failed(*names)
    published_nothing_silently(tmp_path, done)
    np.testing.assert_array_equal(read_array(tmp_path / "in.zarr"), values(1, (40, 30), "float64"))


def test_missing_pipeline(tmp_path):
    chunkwise("run", tmp_path / "nowhere.yaml").failed("nowhere.yaml")


def test_pipeline_that_is_binary(tmp_path):
    (tmp_path / "p.yaml").write_bytes(bytes(range(256)) * 10)
    chunkwise("run", tmp_path / "p.yaml").failed("p.yaml")


def test_plan_that_was_tampered_with(tmp_path):
    source(tmp_path)
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "x + 1"}, {"out.zarr/y": "y"})
    plan = json.loads(chunkwise("plan", path, "--format", "json", "--allowed-mem", "500MB").ok().stdout)
    plan["surprise"] = 1
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    chunkwise("run", tmp_path / "plan.json", cwd=tmp_path).failed("surprise")


def test_unknown_option_of_the_command(tmp_path):
    source(tmp_path)
    run(tmp_path, None, None, None, "--allowd-mem", "1GB").failed("--allowd-mem")


# Outputs and resources


def test_output_exists(tmp_path):
    x = source(tmp_path)
    run(tmp_path).ok()
    before = sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "out.zarr").rglob("*"))
    run(tmp_path, {"y": "x + 2"}).failed("out.zarr/y", "--overwrite")
    assert sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "out.zarr").rglob("*")) == before
    run(tmp_path, {"y": "x + 2"}, None, None, "--overwrite").ok()
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/y"), x + 2)


def test_too_little_memory(tmp_path):
    source(tmp_path, (400, 5000), (400, 5000))
    done = run(tmp_path, mem="1MB").failed(("memory", "allowed_mem", "allowed-mem"), ("MB", "MiB", "bytes", "kB"))
    assert not (tmp_path / "out.zarr").exists(), done.stderr


def namespace():
    """A command that gives a private mount table, or None."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") and subprocess.run([*command, "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True).returncode == 0:
            return command
    return None


def mounted(folder, options):
    """A prefix that runs a command with a tmpfs on `folder/small`."""
    (folder / "small").mkdir()
    command = namespace()
    if command is None:
        pytest.fail("nothing can be mounted here: run the tests as root, or allow namespaces of users (sysctl kernel.unprivileged_userns_clone=1)")
    return [*command, "sh", "-c", f'mount -t tmpfs -o {options} none "{folder}/small" && exec "$@"', "sh"]


def test_full_disk(tmp_path):
    source(tmp_path, (400, 3000), (10, 3000))
    prefix = mounted(tmp_path, "size=2m")
    run(tmp_path, outputs={"small/out.zarr/y": {"array": "y", "codec": "none"}}, prefix=prefix).failed("out.zarr", ("space", "full", "ENOSPC"))


def test_file_size_limit(tmp_path):
    """Like a full disk, without a mount: writes of more than 64 KiB fail."""
    source(tmp_path, (400, 3000), (100, 3000))
    prefix = ["sh", "-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"]
    done = run(tmp_path, outputs={"out.zarr/y": {"array": "y", "codec": "none"}}, prefix=prefix).failed("out.zarr")
    published_nothing_silently(tmp_path, done)


def test_read_only_folder(tmp_path):
    source(tmp_path)
    if os.geteuid() == 0:
        prefix = mounted(tmp_path, "ro")
    else:
        prefix = ()
        (tmp_path / "small").mkdir(mode=0o500)
    run(tmp_path, outputs={"small/out.zarr/y": "y"}, prefix=prefix).failed("small", ("read-only", "read only", "permission", "denied"))


def test_output_under_a_file(tmp_path):
    source(tmp_path)
    (tmp_path / "file").write_text("text")
    run(tmp_path, outputs={"file/out.zarr/y": "y"}).failed("file")
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize("args", [("functions",), ("plan-schema",), ("completions", "bash")])
def test_a_reader_that_stops_reading_is_no_error(args):
    """As in `chunkwise functions | head -1`."""
    done = unread(*args)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failure_that_nobody_reads_is_one(tmp_path):
    """As in `chunkwise verify s.zarr | head -1`, with `pipefail`."""
    source(tmp_path)
    (tmp_path / "in.zarr/c/2/0").write_bytes(b"torn")
    done = unread("verify", str(tmp_path / "in.zarr"))
    assert done.returncode == 1, done.stderr


def unread(*args):
    """The command, with an output that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([binary(), *args], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    return done


@pytest.mark.parametrize("name, data, words", [
    ("x.nc", b"CDF\x01" + bytes(20), ["NetCDF", "to_zarr"]),
    ("x.nc", b"\x89HDF\r\n\x1a\n" + bytes(20), ["HDF5", "to_zarr"]),
    ("x.tif", b"II*\0" + bytes(20), ["TIFF", "rioxarray"]),
    ("x.grib", b"GRIB" + bytes(20), ["GRIB", "cfgrib"]),
    ("x.zarr.zip", b"PK\x03\x04" + bytes(20), ["zip", "unpack"]),
    ("x.csv", b"a,b\n1,2\n", ["is a file", "folder"]),
])  # fmt: skip
def test_files_of_other_formats_are_named(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    path = write_pipeline(tmp_path, {"x": name}, {}, {"out.zarr/y": "x"})
    chunkwise("run", path).failed(name, *words)
    assert not (tmp_path / "out.zarr").exists()


def test_folders_without_metadata_are_named(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/notes.txt").write_text("hello")
    path = write_pipeline(tmp_path, {"x": "data"}, {}, {"out.zarr/y": "x"})
    chunkwise("run", path).failed("data", "folder", "notes.txt")


def test_how_a_function_is_called():
    assert "isel(x, time=0" in chunkwise("functions", "isel").ok().stdout
    assert chunkwise("functions", "hypot").ok().stdout.startswith("hypot(x, y)")
    chunkwise("functions", "mena").failed("mena", "mean")


def test_negative_memory_is_not_an_option_of_the_shell(tmp_path):
    path = write_pipeline(tmp_path, {}, {}, {"out.zarr/y": "zeros([3])"})
    chunkwise("run", path, "--allowed-mem", "-1GB").failed("-1GB", "--allowed-mem")

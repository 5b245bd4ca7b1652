"""The peers' environments, made on first use: newest versions from PyPI, and one command from crates.io."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# xarray-beam and rechunker need other versions of what the rest shares.
PACKAGES = {
    "main": "cubed cubed-xarray dask distributed tensorstore xarray flox zarr numpy numcodecs scipy matplotlib threadpoolctl pyyaml".split(),
    "beam": ["xarray-beam"],
    "rechunker": ["rechunker", "dask"],
}
OF_PEER = {"xarray_beam": "beam", "rechunker": "rechunker"}
SHOWN = ("cubed", "dask", "distributed", "tensorstore", "xarray", "flox", "xarray-beam", "apache-beam", "rechunker", "zarr", "numpy")


def interpreter(version):
    """A Python of at least 3.12: the one that runs, or one of pyenv's, or one on the path."""
    if version is None and sys.version_info >= (3, 12):
        return sys.executable
    wanted = [version] if version else ["3.14", "3.13", "3.12"]
    for v in wanted:
        for path in sorted(pathlib.Path.home().glob(f".pyenv/versions/{v}*/bin/python"), reverse=True):
            return str(path)
        if found := shutil.which(f"python{v}"):
            return found
    sys.exit(f"no Python {' or '.join(wanted)} found: newest Cubed and xarray need at least 3.12")


def folder(python):
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return cache / "chunkwise" / f"compare-{version}"


def environment(base, name, python, update=False):
    """The interpreter of environment `name`, made or brought up to date if needed; an error message instead if that fails."""
    path, wanted = base / name, " ".join(PACKAGES[name])
    stamp = path / "installed.txt"
    if update or not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {wanted} into {path}", file=sys.stderr, flush=True)
        subprocess.run([python, "-m", "venv", str(path)], check=True)
        command = [str(path / "bin/python"), "-m", "pip", "install", "-q", "--upgrade", *PACKAGES[name]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-1]
        stamp.write_text(wanted)
    return str(path / "bin/python"), None


def versions(python):
    done = subprocess.run([python, "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True)
    found = {p["name"].lower(): p["version"] for p in json.loads(done.stdout)}
    return {name: found[name] for name in SHOWN if name in found}


def tools(base, update=False):
    """The folder of `zarrs_reencode`, built if needed; the build files are removed. An error message instead if that fails."""
    bin = base / "cargo" / "bin"
    if update or not (bin / "zarrs_reencode").exists():
        if shutil.which("cargo") is None:
            return None, "needs cargo"
        print("building zarrs_tools, which takes minutes", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as target:
            env = {**os.environ, "CARGO_TARGET_DIR": target}
            command = ["cargo", "install", "zarrs_tools", "--locked", "--root", str(base / "cargo")]
            done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-1]
    return str(bin), None

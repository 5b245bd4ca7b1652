"""The build backend of the package: maturin, and the command ``chunkwise`` beside the extension.

``pip install ./python`` and ``pip wheel ./python`` come here. Maturin builds the extension and puts into the wheel what is in
``chunkwise.data/scripts``, so the command is built into that folder first. It is the same program that Cargo installs.

``pip wheel ./python -C features=full`` builds everything that releases have, with the clients of AWS and Kubernetes. ``-C manylinux=2_28`` builds a wheel for
Linux with that glibc and later ones, whatever this machine has. Zig links it, which pip installs for the build.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin
from maturin import build_sdist, get_requires_for_build_editable, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SCRIPTS = HERE / "chunkwise.data" / "scripts"

#: What Rust calls Linux with glibc on this processor.
TARGET = f"{platform.machine()}-unknown-linux-gnu"

Settings = dict[str, Any] | None


def _features(settings: Settings) -> list[str]:
    """The features, which the command and the extension have under the same names."""
    given = (settings or {}).get("features", "")
    words = given if isinstance(given, list) else [given]
    return [name for word in words for name in word.replace(",", " ").split()]


def _manylinux(settings: Settings) -> str | None:
    """The oldest glibc that the wheel is for, such as ``2.28``."""
    given = (settings or {}).get("manylinux")
    if given is None:
        return None
    if sys.platform != "linux" or not re.fullmatch(r"2[._]\d+", str(given)):
        raise SystemExit(f"manylinux={given}: on Linux, give the oldest version of glibc that the wheel is for, such as manylinux=2_28")
    return str(given).replace("_", ".")


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    found: list[str] = maturin.get_requires_for_build_wheel(config_settings)
    return [*found, "ziglang", "cargo-zigbuild"] if _manylinux(config_settings) else found


def _command(features: list[str], glibc: str | None = None) -> None:
    """Builds the command into the folder of scripts."""
    shutil.rmtree(SCRIPTS.parent, ignore_errors=True)
    SCRIPTS.mkdir(parents=True)
    if not (ROOT / "crates" / "cli" / "Cargo.toml").is_file():
        print(
            "chunkwise: these sources have no crates/cli, so the package is built without the command chunkwise. Arrays and xarray work; "
            "the executors processes, slurm and command need CHUNKWISE_PROGRAM=PATH.",
            file=sys.stderr,
        )
        return
    name = "chunkwise.exe" if os.name == "nt" else "chunkwise"
    build = ["cargo", "zigbuild" if glibc else "build", "--release", "--locked", "--package", "chunkwise-cli", "--bin", "chunkwise"]
    if glibc:
        build += ["--target", f"{TARGET}.{glibc}"]
    if features:
        build += ["--features", ",".join(features)]
    try:
        # What is printed to standard output is not pip's.
        done = subprocess.run([*build, "--message-format=json-render-diagnostics"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise SystemExit("chunkwise is built by Cargo, which is not on the PATH: install Rust from https://rustup.rs") from None
    if done.returncode:
        raise SystemExit(f"the command chunkwise could not be built: {' '.join(build)}")
    shutil.copy(_executable(done.stdout), SCRIPTS / name)


def _executable(messages: str) -> str:
    """The path of the program, which depends on Cargo's configuration."""
    for line in reversed(messages.splitlines()):
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message.get("executable"):
            return str(message["executable"])
    raise SystemExit("Cargo did not say where the command chunkwise is")


def _maturin(settings: Settings, features: list[str]) -> dict[str, Any]:
    """The settings for maturin."""
    rest = {k: v for k, v in (settings or {}).items() if k not in ("features", "manylinux")}
    own = str(rest.pop("build-args", os.environ.get("MATURIN_PEP517_ARGS", "")))
    glibc = _manylinux(settings)
    named = ["--zig", "--target", TARGET, "--compatibility", f"manylinux_{glibc.replace('.', '_')}"] if glibc else []
    return {**rest, "build-args": " ".join([own, "--locked", *named, *(["--features", ",".join(features)] if features else [])]).strip()}


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    features = _features(config_settings)
    _command(features, _manylinux(config_settings))
    return str(maturin.build_wheel(wheel_directory, _maturin(config_settings, features), metadata_directory))


def build_editable(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """The extension alone: a command of the sources is made by Cargo, and named by CHUNKWISE_PROGRAM."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return str(maturin.build_editable(wheel_directory, _maturin(config_settings, _features(config_settings)), metadata_directory))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, _maturin(config_settings, _features(config_settings))))


def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Settings = None) -> str:
    return prepare_metadata_for_build_wheel(metadata_directory, config_settings)

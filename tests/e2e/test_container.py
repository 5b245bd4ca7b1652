"""The image of `infra/container`, built here and run under limits that the kernel enforces.

What is in it is the command of this build, linked anew without shared libraries (`tests/run` does that); a release is built in the same
way, with optimisations.
"""

import json
import os
import pathlib
import shutil
import ssl
import subprocess

import numpy as np
import zarr
from harness import chunkwise, read_array, values, write_array, write_pipeline
from services import WebServer
from services.podman import IMAGE

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONTAINER = ROOT / "infra" / "container"
MIB = 1 << 20
HEADROOM = 64 * MIB


def inside(podman, folder, *command, memory=None, options=()):
    """Run the command on a folder, which is /data there, as whoever owns it."""
    limit = [f"--memory={memory}", f"--memory-swap={memory}"] if memory else []
    owner = ["--user", f"{os.getuid()}:{os.getgid()}", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]
    return podman.run(IMAGE, *command, options=[*limit, *owner, f"--volume={folder}:/data", *options])


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_both_recipes_make_the_same_image():
    tails = [(CONTAINER / name).read_text().split("\nFROM scratch\n")[1].split("\n", 1) for name in ("Containerfile", "Containerfile.prebuilt")]
    assert [t[0] for t in tails] == ["COPY --from=build /image/ /", "COPY . /"]
    assert tails[0][1] == tails[1][1]


def test_the_image_holds_the_command_and_nothing_else(podman):
    config = json.loads(podman.call("podman", "image", "inspect", IMAGE, "--format", "{{json .Config}}").stdout)
    assert config["User"] == "65532:65532" and config["Entrypoint"] == ["/chunkwise"]
    labels = {k.removeprefix("org.opencontainers.image."): v for k, v in config["Labels"].items()}
    assert labels["title"] == "chunkwise" and labels["licenses"] == "Apache-2.0 OR MIT" and labels["version"] and labels["description"]
    done = podman.run(IMAGE, "--version")
    assert done.returncode == 0 and done.stdout.split() == ["chunkwise", labels["version"]]
    assert podman.run(IMAGE, options=["--entrypoint=/bin/sh"]).returncode in (126, 127)
    made = podman.call("podman", "create", IMAGE).stdout.strip()
    listing = subprocess.run(
        ["sh", "-c", f"podman export {made} | tar -t"], env=podman.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    ).stdout.split()
    # Engines add files and folders of their own, such as etc/hosts, which are empty.
    assert {"chunkwise", "etc/ssl/certs/ca-certificates.crt", "licenses/LICENSE-MIT", "tmp/"} <= set(listing)
    assert not any(name.startswith(("bin/", "usr/", "lib/", "lib64/")) for name in listing)


def test_binaries_with_shared_libraries_are_refused(tmp_path):
    shared = pathlib.Path(shutil.which("ls")).resolve()
    done = subprocess.run([CONTAINER / "root", shared, tmp_path / "root"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and "needs shared libraries" in done.stderr


def test_a_run_gives_what_a_local_run_gives(podman, tmp_path):
    for name in ("here", "there"):
        shutil.copytree(ROOT / "examples" / "data" / "winds.zarr", tmp_path / name / "data" / "winds.zarr")
        shutil.copy(ROOT / "examples" / "winds.yaml", tmp_path / name)
    chunkwise("run", tmp_path / "here" / "winds.yaml", "--allowed-mem", "100MB", "--work-dir", tmp_path / "here" / "work").ok()
    done = inside(
        podman, tmp_path / "there", "run", "/data/winds.yaml", "--allowed-mem", "100MB", "--work-dir", "/data/work", memory=100_000_000 + HEADROOM
    )
    assert done.returncode == 0, done.stderr
    here, there = files(tmp_path / "here" / "out"), files(tmp_path / "there" / "out")
    assert here and here == there
    done = inside(podman, tmp_path / "there", "verify", "/data/out/winds.zarr")
    assert done.returncode == 0 and "whole" in done.stdout, done.stdout + done.stderr


def test_more_data_than_the_limit(podman, large):
    """The limit that the documentation recommends is enough."""
    outputs = {"out.zarr/mean": 'mean(u, dim="time")', "out.zarr/series": {"array": "u", "chunks": {"time": -1, "y": 20, "x": 20}}}
    write_pipeline(large, {"u": "in.zarr/u"}, {}, outputs, spec={"work_dir": "work"})
    allowed = 120_000_000
    done = inside(podman, large, "run", "/data/pipeline.json", "--allowed-mem", allowed, memory=allowed + HEADROOM)
    assert done.returncode == 0, done.stderr
    source = zarr.open_array(str(large / "in.zarr/u"), mode="r")
    mean = sum(source[i : i + 50].sum(axis=0, dtype="float64") for i in range(0, 400, 50)) / 400
    np.testing.assert_allclose(read_array(large / "out.zarr/mean"), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(zarr.open_array(str(large / "out.zarr/series"), mode="r")[:, 380:, 480:], source[:, 380:, 480:])


def test_a_limit_that_is_too_small(podman, tmp_path):
    """The kernel kills the process, its engine says 137, and the run can go on where there is more memory."""
    u = values(1, (24 * MIB,), "float32")
    write_array(tmp_path / "in.zarr/u", u)
    path = write_pipeline(tmp_path, {"u": "in.zarr/u"}, {}, {"out.zarr/r": "u + 1"}, spec={"work_dir": "work"})
    run = ["run", f"/data/{path.name}", "--allowed-mem", "600MB"]
    done = inside(podman, tmp_path, *run, memory=64 * MIB)
    assert done.returncode == 137, f"{done.returncode} {done.stderr}"
    assert not (tmp_path / "out.zarr/r/zarr.json").exists(), "an output that is not whole cannot be opened"
    done = inside(podman, tmp_path, *run, "--resume", memory=600_000_000 + HEADROOM)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/r"), u + np.float32(1))


def authority(folder):
    """An authority for certificates, and a server's certificate for `localhost`: (authority, certificate, key)."""

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True, stdin=subprocess.DEVNULL)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Test authority", "-days", "2")
    openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    signer = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    openssl("x509", "-req", "-in", "server.csr", *signer, "-out", "server.pem", "-days", "2", "-extfile", "names")
    return folder / "ca.pem", folder / "server.pem", folder / "server.key"


def test_names_and_certificates(podman, tmp_path):
    """A static binary resolves names, and trusts whom the image or SSL_CERT_FILE says."""
    ca, certificate, key = authority(tmp_path)
    write_array(tmp_path / "web" / "u", values(0, (4, 5), "float32"))
    with WebServer(tmp_path / "web") as web:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        web.server.socket = context.wrap_socket(web.server.socket, server_side=True)
        url = f"https://localhost:{web.server.server_port}/u"
        trusted = inside(podman, tmp_path, "info", url, options=["--env=SSL_CERT_FILE=/data/ca.pem"])
        assert trusted.returncode == 0 and "float32" in trusted.stdout, trusted.stderr
        # The image's own roots do not know this authority.
        unknown = inside(podman, tmp_path, "info", url)
        assert unknown.returncode == 1 and "certificate" in unknown.stderr.lower(), unknown.stderr

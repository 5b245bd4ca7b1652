"""Podman and buildah over images of their own: nothing of the machine's containers is seen or touched."""

import fcntl
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile

from .servers import CACHE, MissingService

# The image that tests are run with.
IMAGE = "localhost/chunkwise:test"
PACKAGES = ["podman", "buildah", "runc", "conmon", "uidmap", "netavark", "iptables"]
HOW = "apt-get install --no-install-recommends " + " ".join(PACKAGES)

# What works as root in a container without systemd: the host's network, plain cgroups, and runc, which still knows cgroups of version 1.
CONTAINERS = """
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
netns = "host"
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE = """
[storage]
driver = "vfs"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""


def install():
    """Both programs, by apt where they are missing and this process may install them."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / ".apt.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [p for p in ("podman", "buildah", "runc") if not shutil.which(p)]
        if not missing:
            return
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise MissingService(f"{', '.join(missing)} not installed, and this user cannot install it: {HOW}")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        said = ""
        for args in (["apt-get", "update", "-qq"], ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES]):
            done = subprocess.run(args, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            said += done.stderr
        missing = [p for p in ("podman", "buildah", "runc") if not shutil.which(p)]
        if missing:
            raise MissingService(f"{', '.join(missing)} cannot be installed ({said.strip()[-300:]}): {HOW}")


def allowed(what):
    """A limit that is not above that of this process, since raising one takes a right that it may not have."""
    hard = resource.getrlimit(what)[1]
    return 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)


class Podman:
    """`with Podman() as podman: podman.run("chunkwise:test", "--help", options=["--memory=64m"])`"""

    def __enter__(self):
        install()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="chunkwise-podman-"))
        (self.folder / "containers.conf").write_text(CONTAINERS.format(files=allowed(resource.RLIMIT_NOFILE), processes=allowed(resource.RLIMIT_NPROC)))
        (self.folder / "storage.conf").write_text(STORAGE.format(folder=self.folder))
        (self.folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self.env = {
            **os.environ,
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "TMPDIR": str(self.folder),
        }
        return self

    def __exit__(self, *_):
        self.call("podman", "rm", "--all", "--force", "--time", "0")
        self.call("podman", "rmi", "--all", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *args, env=None, timeout=120):
        # Where it is started, Podman leaves a file if a container had too little memory.
        return subprocess.run(
            [str(a) for a in args], env={**self.env, **(env or {})}, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
        )

    def run(self, image, *command, options=(), timeout=120):
        """Run a container to its end; the result has its exit code."""
        return self.call("podman", "run", "--rm", *options, image, *command, timeout=timeout)

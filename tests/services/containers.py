"""What a node does for an engine: runs a command with its environment in a memory group of its own, and says how it ended.

The fake APIs of Kubernetes and AWS Batch start their workers with it, so that what happens to these is real: signals, memory, hanging.
"""

import os
import pathlib
import signal
import subprocess
import tempfile
import time
import uuid

from .servers import MissingService

GROUPS = ((pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (pathlib.Path("/sys/fs/cgroup"), "memory.max"))


def memory_group(memory):
    """A new cgroup of either version whose processes are held to so many bytes together. What enters it writes itself to `cgroup.procs`."""
    for folder, limit in GROUPS:
        path = folder / f"chunkwise-test-{uuid.uuid4().hex[:12]}"
        try:
            path.mkdir()
            (path / limit).write_text(str(memory))
            return path
        except OSError:
            if path.exists():
                path.rmdir()
    raise MissingService("no memory group can be made: run the tests as root, with cgroups that may be written")


def killed_for_memory(group):
    """True if the kernel has killed a process of a group for its memory."""
    for name in ("memory.oom_control", "memory.events"):
        file = group / name
        lines = file.read_text().splitlines() if file.exists() else []
        if any(line.split()[0] == "oom_kill" and int(line.split()[1]) > 0 for line in lines):
            return True
    return False


def remove_group(group, seconds):
    """Removes a group as soon as its last process has ended."""
    end = time.monotonic() + seconds
    while True:
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() > end:
                return None
            time.sleep(0.01)


class Container:
    """One process, held to `memory` bytes. `poll()` gives its exit code when it has ended; then `oom` says if memory was the reason.
    A `held` one is stopped (SIGSTOP) before it does anything."""

    def __init__(self, words, env, memory=None, held=False):
        self.group = memory_group(memory) if memory else None
        self.oom, self.code, self.deadline = False, None, None
        self.log = tempfile.TemporaryFile()
        # The shell enters the group and becomes the command, so that nothing of the command runs outside.
        script = ("kill -STOP $$; " if held else "") + 'echo $$ > "$0" && exec "$@"'
        enter = ["/bin/sh", "-c", script, str(self.group / "cgroup.procs")] if self.group else []
        self.process = subprocess.Popen(
            [*enter, *words], env={"PATH": os.defpath, "TMPDIR": "/tmp", **env}, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
            start_new_session=True, cwd="/",
        )  # fmt: skip

    def poll(self):
        if self.code is None and self.process.poll() is not None:
            self.code = 128 - self.process.returncode if self.process.returncode < 0 else self.process.returncode
            self._close()
        elif self.code is None and self.deadline and time.monotonic() > self.deadline:
            self._signal(signal.SIGKILL)
        return self.code

    def _close(self):
        if self.group is not None:
            self.oom = killed_for_memory(self.group)
            remove_group(self.group, 0.5)

    def _signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def stop(self, grace):
        """SIGTERM now, and SIGKILL after `grace` seconds."""
        if self.deadline is None and self.poll() is None:
            self._signal(signal.SIGTERM)
            self.deadline = time.monotonic() + grace

    def kill(self):
        if self.poll() is None:
            self._signal(signal.SIGKILL)
            self.process.wait()
            self.poll()

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

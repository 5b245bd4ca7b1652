"""Run one command and say what it took: `python -I -S launch.py SPEC.json` prints wall and CPU time, memory and bytes as JSON.

A process of its own, and a small one, so that the command's largest RSS is not that of a harness that forked it. Under root the command
gets a cgroup (v1 or v2): CPU time and memory are then those of the whole process tree, and its size is capped.
"""

import json
import os
import pathlib
import signal
import sys
import threading
import time

ROOT = pathlib.Path("/sys/fs/cgroup")


class Group:
    """A cgroup for one run; every method works without one."""

    def __init__(self, name, cap):
        self.paths, self.v1 = [], (ROOT / "memory").is_dir()
        try:
            for base in [ROOT / "memory", ROOT / "cpuacct"] if self.v1 else [ROOT]:
                path = base / name
                path.mkdir()
                self.paths.append(path)
            if not self.v1 and not (self.paths[0] / "memory.stat").exists():
                raise OSError("no memory controller")
            (self.paths[0] / ("memory.limit_in_bytes" if self.v1 else "memory.max")).write_text(str(cap))
        except OSError:
            self.close()

    def enter(self):
        for path in self.paths:
            (path / "cgroup.procs").write_text(str(os.getpid()))

    def members(self):
        return [int(p) for p in (self.paths[0] / "cgroup.procs").read_text().split()] if self.paths else []

    def anonymous(self):
        """Bytes of memory that are no file's, of all members together."""
        for line in (self.paths[0] / "memory.stat").read_text().splitlines():
            key, value = line.split()
            if key == ("rss" if self.v1 else "anon"):
                return int(value)
        return 0

    def cpu(self):
        if self.v1:
            return int((self.paths[1] / "cpuacct.usage").read_text()) / 1e9
        return int((self.paths[0] / "cpu.stat").read_text().split()[1]) / 1e6

    def close(self):
        for path in self.paths:
            for _ in range(50):
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)
        self.paths = []


def tree_rss(pid):
    """Resident bytes of a process and its descendants; pages that they share count for each."""
    total, todo = 0, [pid]
    while todo:
        one = todo.pop()
        try:
            total += int(pathlib.Path(f"/proc/{one}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in os.listdir(f"/proc/{one}/task"):
                todo += map(int, pathlib.Path(f"/proc/{one}/task/{task}/children").read_text().split())
        except (OSError, IndexError):
            continue
    return total


def io_bytes():
    """Bytes read and written by system calls, of this process and the children it has waited for."""
    try:
        fields = dict(line.split(": ") for line in pathlib.Path("/proc/self/io").read_text().splitlines())
        return int(fields["rchar"]), int(fields["wchar"])
    except OSError:
        return 0, 0


def main():
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    group = Group(f"chunkwise-compare-{os.getpid()}", spec["cap"])
    io = io_bytes()
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            group.enter()
            os.sched_setaffinity(0, spec["cpus"])
            for fd, path in ((1, spec["stdout"]), (2, spec["stderr"])):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), fd)
            os.execvpe(spec["command"][0], spec["command"], {**os.environ, **spec["env"]})
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(127)

    peak, late, done = 0, False, threading.Event()

    def kill():
        for member in group.members() or [pid]:
            try:
                os.kill(member, signal.SIGKILL)
            except OSError:
                pass

    def watch():
        nonlocal peak, late
        while not done.wait(0.01):
            peak = max(peak, group.anonymous() if group.paths else tree_rss(pid))
            if not late and time.perf_counter() - started > spec["timeout"]:
                late = True
                kill()

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - started
    done.set()
    watcher.join()
    if group.members():  # what the command left behind
        kill()
    after = io_bytes()
    result = {
        "wall": wall,
        "cpu": group.cpu() if group.paths else usage.ru_utime + usage.ru_stime,
        "peak": max(peak, usage.ru_maxrss * 1024),
        "read": after[0] - io[0],
        "written": after[1] - io[1],
        "code": os.waitstatus_to_exitcode(status),
        "late": late,
        "measured by": "cgroup" if group.paths else "rusage and /proc",
    }
    group.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()

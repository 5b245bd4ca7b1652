"""What a person sees of a run: one bar on a terminal, lines elsewhere, and both of them true."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest
from harness import binary, values, write_array, write_pipeline

# Enough to compute that a task takes seconds over 60 MB.
ROUNDS = 40


def terminal(path, *args):
    """The texts that a run draws on a terminal of 160 columns, in order, and its exit code."""
    us, them = pty.openpty()
    fcntl.ioctl(them, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    process = subprocess.Popen(  # noqa: SIM115
        [binary(), "run", str(path), *args], stdin=them, stdout=them, stderr=them, env={**os.environ, "TERM": "xterm"}
    )
    os.close(them)
    data, deadline = b"", time.monotonic() + 120
    while time.monotonic() < deadline:
        ready, _, _ = select.select([us], [], [], 0.2)
        if ready:
            try:
                data += os.read(us, 65536)
            except OSError:
                break
        elif process.poll() is not None:
            break
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", data.decode(errors="replace")).replace("\r", "\n")
    return [line.strip() for line in text.split("\n") if line.strip()], process.wait(30)


def one_long_task(folder, executor="threads", rounds=ROUNDS):
    """A reduction of everything on one worker: a single task, of which only its inside can say how far it is."""
    x = values(1, (30, 500, 500), "float64", -1, 1)
    write_array(folder / "in.zarr", x, (1, 500, 500), ["time", "lat", "lon"])
    arrays = {"a0": "x", **{f"a{k + 1}": f"sin(exp(cos(a{k})))" for k in range(rounds)}, "m": f'mean(a{rounds}, dim="time")'}
    return write_pipeline(folder, {"x": "in.zarr"}, arrays, {"out.zarr/m": "m"}, spec={"workers": 1, "executor": executor})


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_bar_moves_inside_a_task(tmp_path, executor):
    # Another process tells every second how far it is: a fast machine gets more to do.
    for rounds in (ROUNDS, 3 * ROUNDS, 9 * ROUNDS):
        (tmp_path / str(rounds)).mkdir()
        lines, code = terminal(one_long_task(tmp_path / str(rounds), executor, rounds), "--allowed-mem", "500MB", "--workers", "1")
        assert code == 0, lines[-5:]
        if float(re.search(r"finished in ([\d.]+) s", lines[-1])[1]) > 4:
            break
    bars = [line for line in lines if "█" in line or "░" in line]
    shares = [int(share) for line in bars for share in re.findall(r"(\d+)%", line)]
    # One task: without a look inside it there would be nothing between the beginning and the end.
    assert any(5 < share < 95 for share in shares), shares
    assert shares == sorted(shares), "a bar does not go back"
    assert any("estimating" in line for line in bars)
    left = [int(n) for line in bars for n in re.findall(r"about (\d+) s left", line)]
    assert left and min(left) >= 1
    stages = [line for line in lines if line.startswith("stage")]
    assert len(stages) == 1 and stages[0].startswith("stage 0 'm': 1 task, read 60.0 MB")
    assert lines[-1].startswith("finished in")


def test_lines_where_there_is_no_terminal(tmp_path):
    # A line comes every five seconds: a fast machine gets more to do.
    for rounds in (3 * ROUNDS, 9 * ROUNDS, 27 * ROUNDS):
        (tmp_path / str(rounds)).mkdir()
        path = one_long_task(tmp_path / str(rounds), rounds=rounds)
        done = subprocess.run([binary(), "run", str(path), "--allowed-mem", "500MB"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        if float(re.search(r"finished in ([\d.]+) s", done.stderr)[1]) > 6:
            break
    assert "█" not in done.stderr and "\x1b" not in done.stderr
    lines = done.stderr.splitlines()
    seconds = float(re.search(r"finished in ([\d.]+) s", done.stderr)[1])
    told = [line for line in lines if re.match(r"\d+ %: ", line)]
    assert len(told) == pytest.approx(seconds / 5, abs=1.5)
    assert told and all(re.match(r"\d+ %: [\d.]+ MB of 6[\d.]+ MB, ", line) for line in told)

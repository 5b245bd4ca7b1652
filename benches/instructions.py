"""Instructions of the hot kernels, counted by valgrind: the same on every run, so that a slower kernel shows on a busy machine as well.

    python benches/instructions.py            compare with the recorded counts; fails if a kernel takes over 3 % more
    python benches/instructions.py --record   write them down

A kernel is run with a few and with more repetitions, and the difference counts: what is prepared once does not. Valgrind knows no AVX-512,
so these are the instructions of the AVX2 path.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "benches" / "instructions.json"
FEW, MORE, TOLERANCE = 2, 7, 1.03


def build():
    subprocess.run(["cargo", "build", "--release", "--package", "chunkwise-kernels", "--example", "hot"], check=True, cwd=ROOT)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "hot"


def instructions(program, name, times):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), name, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    program = build()
    names = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    found, worse = {}, []
    for name in names:
        found[name] = (instructions(program, name, MORE) - instructions(program, name, FEW)) // (MORE - FEW)
        ratio = found[name] / recorded[name] if recorded.get(name) else float("nan")
        print(f"{name:20} {found[name]:>12,} {ratio:8.3f}", flush=True)
        if ratio > TOLERANCE:
            worse.append(name)
    if args.record:
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
    elif worse:
        sys.exit(f"these kernels take more instructions than recorded: {', '.join(worse)}")


if __name__ == "__main__":
    main()

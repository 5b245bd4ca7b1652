"""Instructions of the hot kernels, counted by valgrind: the same on every run, so that a slower kernel shows on a busy machine as well.

    python benches/instructions.py            compare with the recorded counts; fails if a kernel takes over 2 % more
    python benches/instructions.py --record   write them down

A kernel is run with a few and with more repetitions, and the difference counts: what is prepared once does not. Valgrind knows no AVX-512,
so these are the instructions of the AVX2 path. Another version of the compiler has other counts: the record names it, and a comparison
across versions is printed and fails nothing.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "benches" / "instructions.json"
FEW, MORE, TOLERANCE = 2, 6, 1.02


def build():
    subprocess.run(["cargo", "build", "--release", "--package", "chunkwise-kernels", "--example", "hot"], check=True, cwd=ROOT)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples" / "hot"


def instructions(program, name, times):
    """What valgrind counts of a run. With an empty environment, because the loader's work depends on it."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", str(program), name, str(times)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    counted = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or not counted:
        sys.exit(f"valgrind could not run {name!r}:\n{done.stderr}")
    return int(counted[1].replace(",", ""))


def repetition(program, name):
    """Instructions of one more repetition."""
    return (instructions(program, name, MORE) - instructions(program, name, FEW)) // (MORE - FEW)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="kernels at a time; the counts do not depend on it")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("this needs valgrind")
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    program = build()
    names = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    recorded = record.get("instructions", {})
    found, worse = {}, []
    with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
        for name, count in zip(names, pool.map(lambda name: repetition(program, name), names)):
            found[name] = count
            ratio = count / recorded[name] if recorded.get(name) else float("nan")
            print(f"{name:20} {count:>12,} {ratio:8.3f}", flush=True)
            if ratio > TOLERANCE:
                worse.append(name)
    if args.record:
        RECORD.write_text(json.dumps({"compiler": compiler, "instructions": found}, indent=1) + "\n")
    elif missing := sorted(set(names) ^ set(recorded)):
        sys.exit(f"kernels and record differ, record them anew: {', '.join(missing)}")
    elif compiler != record["compiler"]:
        print(f"not judged: recorded with {record['compiler']}, this is {compiler}")
    elif worse:
        sys.exit(f"these kernels take more instructions than recorded: {', '.join(worse)}")


if __name__ == "__main__":
    main()

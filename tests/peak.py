"""`python -S peak.py REPORT COMMAND...`: run a command and write its exit code and peak resident bytes.

A process of its own, and a small one: Linux counts the memory that the starting process had before the command replaced it.

The pages of the program itself count, too. Which of them a fault maps depends on where the program lies, so it lies at the same place each time:
at random places the same task took up to a megabyte more or less.
"""

import ctypes
import json
import resource
import subprocess
import sys

ADDR_NO_RANDOMIZE = 0x0040000
# Where this is not allowed, places are random, and the measurements less exact.
getattr(ctypes.CDLL(None), "personality", lambda _: None)(ADDR_NO_RANDOMIZE)

code = subprocess.call(sys.argv[2:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
with open(sys.argv[1], "w") as report:
    json.dump({"code": code, "peak": peak}, report)
sys.exit(code if 0 <= code < 256 else 255)

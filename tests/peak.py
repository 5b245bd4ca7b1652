"""`python -S peak.py REPORT COMMAND...`: run a command and write its exit code and peak resident bytes.

A process of its own, and a small one: Linux counts the memory that the starting process had before the command replaced it.
"""

import json
import resource
import subprocess
import sys

code = subprocess.call(sys.argv[2:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
with open(sys.argv[1], "w") as report:
    json.dump({"code": code, "peak": peak}, report)
sys.exit(code if 0 <= code < 256 else 255)

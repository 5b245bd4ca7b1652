"""The workloads, one module each, in the order of the table.

A module has `TITLE`; `SIZE`, its share of `--gigabytes`, if not 1; `TOLERANCE`, of the largest error relative to the largest value;
`generate(job)`; `outputs(job)`, {name: (shape, chunks, dtype)}; `pipeline(job)`, the parts of Chunkwise's pipeline file;
`reference(job)`, {name: array} by NumPy in double precision; `check(job)` instead of `reference` where results differ by more than
rounding; `arithmetic(job, machine)`, seconds that arithmetic takes at least, where it matters; and one function for each peer.
"""

#          module and whether it is run over compressed inputs as well
WORKLOADS = {
    "quadratic_means": True,
    "vorticity": True,
    "tem": True,
    "climatology": True,
    "rechunk": True,
    "ata": True,
    "add": True,
    "chain": False,
    "mean": True,
    "tiny": False,
    "matmul": False,
    "qr": False,
    "plan_1e6": False,
    "plan_1e7": False,
}

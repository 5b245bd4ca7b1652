"""One run of one peer: `peer.py PEER WORKLOAD JOB.json`. PEER is the name of a function in the workload's module.

`peer.py PEER start JOB.json` imports what the peer needs, and ends.
"""

import os
import sys

THREADS_OF_BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main():
    peer, workload, path = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from job import Job

    job = Job.load(path)
    # Peers that run tasks at once multiply matrices in one thread a task; NumPy by itself uses all of them.
    for name in THREADS_OF_BLAS:
        os.environ[name] = str(job.threads if peer == "numpy" else 1)
    import importlib

    function = getattr(importlib.import_module(f"workloads.{workload}"), peer)
    if peer == "dask":
        from with_dask import scheduler

        with scheduler(job):
            function(job)
    else:
        function(job)


if __name__ == "__main__":
    main()

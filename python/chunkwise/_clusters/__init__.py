"""Clusters whose clients are written in Python: Dask and Ray.

The engine starts ``python -m chunkwise._clusters`` beside itself, and tells it what to start: :mod:`._bridge` is their conversation. On the
nodes of a cluster, :mod:`._node` runs the command ``chunkwise worker``, so tasks run there as on every other executor.
"""

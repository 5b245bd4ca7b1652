"""Servers for the tests of object stores and executors: each starts on a free port, is waited for, and goes away with its `with` block."""

from .batch_api import BatchApi
from .clusters import Dask, Ray
from .gcs_fake import GcsFake
from .kubernetes_api import KubernetesApi
from .proxy import FaultProxy
from .recorder import Recorder
from .servers import Azurite, MiniStack, MissingService, RcloneS3
from .slurm import Slurm
from .web import WebServer

__all__ = ["Azurite", "BatchApi", "Dask", "FaultProxy", "GcsFake", "KubernetesApi", "MiniStack", "MissingService", "Ray", "RcloneS3", "Recorder", "Slurm", "WebServer"]

"""Servers for the tests of object stores and executors: each starts on a free port, is waited for, and goes away with its `with` block."""

from .gcs_fake import GcsFake
from .proxy import FaultProxy
from .servers import Azurite, MiniStack, MissingService, RcloneS3
from .slurm import Slurm
from .web import WebServer

__all__ = ["Azurite", "FaultProxy", "GcsFake", "MiniStack", "MissingService", "RcloneS3", "Slurm", "WebServer"]

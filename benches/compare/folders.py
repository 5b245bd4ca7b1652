"""Folders that each have a place of their own on the disk.

ext4 does not use the number of a deleted file again for some minutes and, for every file that it creates, passes over all such numbers near the
folder. So a run that creates ten thousand files took ten times as long as the first one once others had been deleted there, whoever ran.
"""

import itertools
import os
import shutil
import subprocess
import time

NUMBERS = itertools.count()


def spread(folder):
    """Has ext4 choose another place of the disk for each folder in this one, by its name. Other file systems have no such wish, or no need of it."""
    if shutil.which("chattr"):
        subprocess.run(["chattr", "+T", str(folder)], capture_output=True)


def renew(path):
    """An empty folder in place of what is there, where no files were deleted lately."""
    shutil.rmtree(path, ignore_errors=True)
    new = path.with_name(f"{path.name}-{os.getpid()}-{time.monotonic_ns()}-{next(NUMBERS)}")
    new.mkdir()
    new.rename(path)

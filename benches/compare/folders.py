"""Folders in which no file is created more slowly because others were deleted.

ext4 does not use the number of a deleted file again for some minutes and, for every file that it creates, passes over all such numbers near the
folder. So a run that creates ten thousand files took ten times as long as the first one once others had been deleted, whoever ran. Here no
file is deleted while anything is measured: it is emptied, and moved away with its folder.
"""

import itertools
import os
import shutil
import subprocess
import time

NUMBERS = itertools.count()
DISCARDED = "discarded"


def spread(folder):
    """Has ext4 choose another place of the disk for each folder in this one, by its name. Other file systems have no such wish, or no need of it."""
    if shutil.which("chattr"):
        subprocess.run(["chattr", "+T", str(folder)], capture_output=True)


def unique(name):
    return f"{name}-{os.getpid()}-{time.monotonic_ns()}-{next(NUMBERS)}"


def discard(path):
    """Moves a folder away, if there is one, and takes the content of its files, which have no other names."""
    if not path.is_dir():
        return
    gone = path.parent / DISCARDED / unique(path.name)
    gone.parent.mkdir(exist_ok=True)
    path.rename(gone)
    for root, _, names in os.walk(gone):
        for name in names:
            os.truncate(os.path.join(root, name), 0)


def renew(path):
    """An empty folder in place of what is there, in another place of the disk."""
    discard(path)
    new = path.with_name(unique(path.name))
    new.mkdir()
    new.rename(path)

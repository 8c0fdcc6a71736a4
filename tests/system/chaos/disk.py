"""A small disk that can be filled to the last byte."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

# Mounting is for the superuser.
IS_ALLOWED = os.geteuid() == 0
MISSING = "a small disk can be mounted by the superuser alone"


class Disk:
    """A file system in memory."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self._ballast = self.folder / "ballast"

    def fill(self):
        """Leave no room for anything."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 65536):
                    pass
            except OSError:
                return

    def free(self):
        self._ballast.unlink()


@contextmanager
def small_disk(folder, size):
    """Mount a small disk on a folder until the block ends."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

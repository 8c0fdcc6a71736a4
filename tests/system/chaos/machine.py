"""What can be done to the machine of a service: its clock is set, and its disk runs full."""

import os
import shutil
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
COMPILER = shutil.which("cc")
# Why it cannot be done here, if it cannot.
NO_CLOCK = None if COMPILER else "there is no C compiler: apt-get install gcc libc6-dev"
NO_DISK = None if os.geteuid() == 0 else "a small disk can be mounted by the superuser alone"


class Clock:
    """The time of day that programs under it see; how long something takes stays true."""

    def __init__(self, folder):
        self._file, library = Path(folder) / "clock", Path(folder) / "clock.so"
        self._file.write_bytes(bytes(8))
        command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True)
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self._file)}

    def set(self, seconds):
        """Jump to so many seconds from the true time."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))


class Disk:
    """A file system in memory that can be filled to the last byte."""

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

"""A clock that is wrong, for programs of the tests: clock.c shows them another time of day."""

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
COMPILER = shutil.which("cc")


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

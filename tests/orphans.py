"""Ends what the tests have started and cannot end themselves, because they were killed.

Programs under test have sessions of their own, so that nothing else reaches them: servers, nginx,
Chromium. A guard outlives the tests, and ends every process that has inherited their mark, and
whatever those have started.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

MARK = "TESTS_RUN"
# What ends by itself may take so long.
GRACE_SECONDS = 5.0


def mark():
    """Return the variable of this run, for a program that is started with no other."""
    return {MARK: os.environ[MARK]} if MARK in os.environ else {}


def pytest_configure():
    """Start the guard in the process that starts all others; it needs /proc."""
    if sys.platform == "linux" and MARK not in os.environ:
        pid = str(os.getpid())
        os.environ[MARK] = f"{pid}-{time.time_ns()}"
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        guard = [sys.executable, "-IS", __file__, pid]
        # Nobody waits for it: it ends after this process.
        subprocess.Popen(guard, **nowhere, start_new_session=True).returncode = 0


def marked(text):
    """Return the processes that have inherited a mark and their descendants, but for this one.

    Those that Chromium starts have none: they write their title over their environment.
    """
    parents, found = {}, set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            pid, status = int(folder.name), (folder / "stat").read_text()
            parents[pid] = int(status.rpartition(")")[2].split()[1])
            if text in (folder / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return found - {os.getpid()}


def wait_for_end(pid):
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])


def main():
    wait_for_end(int(sys.argv[1]))
    text = f"{MARK}={os.environ[MARK]}".encode()
    deadline = time.monotonic() + GRACE_SECONDS
    while (left := marked(text)) and time.monotonic() < deadline:
        time.sleep(0.2)
    while left:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        left = marked(text)


if __name__ == "__main__":
    main()

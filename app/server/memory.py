"""glibc's malloc: large blocks go back to the system as soon as they are freed."""

from __future__ import annotations

import ctypes

M_MMAP_THRESHOLD = -3
LARGE_BLOCK = 1024 * 1024


def return_large_blocks() -> None:
    """Let this process, and those that it forks, map each large block by itself.

    By default, glibc raises the size of what it maps to that of the largest block that was freed.
    After the first hash of a password, 19 MB, the next ones come from the heap of their thread, and
    stay there. Other C libraries have no mallopt, or ignore it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)

"""How many connections fit below the limit of open files (RLIMIT_NOFILE)."""

from __future__ import annotations

import contextlib
import resource

# Files of a worker that are not connections: logs, metrics, libraries, mail being sent.
OWN_FILES = 64
# The servers of a replica set, each with a connection pool and pymongo's monitors.
SERVERS = 3
MONITORS = 2
# The minimum, also where the limit is too low for it.
LEAST_CONNECTIONS = 16


def raise_limit() -> None:
    """Raise the soft limit of this process, and of those that it forks, to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems report a hard limit that they do not allow.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections(wanted: int, pool_size: int) -> int:
    """Return how many of the wanted connections a worker may hold."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    room = limit - OWN_FILES - SERVERS * (pool_size + MONITORS)
    return max(LEAST_CONNECTIONS, min(wanted, room))


def shortage(wanted: int, pool_size: int) -> str | None:
    """Return a warning if the limit is too low."""
    allowed = connections(wanted, pool_size)
    if allowed >= wanted:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"The limit of {limit} open files leaves a worker {allowed} connections instead of "
        f"{wanted}: raise it (LimitNOFILE= of systemd, ulimit -n), or lower QM_CONNECTIONS."
    )

"""How many connections the limit of open files leaves room for; beyond it, nothing opens at all."""

from __future__ import annotations

import contextlib
import resource

# What a worker has open beside connections: logs, counters, libraries, mail that is being sent.
OWN_FILES = 64
# The servers of a replica set, each with its pool and what watches it.
SERVERS = 3
WATCHERS = 2
# With fewer connections nobody could be served.
LEAST_CONNECTIONS = 16


def raise_limit() -> None:
    """Let this process, and those that it forks, open as many files as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems name a limit here that they do not allow.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections(wanted: int, pool_size: int) -> int:
    """Return how many connections a worker may hold, of those that are wanted."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    room = limit - OWN_FILES - SERVERS * (pool_size + WATCHERS)
    return max(LEAST_CONNECTIONS, min(wanted, room))


def shortage(wanted: int, pool_size: int) -> str | None:
    """Return a sentence where the limit is too low."""
    allowed = connections(wanted, pool_size)
    if allowed >= wanted:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"The limit of {limit} open files leaves a worker {allowed} connections instead of "
        f"{wanted}: raise it (LimitNOFILE= of systemd, ulimit -n), or lower QM_CONNECTIONS."
    )

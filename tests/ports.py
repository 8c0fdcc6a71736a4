"""Free ports for the programs that tests start."""

import itertools
import os
import random
import socket
from contextlib import suppress

# Below the ports that the system gives to outgoing connections, which could take a free one before
# the program that it is for. Each process begins elsewhere, so that parallel tests do not meet.
PORTS = itertools.count(random.Random(os.getpid()).randrange(10_240, 30_000))


def free_port():
    for port in PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("unreachable")

"""A network of its own: machines on one switch, between which packets can be dropped.

Each machine is a network namespace, and a drop is a routing rule of the one that would receive.
The namespaces are named after the process that made them, so that those of a dead one are swept.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

# Why no network can be made here, if none can.
MISSING = None
if os.geteuid() or not shutil.which("ip"):
    MISSING = "a network is made by the superuser alone, with ip: apt-get install iproute2"
PREFIX = "quartermaster-chaos-"
# Where iproute2 keeps the names.
NAMES = Path("/run/netns")
# Before the table of local addresses, which is asked first unless it is moved.
DROPS, LOCAL = "10", "100"

# TCP waits twice as long for each repetition, so that a healed network would be found healed late.
# Linux before 6.15 cannot be told otherwise, and takes some seconds more.
SOON_AGAIN = "echo 1000 > /proc/sys/net/ipv4/tcp_rto_max_ms"


class Node(NamedTuple):
    """A machine: the namespace and the address of whatever runs on it."""

    namespace: str
    address: str

    def inside(self, command):
        """Return the command that runs another one on this machine."""
        return ["ip", "netns", "exec", self.namespace, *command] if self.namespace else command


LOOPBACK = Node("", "127.0.0.1")


class Network:
    """A switch to which this process is connected as well; nobody is ever cut off from it."""

    def __init__(self, cleanup):
        self._token = secrets.token_hex(3)
        self._cleanup = cleanup
        self._subnet = _free_subnet()
        self._nodes = 0
        self._switch = self._namespace("switch")
        _ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "switch", "up")
        device = f"chaos{self._token}"
        _ip("link", "add", device, "type", "veth", "peer", "name", "us", "netns", self._switch)
        cleanup.callback(_try_ip, "link", "del", device)
        _ip("address", "add", f"{self._subnet}.254/24", "dev", device)
        _ip("link", "set", device, "up")
        self._plug_in("us")

    def node(self):
        """Add a machine."""
        self._nodes += 1
        name = f"node{self._nodes}"
        node = Node(self._namespace(name), f"{self._subnet}.{self._nodes}")
        inside = ("-n", node.namespace)
        veth = ("type", "veth", "peer", "name", name, "netns", self._switch)
        _ip(*inside, "link", "add", "eth0", *veth)
        _ip(*inside, "address", "add", f"{node.address}/24", "dev", "eth0")
        _ip(*inside, "link", "set", "eth0", "up")
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "rule", "add", "pref", LOCAL, "lookup", "local")
        _ip(*inside, "rule", "del", "pref", "0")
        _try_ip("netns", "exec", node.namespace, "sh", "-c", SOON_AGAIN)
        self._plug_in(name)
        return node

    def _namespace(self, name):
        name = f"{PREFIX}{os.getpid()}-{self._token}-{name}"
        _ip("netns", "add", name)
        self._cleanup.callback(_remove, name)
        return name

    def _plug_in(self, device):
        _ip("-n", self._switch, "link", "set", device, "master", "switch", "up")


@contextmanager
def network():
    """Yield a network without machines; it goes with all that runs on it when the block ends."""
    sweep()
    with ExitStack() as cleanup:
        yield Network(cleanup)


@contextmanager
def dropped(senders, receivers):
    """Drop what these send to those until the block ends; the other direction flows."""
    with ExitStack() as healing:
        for sender, receiver in product(senders, receivers):
            rule = ("pref", DROPS, "from", sender.address, "blackhole")
            _ip("-n", receiver.namespace, "rule", "add", *rule)
            healing.callback(_ip, "-n", receiver.namespace, "rule", "del", *rule)
        yield


def sweep():
    """Remove what was left behind by processes that died."""
    for path in NAMES.glob(f"{PREFIX}*"):
        maker = path.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", maker).exists():
            _remove(path.name)


def _remove(namespace):
    """Kill what runs in a namespace, and delete it; its devices go with it."""
    for pid in _try_ip("netns", "pids", namespace).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _try_ip("netns", "del", namespace)


def _free_subnet():
    """Return the beginning of addresses that nobody has; these are set aside for such trials."""
    taken = _ip("-4", "route", "show")
    subnets = [f"198.{net}.{n}" for net, n in product((18, 19), range(256))]
    return random.choice([subnet for subnet in subnets if f"{subnet}." not in taken])


def _ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def _try_ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True).stdout

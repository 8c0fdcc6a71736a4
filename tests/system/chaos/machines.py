"""What breaks: a network of machines (namespaces on a bridge), MongoDB servers, and services."""

import http.client
import os
import random
import shutil
import signal
import subprocess
import time
from collections import namedtuple
from contextlib import closing, contextmanager, suppress
from itertools import product
from pathlib import Path

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests import mongod
from tests.ports import free_port
from tests.system.programs import PROGRAM, environment, execute, run, wait_until, workers_of

# Why nothing can be tried here, if nothing can.
HAS_TOOLS = not os.geteuid() and shutil.which("ip") and shutil.which("cc")
MISSING = None if HAS_TOOLS else "it needs root, ip and cc: apt-get install iproute2 gcc libc6-dev"
PREFIX, PRIMARY, SECONDARY = "quartermaster-chaos-", "isWritablePrimary", "secondary"
LIFETIME, LIMIT = 3, "transactionLifetimeLimitSeconds"
# Long enough that requests are sent twice to a primary that does not know yet that it is cut off.
TIMES = {"electionTimeoutMillis": 5000, "catchUpTimeoutMillis": 2000}
TIMES |= {"heartbeatIntervalMillis": 300, "heartbeatTimeoutSecs": 2}
OPTIONS = ["--replSet=chaos", "--nounixsocket", "--wiredTigerCacheSizeGB=0.25", "--oplogSize=512"]
# With test commands, a primary can be told to stall.
PARAMETERS = "enableTestCommands=1", "diagnosticDataCollectionEnabled=false"
OPTIONS += [f"--setParameter={one}" for one in (*PARAMETERS, f"{LIMIT}={LIFETIME}")]
DIRECT = {"directConnection": True, "serverSelectionTimeoutMS": 1000, "timeoutMS": 3000}
SETTINGS = {"ENV": "production", "SECRET_KEY": "a secret that only the storms use: 32+ long"}
SETTINGS |= {"MAX_REQUESTS": "0", "LOG_LEVEL": "WARNING", "CONSOLE": "0"}
# Production listens beyond the loopback only for a proxy. A storm lasts longer than a token.
SETTINGS |= {"TRUSTED_PROXIES": "1", "ACCESS_TOKEN_SECONDS": "864000"}
# A machine: the namespace and the address of whatever runs on it.
Node, INSIDE = namedtuple("Node", "namespace address"), ("ip", "netns", "exec")


def network(ending, count):
    """Return so many machines on a bridge, to which this process is connected as well."""
    for path in Path("/run/netns").glob(f"{PREFIX}*"):
        if not Path("/proc", path.name.removeprefix(PREFIX).partition("-")[0]).exists():
            _remove(path.name)
    # These addresses are set aside for such trials.
    subnets, taken = [f"198.18.{n}" for n in range(256)], _ip("-4 route show")
    subnet = random.choice([one for one in subnets if f"{one}." not in taken])
    nodes = [Node(f"{PREFIX}{os.getpid()}-{n}", f"{subnet}.{n}") for n in range(1, count + 1)]
    bridge = f"qm{subnet.replace('.', '-')}"
    _ip(f"link add {bridge} up type bridge")
    ending.callback(_ip, f"link del {bridge}")
    _ip(f"address add {subnet}.254/24 dev {bridge}")
    for number, (name, address) in enumerate(nodes):
        _ip(f"netns add {name}")
        ending.callback(_remove, name)
        _ip(f"link add {bridge}{number} type veth peer name eth0 netns {name}")
        _ip(f"link set {bridge}{number} master {bridge} up")
        _ip(f"-n {name} address add {address}/24 dev eth0")
        _ip(f"-n {name} link set eth0 up")
        _ip(f"-n {name} link set lo up")
        # The table of local addresses is asked first unless it is moved.
        _ip(f"-n {name} rule add pref 100 lookup local")
        _ip(f"-n {name} rule del pref 0")
    return nodes


def _remove(namespace):
    """Kill what runs in a namespace, and delete it; its devices go with it."""
    for pid in _ip(f"netns pids {namespace}").split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip(f"netns del {namespace}")


def _ip(command):
    return subprocess.run(["ip", *command.split()], check=True, stdout=-1, text=True).stdout


class Member:
    """One server of a replica set."""

    def __init__(self, folder, node):
        self.node, self._folder, self._port = node, folder, free_port()
        self.host = f"{node.address}:{self._port}"
        folder.mkdir()

    def start(self):
        command = [mongod.program(self._folder), f"--dbpath={self._folder}", *OPTIONS]
        command += [f"--bind_ip={self.node.address}", f"--port={self._port}"]
        with (self._folder / "mongod.log").open("ab") as log:
            self._process = execute([*INSIDE, self.node.namespace, *command], os.environ, log)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def command(self, *command, **options):
        with MongoClient(self.host, **DIRECT) as client:
            return client.admin.command(*command, **options)

    def state(self):
        """Return whether a server is the primary or a secondary; one that is stopped is nothing."""
        with suppress(PyMongoError):
            hello = self.command("hello")
            return next((state for state in (PRIMARY, SECONDARY) if hello.get(state)), "starting")


class ReplicaSet:
    """Three servers, and what can befall them."""

    def __init__(self, folder, nodes):
        self.members = [Member(folder / f"member-{n}", node) for n, node in enumerate(nodes)]
        self.uri = f"mongodb://{','.join(m.host for m in self.members)}/?replicaSet=chaos"
        for member in self.members:
            member.start()
        wait_until(lambda: all(member.state() for member in self.members))
        hosts = [{"_id": n, "host": member.host} for n, member in enumerate(self.members)]
        config = {"_id": "chaos", "members": hosts, "settings": TIMES}
        self.members[0].command("replSetInitiate", config)
        self.wait()

    def primary(self, than=None):
        """Return the primary, perhaps another one than the former, when there is one."""
        others = [member for member in self.members if member is not than]
        wait_until(lambda: any(member.state() == PRIMARY for member in others))
        return next(member for member in others if member.state() == PRIMARY)

    def wait(self):
        """Wait until the set is whole: a primary, and all others following it."""
        whole = [PRIMARY, SECONDARY, SECONDARY]
        wait_until(lambda: sorted(str(member.state()) for member in self.members) == whole)

    def set_lifetime(self, seconds):
        for member in self.members:
            member.command("setParameter", 1, **{LIMIT: seconds})

    @contextmanager
    def stalled(self, command, seconds, **where):
        """Let the primary stall a command, perhaps in one namespace, until the block ends."""
        how, primary = {"blockConnection": True, "blockTimeMS": seconds * 1000}, self.primary()
        how |= {"failCommands": [command], **where}
        primary.command("configureFailPoint", "failCommand", mode="alwaysOn", data=how)
        yield
        while how:  # It answers when nothing is stalled any more.
            with suppress(PyMongoError):
                how = not primary.command("configureFailPoint", "failCommand", mode="off")

    @contextmanager
    def split(self, near, far):
        """Cut the primary and a machine off from the others, and from another machine."""
        primary = self.primary()
        here, there = (
            [primary.node, near],
            [far, *(m.node for m in self.members if m is not primary)],
        )
        pairs = [*product(here, there), *product(there, here)]
        for verb in ("add", "del"):
            for sender, receiver in pairs:
                rule = f"rule {verb} pref 10 from {sender.address} blackhole"
                _ip(f"-n {receiver.namespace} {rule}")
            if verb == "add":
                yield primary

    @contextmanager
    def deposed(self):
        """Yield the primary, and wait until there is another one."""
        former = self.primary()
        yield former
        self.primary(than=former)

    def kill_primary(self):
        with self.deposed() as former:
            former.kill()
        former.start()

    def step_down(self):
        with self.deposed() as former, suppress(PyMongoError):
            former.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=2)


class Service:
    """gunicorn with several workers, always at the same address."""

    def __init__(self, folder, node, uri, clock=None, **settings):
        folder.mkdir()
        self._folder, self.node, self._port = folder, node, free_port()
        self._output, self._clock = folder / "output.txt", clock.environment if clock else {}
        self._settings = {**SETTINGS, "MONGODB_URI": uri, "HOST": node.address, **settings}

    def start(self):
        env = {**environment(self._folder, **self._settings), **self._clock}
        command = [*INSIDE, self.node.namespace, PROGRAM, "serve", "--port", str(self._port)]
        with self._output.open("ab") as log:
            self._process = execute(command, env, log)

    def wait(self):
        def is_ready():
            with suppress(OSError, http.client.HTTPException), closing(self.connect(5)) as asked:
                asked.request("GET", "/readyz")
                return asked.getresponse().status == 200

        wait_until(is_ready, self._output)

    def connect(self, timeout):
        return http.client.HTTPConnection(self.node.address, self._port, timeout=timeout)

    def command(self, *words, stdin=""):
        done = run(self._folder, *words, stdin=stdin, **self._settings)
        assert done.returncode == 0, done.stderr

    def workers(self):
        return list(workers_of(self._process))

    def kill_worker(self):
        os.kill(random.choice(self.workers()), signal.SIGKILL)

    def stop_worker(self, seconds):
        """Let a worker stand still amid whatever it does, and go on if it may."""
        os.kill(worker := random.choice(self.workers()), signal.SIGSTOP)
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)

    def tracebacks(self):
        lines = self._output.read_text(errors="replace").splitlines()
        # The driver logs that a server is gone whose cursor it wanted to close.
        return [line for line in lines if "Traceback" in line and "_kill_cursors" not in line]

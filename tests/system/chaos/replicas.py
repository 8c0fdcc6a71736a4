"""A replica set of three real MongoDB servers, and what can befall its primary."""

import contextlib
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests import mongod
from tests.ports import free_port
from tests.system.chaos.network import LOOPBACK
from tests.system.programs import wait_until

NAME = "chaos"
# MongoDB waits ten seconds by default before it elects; nothing is learnt by waiting.
SETTINGS = {
    "electionTimeoutMillis": 1500,
    "heartbeatIntervalMillis": 300,
    "heartbeatTimeoutSecs": 2,
    "catchUpTimeoutMillis": 2000,
}


class Member:
    """One server of the set."""

    def __init__(self, folder, program, node):
        self.node, self.port = node, free_port()
        self.host = f"{node.address}:{self.port}"
        self._folder, self._program = Path(folder), program
        self._folder.mkdir(parents=True)
        self.process = None

    def start(self):
        with (self._folder / "mongod.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.node.inside(self._command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _command(self):
        return [
            *(self._program, "--dbpath", str(self._folder), "--replSet", NAME),
            *("--bind_ip", self.node.address, "--port", str(self.port), "--nounixsocket"),
            *("--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "128", "--quiet"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false"),
            *("--setParameter", "transactionLifetimeLimitSeconds=3"),
        ]

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def hello(self):
        return self.command("hello")

    def command(self, *command, **options):
        """Ask this server alone, however its set is."""
        with self.client() as client:
            return client.admin.command(*command, **options)

    def client(self):
        return MongoClient(
            self.host, directConnection=True, serverSelectionTimeoutMS=1000, timeoutMS=3000
        )

    def is_primary(self):
        return self._is("isWritablePrimary")

    def is_member(self):
        return self._is("isWritablePrimary") or self._is("secondary")

    def _is(self, state):
        try:
            return bool(self.hello().get(state))
        except PyMongoError:
            return False


class ReplicaSet:
    """The set as a whole."""

    def __init__(self, folder, program, nodes):
        self.members = [
            Member(Path(folder) / f"member-{n}", program, node) for n, node in enumerate(nodes)
        ]
        self.uri = f"mongodb://{','.join(m.host for m in self.members)}/?replicaSet={NAME}"

    def start(self):
        for member in self.members:
            member.start()
        wait_until(lambda: all(self._answers(member) for member in self.members))
        members = [{"_id": n, "host": member.host} for n, member in enumerate(self.members)]
        config = {"_id": NAME, "members": members, "settings": SETTINGS}
        self.members[0].command("replSetInitiate", config)
        self.elect(self.members[0])
        self.wait()

    def primary(self):
        """Return the one member that takes writes; a paused one does not answer, and is none."""
        return next((member for member in self.members if member.is_primary()), None)

    def wait(self):
        """Wait until the set is whole: a primary, and all others following it."""
        wait_until(lambda: self.primary() and all(m.is_member() for m in self.members))

    def others(self, than):
        return [member for member in self.members if member is not than]

    def elect(self, member):
        """Make a member the primary, without waiting until others find that there is none."""

        def is_elected():
            with contextlib.suppress(PyMongoError):
                member.command("replSetStepUp")
            return member.is_primary()

        wait_until(is_elected)

    def elect_after(self, milliseconds):
        """Change how long the members do without a primary before they elect another."""
        primary = self.primary()
        config = primary.command("replSetGetConfig")["config"]
        config["settings"]["electionTimeoutMillis"] = milliseconds
        config["version"] += 1
        primary.command("replSetReconfig", config)

    def wait_for_another(self, than):
        wait_until(lambda: any(member.is_primary() for member in self.others(than)))

    def kill_primary(self):
        """Kill the primary, and start it again when another one has been elected."""
        primary = self.primary()
        primary.kill()
        self.wait_for_another(primary)
        primary.start()

    def pause_primary(self):
        """Stop the primary amid whatever it does, and let it go on when it is deposed."""
        primary = self.primary()
        primary.signal(signal.SIGSTOP)
        try:
            self.wait_for_another(primary)
        finally:
            primary.signal(signal.SIGCONT)

    def step_down(self):
        """Make the primary step down, as operators do for an upgrade."""
        primary = self.primary()
        primary.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=2)
        self.wait_for_another(primary)

    def stop(self):
        for member in self.members:
            if member.process and member.process.poll() is None:
                member.signal(signal.SIGCONT)
                member.kill()

    @staticmethod
    def _answers(member):
        try:
            return bool(member.hello())
        except PyMongoError:
            return False


@contextmanager
def replica_set(folder, nodes=(LOOPBACK,) * 3):
    """Yield a set of three that is yet to be started, and stop it when the block ends."""
    folder.mkdir(exist_ok=True)
    replicas = ReplicaSet(folder, mongod.program(folder), nodes)
    try:
        yield replicas
    finally:
        replicas.stop()

"""What the service asks of MongoDB: a replica set, and short transactions at each member."""

import re
from contextlib import ExitStack, suppress

import pytest
from pymongo.errors import PyMongoError

import config
from app.core.permissions import Role
from app.storage import lifetime
from app.storage.client import Storage
from app.storage.lifetime import SETTING
from app.storage.schema.collections import SINGLE_SERVER
from app.storage.schema.preparation import Preparation
from tests import mongod
from tests.applications import service
from tests.console_visitor import PASSWORD, Visitor
from tests.ports import free_port
from tests.system.programs import wait_until
from tests.tiers import some

SET = (f"--replSet={mongod.REPLICA_SET}", *mongod.SMALL)


@pytest.mark.parametrize("options", some(["", "?directConnection=true"], 1))
def test_a_single_server_is_refused_until_the_two_commands_have_made_a_set_of_it(
    options, quartermaster, monkeypatch, make_app, tmp_path
):
    port = free_port()
    uri = f"mongodb://127.0.0.1:{port}/{options}"
    monkeypatch.setenv("QM_MONGODB_URI", uri)
    app = make_app(config.load({"QM_ENV": "testing"}, MONGODB_URI=uri))
    client = app.test_client()
    with mongod.running(tmp_path, port, *mongod.SMALL) as server:
        for command in (
            ("db", "init"),
            ("import", "players", "-"),
            ("backup", tmp_path / "none.zip"),
        ):
            refused = quartermaster(*command)
            assert (refused.exit_code, refused.stderr) == (1, f"Error: {SINGLE_SERVER}\n")
        service(app, Preparation).begin()
        wait_until(lambda: client.get("/readyz").json["Message"] == SINGLE_SERVER)
        assert client.get("/readyz").status_code == 503
        assert server.list_database_names() == ["admin", "config", "local"]
    with mongod.running(tmp_path, port, *SET) as server:
        server.admin.command("replSetInitiate")
        wait_until(lambda: client.get("/readyz").json == {"status": "ready"})


@pytest.fixture
def storage(mongodb_uri):
    storage = Storage(config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri))
    yield storage
    set_lifetime(storage.client, 3)
    storage.close()


def set_lifetime(client, seconds):
    client.admin.command({"setParameter": 1, SETTING: seconds})


def step_down(client):
    """Let the only member of a set be elected anew."""

    def is_primary():
        try:
            return client.admin.command("hello")["isWritablePrimary"]
        except PyMongoError:
            return False

    client.admin.command("replSetStepDown", 1, force=True)
    wait_until(is_primary)


def test_the_lifetime_is_read_again_after_an_election_and_told_once(storage, caplog):
    storage.lifetime.look()
    assert (storage.lifetime.seconds(), storage.lifetime.faults) == (3, [])
    set_lifetime(storage.client, 60)
    storage.lifetime.look()
    # Of a member that was asked before.
    assert (storage.lifetime.seconds(), storage.lifetime.faults) == (60, [])
    assert caplog.text == ""
    for _ in range(2):
        step_down(storage.client)
        storage.lifetime.look()
        member = storage.client.admin.command("hello")["me"]
        fault = f"transactionLifetimeLimitSeconds is 60 at {member}; set it to 3."
        assert storage.lifetime.faults == [fault]
    assert caplog.text.count(fault) == 1


def test_a_lifetime_that_was_mended_is_noticed_without_an_election(storage, monkeypatch):
    monkeypatch.setattr(lifetime, "LOOK_SECONDS", 0.0)
    for seconds, faults in ((60, 1), (3, 0)):
        set_lifetime(storage.client, seconds)
        storage.lifetime.look()
        assert len(storage.lifetime.faults) == faults


@pytest.fixture
def two(tmp_path):
    """Two servers, of which the first is a replica set of one; their clients and addresses."""
    ports = [free_port(), free_port()]
    hosts = [f"127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        clients = []
        for host, port in zip(hosts, ports, strict=True):
            (tmp_path / host).mkdir()
            clients.append(stack.enter_context(mongod.running(tmp_path / host, port, *SET)))
        mongod.initiate(clients[0], ports[0])
        yield clients, hosts


def add_second(primary, host):
    config = primary.admin.command("replSetGetConfig")["config"]
    config["members"].append({"_id": 1, "host": host})
    primary.admin.command("replSetReconfig", {**config, "version": config["version"] + 1})


def test_each_member_is_asked_that_can_be_reached(two, monkeypatch):
    (first, second), hosts = two
    uri = f"mongodb://{hosts[0]}/?replicaSet={mongod.REPLICA_SET}"
    storage = Storage(config.load({"QM_ENV": "testing"}, MONGODB_URI=uri))
    add_second(first, hosts[1])
    storage.client.admin.command("ping")
    wait_until(lambda: storage.client.secondaries)
    set_lifetime(second, 60)
    storage.lifetime.look()
    assert storage.lifetime.seconds() == 3
    assert told(storage) == {f"60 at {hosts[1]}"}
    set_lifetime(first, 10)
    wait_until(lambda: is_primary_now(second))
    wait_until(lambda: storage.lifetime.seconds() == 60 and storage.client.secondaries)
    storage.lifetime.look()
    assert told(storage) == {f"60 at {hosts[1]}", f"10 at {hosts[0]}"}
    wait_until(lambda: is_primary_now(first))
    wait_until(lambda: storage.lifetime.seconds() == 10)
    with suppress(PyMongoError):
        second.admin.command("shutdown", force=True, timeoutSecs=0)
    monkeypatch.setattr(lifetime, "MEMBER_MS", 200)
    # The driver may take the server that has ended for a secondary still.
    storage.lifetime.look()
    assert told(storage) == {f"10 at {hosts[0]}"}
    storage.close()


def is_primary_now(member):
    """Let a member become the primary, as soon as it may."""
    with suppress(PyMongoError):
        member.admin.command("replSetStepUp")
    return member.admin.command("hello")["isWritablePrimary"]


def told(storage):
    """Return the lifetimes that are told, and of whom."""
    return {re.split("is |;", fault)[1] for fault in storage.lifetime.faults}


@mongod.on_mongodb
def test_health_and_readiness_tell_of_a_longer_lifetime(app, world, storage):
    looked, client = service(app, Storage).lifetime, app.test_client()
    set_lifetime(storage.client, 60)
    looked.look()
    (fault,) = looked.faults
    visitor = Visitor(app)
    visitor.sign_in(world.add_user(PASSWORD, Role)["Name"])
    assert fault in visitor.read("/health")
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json) == (200, {"status": "ready", "details": [fault]})


def test_a_connection_from_before_an_election_is_replaced(two):
    """The driver opened it while the server was recovering, and believes it has no sessions."""
    (first, second), hosts = two
    add_second(first, hosts[1])
    wait_until(lambda: second.admin.command("hello")["secondary"])
    second.admin.command("replSetMaintenance", True)
    uri = f"mongodb://{hosts[1]}/?directConnection=true"
    storage = Storage(config.load({"QM_ENV": "testing"}, MONGODB_URI=uri))
    first[storage.db.name].history.insert_many([{"_id": str(number)} for number in range(9)])
    storage.client.admin.command("ping")
    second.admin.command("replSetMaintenance", False)
    wait_until(lambda: second.admin.command("hello")["secondary"])
    with suppress(PyMongoError):
        first.admin.command("replSetStepDown", 60)
    wait_until(lambda: is_primary_now(second))
    assert storage.transactions.holds(storage.db.history, {"_id": "8"})
    storage.close()

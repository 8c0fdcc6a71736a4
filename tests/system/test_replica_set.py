"""What the service asks of MongoDB: a replica set."""

import pytest

import config
from app.storage.schema.collections import SINGLE_SERVER
from app.storage.schema.preparation import Preparation
from tests import mongod
from tests.applications import service
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
    record = tmp_path / "players.jsonl"
    record.write_text("")
    with mongod.running(tmp_path, port, *mongod.SMALL) as server:
        for command in (("db", "init"), ("import", "players", str(record)), ("api", "roles", "A")):
            refused = quartermaster(*command)
            assert (refused.exit_code, refused.stderr) == (1, f"Error: {SINGLE_SERVER}\n")
        service(app, Preparation).begin()
        wait_until(lambda: client.get("/readyz").json["Message"] == SINGLE_SERVER)
        assert client.get("/readyz").status_code == 503
        assert server.list_database_names() == ["admin", "config", "local"]
    with mongod.running(tmp_path, port, *SET) as server:
        server.admin.command("replSetInitiate")
        wait_until(lambda: client.get("/readyz").json == {"status": "ready"})

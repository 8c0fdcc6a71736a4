"""The Total of lists, through a crash of MongoDB: a real mongod, killed and started again."""

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

import config
from app import create_app
from app.auth.roles import Role
from app.database import COLLECTIONS
from app.storage.client import Storage
from app.storage.schema.collections import init_database
from tests import mongod
from tests.applications import service
from tests.factories import World, make_player
from tests.ports import free_port
from tests.system.programs import wait_until


@pytest.fixture
def app(tmp_path):
    """An application, whose database is yet to come, at an address that stays."""
    port = free_port()
    uri = f"mongodb://127.0.0.1:{port}/crashing"
    app = create_app(
        config.load(
            {"QM_ENV": "testing"},
            MONGODB_URI=uri,
            TOTAL_CACHE_SECONDS=0.2,
            # A busy machine takes its time; nothing here is about how long.
            MONGODB_SELECTION_SECONDS=60,
            MONGODB_OPERATION_SECONDS=60,
        )
    )
    app.port = port
    return app


@pytest.mark.everything
def test_the_total_is_right_after_a_crash_although_the_address_is_the_same(app, tmp_path):
    client, world = app.test_client(), World(app)

    def totals(headers):
        answers = (client.get(f"/api/v1/{kind}", headers=headers) for kind in ("players", "users"))
        return [answer.json["Total"] for answer in answers]

    options = (f"--replSet={mongod.REPLICA_SET}", *mongod.SMALL)
    with mongod.running(tmp_path, app.port, *options) as server:
        mongod.initiate(server, app.port)
        init_database(world.db, COLLECTIONS)
        headers = world.headers(*Role)
        world.db.players.insert_many([make_player() for _ in range(20)])
        world.db.client.admin.command("fsync")
        wait_until(lambda: totals(headers) == [20, 1])
        # These are in the journal, and MongoDB's own counter forgets them in the crash.
        world.db.players.insert_many([make_player() for _ in range(7)])
        wait_until(lambda: totals(headers) == [27, 1])
    with pytest.raises(PyMongoError), MongoClient(port=app.port, timeoutMS=100) as gone:
        gone.admin.command("ping")
    with mongod.running(tmp_path, app.port, *options):
        world.db.command("ping")
        assert world.db.players.estimated_document_count() < 27
        assert totals(headers) == [27, 1]
        world.db.players.delete_one({})
        wait_until(lambda: totals(headers) == [26, 1])
        # While the server is there: without one, the client would look for it for a minute.
        service(app, Storage).close()

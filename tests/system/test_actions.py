"""Requests that wait for the game, through real gunicorn: they hold up nobody else."""

import threading
import time

import pytest

from app.auth.api_keys import new_secret
from app.core.permissions import Role
from tests.factories import guid, make_key, make_player, make_user, with_keys
from tests.game import look
from tests.system.programs import wait_until

AMELIA = "/api/v1/players/Amelia"
KICK = ("POST", f"{AMELIA}/admin/kick")


@pytest.fixture(scope="module")
def server(serve):
    """One worker with a single slot at the database: whoever held it would keep all others out."""
    with serve(WORKERS="1", THREADS="1") as server:
        server.token = new_secret()
        caller = with_keys(make_user(roles=Role), **{guid(): make_key(server.token)})
        server.db.users.insert_one(caller)
        server.db.players.insert_one(make_player(Name="Amelia"))
        yield server


def test_who_waits_for_the_game_holds_no_slot_at_the_database(server):
    """Held for two seconds, the slot would let nobody in before the kick is answered."""
    # A game has looked, and does nothing.
    look(server.db)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(server.ask(*KICK)[0]))
    asking.start()
    wait_until(lambda: server.db.actions.find_one())
    found, began = [], time.monotonic()
    while asking.is_alive():
        asking.join(0.1)
        status = server.status(AMELIA)
        found += [status] if asking.is_alive() else []
    assert set(found) == {200}
    assert len(found) >= 3
    assert answers == [202]
    # Two seconds, and what a busy machine adds.
    assert time.monotonic() - began < 4

"""What clients ask before anything else."""

import pytest

import config
from tests.factories import NOW

INFO = "/api/v1/info"


@pytest.fixture
def settings(backend_uri, data_dir):
    return config.load(
        {"QM_ENV": "testing"},
        MONGODB_URI=backend_uri,
        DATA_DIR=str(data_dir),
        GAME_NAME="Ashfall",
        GAME_PORT=5401,
        MAX_LEVEL=60,
        ONLINE_TTL_SECONDS=0,
    )


@pytest.fixture
def get(client, as_role):
    headers = as_role()
    return lambda path: client.get(INFO + path, headers=headers)


def test_the_name_and_the_port_are_settings(get):
    assert get("").json == {"name": "Ashfall", "port": 5401}
    assert get("/authorized").json == {"authorized": True}


def test_the_state_tells_who_is_online_and_since_when_it_runs(get, world):
    for online in (True, True, False):
        world.add_player(Online=online, LastSeen=NOW)
    stats = get("/stats").json
    assert {**stats, "uptime": 0} == {
        **{"uptime": 0, "cps": 0, "connectedClients": 2, "onlineCount": 2},
    }
    assert type(stats["uptime"]) is int
    assert get("/stats").json["uptime"] >= stats["uptime"] > 0


def test_the_config_holds_what_clients_crash_without(get):
    answer = get("/config").json
    assert (answer["GameName"], answer["ServerPort"], answer["AdminOnly"]) == (
        *("Ashfall", 5401, False),
    )
    assert answer["Player"] == {
        **{"MaxCharacters": 3, "MaxStat": 255, "MaxLevel": 60},
        **{"MaxInventory": 35, "MaxBank": 100, "MaxSpells": 35},
    }

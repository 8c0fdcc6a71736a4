"""What clients ask before anything else."""

import pytest

import config
from tests.factories import NOW


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


def test_clients_are_told_what_they_ask_before_anything_else(staff, world):
    for online in (True, True, False):
        world.add_player(Online=online, LastSeen=NOW)
    assert staff("GET info").json == {"name": "Ashfall", "port": 5401}
    assert staff("GET info/authorized").json == {"authorized": True}
    stats = staff("GET info/stats").json
    assert stats == {
        **{"uptime": stats["uptime"], "cps": 0, "connectedClients": 2, "onlineCount": 2},
    }
    assert type(stats["uptime"]) is int
    assert staff("GET info/stats").json["uptime"] >= stats["uptime"] > 0
    answer = staff("GET info/config").json
    assert (answer["GameName"], answer["ServerPort"], answer["AdminOnly"]) == (
        *("Ashfall", 5401, False),
    )
    assert answer["Player"] == {
        **{"MaxCharacters": 3, "MaxStat": 255, "MaxLevel": 60},
        **{"MaxInventory": 35, "MaxBank": 100, "MaxSpells": 35},
    }

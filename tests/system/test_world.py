"""The example world of docs/examples, run as its reader would, beside a real service."""

import os
import re
import signal
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

import pytest
from bson import json_util
from pymongo import MongoClient

pytest.importorskip("psutil", reason="the bench extra is not installed")

from app.core.naming import name_key, name_tails
from app.core.penalties import BAN, MUTE
from app.maintenance.demo.catalogue import ITEM_IDS, MAP_IDS
from tests.factories import guid, make_player
from tests.game import make_action
from tests.system import fork_server
from tests.system.programs import GAME, playing, run, wait_until
from tests.system.tcp_proxy import TcpProxy
from tests.tiers import some

# Of so many characters, nine tenths are online at a time.
CHARACTERS = 20
ONLINE = CHARACTERS * 9 // 10


class LedgerWorld:
    """Plays with some players, and notes each write before and after it."""

    def __init__(self, uri, database, folder, form):
        folder.mkdir()
        self.path, self.output = folder / "ledger.jsonl", folder / "output.txt"
        self._players = MongoClient(uri, tz_aware=True)[database].players
        self._former = list(self._players.find())
        (folder / "players.txt").write_text("\n".join(player["_id"] for player in self._former))
        options = ["--characters", str(folder / "players.txt"), "--ledger", str(self.path)]
        options += ["--careless", form, "--pace", "500", "--quiet"]
        self.playing = playing(uri, database, self.output, *options)

    def count(self, state):
        return self.path.read_text().count(f'"State": "{state}"') if self.path.exists() else 0

    def wait_for_more(self, writes):
        enough = self.count("made") + writes
        wait_until(lambda: self.count("made") > enough, self.output)

    def is_away(self):
        """Tell whether the world says that it waits for the database."""
        said = self.output.read_text()
        return said.count("Waiting for the database") > said.count("The database answers again")

    def assert_kept(self):
        """See that players hold what was written, and nothing else.

        Where it was never told what became of a write, the player tells by its last GameWrite.
        """
        stored, writes = {player["_id"]: player for player in self._players.find()}, {}
        for text in self.path.read_text().splitlines():
            line = json_util.loads(text)
            writes.setdefault(line["Write"], {})[line["State"]] = line["Effects"]
        held, versions = holdings(self._former)
        for write, states in writes.items():
            is_last = any(stored[id_].get("GameWrite") == write for id_ in states["begun"])
            if "made" in states or (is_last and "not made" not in states):
                for id_, effect in (states.get("made") or states["begun"]).items():
                    versions[id_] += effect["Version"]
                    for item, quantity in effect["Items"].items():
                        held[id_, item] += quantity
        assert holdings(stored.values()) == (held, versions)
        self._players.database.client.close()


def holdings(players):
    """Return how much of each item players have, and their versions."""
    held = Counter()
    for player in players:
        for slot in (*player["Inventory"].values(), *player["Bank"].values()):
            held[player["_id"], slot["ItemId"]] += slot["Quantity"]
    return held, Counter({player["_id"]: player["Version"] for player in players})


@pytest.mark.parametrize("form", some(["no", "documents"], 1))
def test_a_world_that_is_cut_off_and_killed_amid_its_trades_loses_and_makes_nothing(
    mongodb_uri, tmp_path, form
):
    with MongoClient(mongodb_uri) as client, closing(TcpProxy(urlsplit(mongodb_uri).port)) as proxy:
        client.killed_world.players.insert_many([make_player() for _ in range(4)])
        far = urlsplit(mongodb_uri)._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
        far += f"{'&' if '?' in far else '?'}timeoutMS=1000"
        for attempt in range(2):
            world = LedgerWorld(far, "killed_world", tmp_path / str(attempt), form)
            with world.playing as process:
                # It may be reading rather than writing when it is cut off.
                while world.count("in doubt") < 2:
                    world.wait_for_more(20)
                    wait_until(lambda: not world.is_away())  # noqa: B023 (called at once)
                    # What is under way is made, and nobody hears of it.
                    proxy.delay = 30
                    wait_until(world.is_away, world.output)
                    proxy.delay = 0
                world.wait_for_more(20)
                process.kill()
                process.wait()
            wait_until(lambda: not is_used(client))
            world.assert_kept()
        client.drop_database("killed_world")
    # Of these it was told later that they were made.
    said = world.path.read_text()
    states = re.findall(r'"State": "([a-z ]+)", "At": [0-9.]+, "Effects": null', said)
    assert "made" in states


def is_used(client):
    """Tell whether a server still does something, or has a transaction of somebody who is dead."""
    idle = {"$currentOp": {"allUsers": True, "idleSessions": True}}
    its_own = [{"transaction": {"$exists": True}}, {"ns": {"$regex": "^killed_world"}}]
    found = list(client.admin.aggregate([idle, {"$match": {"$or": its_own}}]))
    for session in [one["lsid"] for one in found if one.get("type") == "idleSession"]:
        client.admin.command("killSessions", [{"id": session["id"]}])
    return bool(found)


@pytest.fixture(scope="module")
def server(serve):
    """The service with a demo world."""
    with serve("--demo", WORKERS="1") as server:
        server.sign_in()
        yield server


def play(*options, **settings):
    """Let a world play to its end, with no other settings than these."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("QM_")}
    return fork_server.run([GAME, *options], {**env, **settings}, timeout=600)


@pytest.fixture(scope="module")
def world(server, tmp_path_factory):
    """A world with some characters of the demo world."""
    output = tmp_path_factory.mktemp("output") / "output.txt"
    uri, database = (server.settings[f"MONGODB_{name}"] for name in ("URI", "DATABASE"))
    options = ("--players", str(CHARACTERS), "--pace", "100")
    with playing(uri, database, output, *options) as world:
        wait_until(lambda: online(server) >= ONLINE, output)
        yield world


def online(server):
    return server.json("GET", "/api/v1/info/stats")["onlineCount"]


def somebody(server):
    """Wait for a player who plays, and return it."""
    found, playing = [], {"Online": True, "GameWrite": {"$exists": True}}
    wait_until(lambda: found.append(server.db.players.find_one(playing)) or found[-1])
    return found[-1]


def test_players_are_online_and_rise(server, world):
    assert server.json("GET", "/api/v1/players/online?pageSize=50")["Values"][0]["Online"] is True
    wait_until(lambda: "reaches level" in world.said())
    assert server.db.games.find_one({"_id": "world-1"})["LookedAt"]


@pytest.mark.parametrize("is_after_an_election", [False, True])
def test_a_gift_is_told_as_it_arrives(server, world, is_after_an_election):
    if is_after_an_election:
        admin = server.db.client.admin
        admin.command("replSetStepDown", 1, force=True)
        wait_until(lambda: admin.command("hello")["isWritablePrimary"])
        wait_until(server.is_ready)
    player, quantity = somebody(server), 77 + is_after_an_election
    body = {"itemid": ITEM_IDS["Bread"], "quantity": quantity}
    server.json("POST", f"/api/v1/players/{player['_id']}/items/give", body)
    wait_until(lambda: f"{player['Name']} got {quantity} Bread as a gift.\n" in world.said())


def penalise(server, account, penalty, hours):
    until = hours and datetime.now(timezone.utc) + timedelta(hours=hours)
    change = {"$set": {penalty.flag: True, penalty.until: until}, "$inc": {"Version": 1}}
    server.db.users.update_one({"_id": account}, change)


@pytest.mark.parametrize("hours", some([1, None], 1))
def test_whoever_is_banned_leaves(server, world, hours):
    account = somebody(server)["UserId"]
    mine = {"UserId": account, "GameWrite": {"$exists": True}}
    names = [player["Name"] for player in server.db.players.find({**mine, "Online": True})]
    penalise(server, account, BAN, hours)
    wait_until(lambda: f"{names[0]} was banned, and may not play.\n" in world.said())
    wait_until(lambda: not server.db.players.find_one({**mine, "Online": True}))
    penalise(server, account, BAN, -1)
    wait_until(lambda: online(server) >= ONLINE)


def test_whoever_is_muted_does_not_speak(server, world):
    for account in server.db.users.distinct("_id"):
        penalise(server, account, MUTE, 1)
    wait_until(lambda: " is muted.\n" in world.said())
    rest = world.said().partition(" is muted.\n")[2]
    assert not any(f": {said}\n" in rest for said in ("Brb.", "Well met.", "Selling herbs!"))


def ask(server, kind, subject, arguments=None, lasts=30):
    """Store an action as the service does; return a function that reads it."""
    now = datetime.now(timezone.utc)
    asked = {"Kind": kind, "Subject": subject, "Arguments": arguments or {}}
    action = make_action(**asked, At=now, TakeBefore=now + timedelta(seconds=lasts))
    server.db.actions.insert_one(action)
    return lambda: server.db.actions.find_one({"_id": action["_id"]})


def answered(*asked):
    """Ask for an action, and wait for the answer of the world."""
    read = ask(*asked)
    wait_until(lambda: read()["Done"] or read()["Error"])
    return read()


def subject_of(player, kind="player"):
    id_ = player["_id"] if kind == "player" else player["UserId"]
    return {"Kind": kind, "Id": id_, "Name": player["Name"]}


def test_a_kick_sends_away_whoever_plays_with_an_account(server, world):
    player = somebody(server)
    action = answered(server, "kick", subject_of(player, "user"))
    assert (action["TakenBy"], action["Error"], action["Result"]) == ("world-1", None, None)
    assert action["Taken"] <= action["Done"]
    mine = {"UserId": player["UserId"], "Online": True, "GameWrite": {"$exists": True}}
    assert not server.db.players.find_one(mine)
    again = answered(server, "kick", subject_of(player))
    assert (again["Error"], again["Done"]) == (f"{player['Name']} is not playing.", None)


def test_a_warp_tells_where_the_player_is(server, world):
    player, place = somebody(server), MAP_IDS["Ravenrock"]
    action = answered(server, "warp", subject_of(player), {"MapId": place, "X": 3, "Y": None})
    assert action["Result"] == {"MapId": place, "X": 3, "Y": 13}
    assert f"{player['Name']} was warped to Ravenrock.\n" in world.said()
    nowhere = {"MapId": guid(), "X": None, "Y": None}
    refused = answered(server, "warp", subject_of(somebody(server)), nowhere)
    assert refused["Error"] == f"The game has no map {nowhere['MapId']}."


def test_kills_and_chats_are_done_and_told_and_what_has_lapsed_is_left(server, world):
    player = somebody(server)
    lapsed = ask(server, "kick", subject_of(player), lasts=-1)
    assert answered(server, "kill", subject_of(player))["Done"]
    assert f"{player['Name']} was killed.\n" in world.said()
    for subject, whom in (
        ({"Kind": "world", "Id": None, "Name": None}, "everybody"),
        ({"Kind": "map", "Id": MAP_IDS["Ravenrock"], "Name": "Ravenrock"}, "Ravenrock"),
        (subject_of(player), player["Name"]),
    ):
        message = {"Message": f"Bell\a {subject['Kind']}", "Color": None, "Target": None}
        assert answered(server, "chat", subject, message)["Done"]
        assert f"[to {whom}] Bell\\x07 {subject['Kind']}" in world.said()
    assert lapsed()["Taken"] is None


@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGTERM], 1))
def test_it_ends_cleanly_and_everybody_is_offline(mongodb_uri, tmp_path, number):
    """In an empty database, with characters of its own."""
    uri, output = mongodb_uri.replace("/?", "/empty_world?"), tmp_path / "output.txt"
    with MongoClient(uri) as client, playing(uri, "empty_world", output, "--players", "5") as world:
        players = client.empty_world.players
        wait_until(lambda: players.count_documents({"Online": True}) == 5, output)
        world.send_signal(number)
        assert world.wait(120) == 0
        assert players.count_documents({"Online": False, "LastOnline": {"$type": "date"}}) == 5
        assert client.empty_world.games.count_documents({}) == 0
        assert world.said().endswith(" Everybody is logged out.\n")
        client.drop_database("empty_world")


def test_new_accounts_and_characters_are_as_the_service_makes_them(mongodb_uri, tmp_path):
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "new_world"}
    assert run(tmp_path, "db", "init", **settings).returncode == 0
    options = ("--database", "new_world", "--players", "20", "--seconds", "1", "--pace", "100")
    done = play(*options, QM_MONGODB_URI=mongodb_uri)
    assert (done.returncode, done.stderr) == (0, "")
    checked = run(tmp_path, "db", "check", **settings)
    assert checked.returncode == 0, checked.stdout
    with MongoClient(mongodb_uri) as client:
        characters = list(client.new_world.players.find())
        client.drop_database("new_world")
    assert len(characters) == 20
    for character in characters:
        assert character["NameKey"] == name_key(character["Name"])
        assert character["NameTails"] == name_tails(character["NameKey"])


def test_a_database_that_does_not_answer_is_told_in_a_sentence():
    done = play("--uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("The world has ended: 127.0.0.1:1: ")
    assert done.stderr.count("\n") == 1


def test_without_a_database_it_says_what_it_needs():
    done = play()
    assert (done.returncode, "quartermaster db uri prints it." in done.stderr) == (2, True)

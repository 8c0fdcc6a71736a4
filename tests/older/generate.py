"""Writes the database of a former release for the tests of the upgrade; README.rst says how.

Run in a worktree of that release, it plays a small world through its API, in one process without
threads, so that entries stay in Journals where it does not move them. It writes the database, and
what that release answers: of the database as it is, and after its mover and its log have finished.
"""

import json
import os
import sys
import time
import uuid
from copy import deepcopy
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

from bson import ObjectId, json_util

import config
from app import create_app
from app.auth.roles import Role
from app.database import COLLECTIONS, SUBJECTS
from app.storage.client import Storage
from app.storage.schema.collections import init_database
from tests.applications import service
from tests.factories import World, make_bag, sha256

OPTIONS = json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.RELAXED)
ARROW, BOW, SHIELD, SPELL, VARIABLE, GLOBAL, MAP, BAG, GUILD = (
    str(uuid.UUID(int=number, version=4)) for number in range(1, 10)
)
PASSWORD = sha256("secret")
# Nothing of a fixture expires, and no worker is at it.
NEVER = datetime(2099, 1, 1, tzinfo=timezone.utc)
LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)
EVER_DAYS = 36_500
KEPT_FIELDS = ("ExpiresAt", "EndsAt", "TakeBefore", "NamesUntil")
# Of a list, so many at once: cursors come from several places of it.
PAGE = 40


class Play:
    """The API of a release, as somebody with all roles uses it."""

    def __init__(self, uri, database, clerk=None):
        settings = config.load({"QM_ENV": "testing"}, MONGODB_URI=uri, MONGODB_DATABASE=database)
        settings.HISTORY_DAYS = EVER_DAYS
        settings.REFRESH_TOKEN_SECONDS = EVER_DAYS * 86_400
        self.app = create_app(settings)
        self.storage = service(self.app, Storage)
        self.db, self.world = self.storage.db, World(self.app)
        services = self.app.extensions["quartermaster"].values()
        self.services = {type(one).__name__: one for one in services}
        self.services["Actions"].wait_seconds = 0.1
        self.is_first = "Transfers" not in self.services
        init_database(self.db, COLLECTIONS)
        self.client, self.keyed = self.app.test_client(), []
        clerk = clerk or self.world.add_user("secret", tuple(Role), Name="Clerk")
        self.headers = self.world.headers(user=clerk)

    def call(self, method, path, body=None, key=None, may_fail=False, headers=None):
        sent = {**(headers or self.headers), **({"Idempotency-Key": key} if key else {})}
        answer = self.client.open(f"/api/v1/{path}", method=method, json=body, headers=sent)
        if answer.status_code >= 300 and not may_fail:
            raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text}")
        if key:
            self.keyed.append(
                {
                    **{"Method": method, "Path": path, "Body": body, "Key": key},
                    **{"Status": answer.status_code, "Answer": answer.json},
                }
            )
        return answer.json

    def post(self, path, body=None, key=None, **options):
        return self.call("POST", path, body or {}, key, **options)

    def get(self, path, may_fail=False):
        return self.call("GET", path, may_fail=may_fail)

    def give(self, player, quantity=1, key=None, item=ARROW):
        return self.post(
            f"players/{player}/items/give", {"itemid": item, "quantity": quantity}, key
        )

    def move(self, *kinds):
        """Move the entries of all documents, as the mover of a worker does, and log them."""
        later = datetime.now(timezone.utc) + timedelta(days=400)
        for kind in SUBJECTS.values():
            if not kinds or kind.name in kinds:
                self.storage.journals.move_all(kind, later)
        if "Feed" in self.services:
            self.services["Feed"].catch_up()

    def follow(self):
        """Let the log follow the stream of new entries for a moment, where a release does."""
        if feed := self.services.get("Feed"):
            feed.begin()
            for number in (1, 2):
                self.give("Hero01", number)
                self.storage.journals.move_noted()
                time.sleep(2)
            feed.end()
            time.sleep(1)

    def last_entry(self, player):
        self.move()
        return self.get(f"players/{player}/history?pageSize=1")["Values"][0]

    def undo(self, entry, key=None):
        return self.post(f"history/{entry['Id']}/undo", {}, key)


def play_people(play):
    for number, name in enumerate(("Alice", "Bob", "Carol", "Dave", "Zoë", "Mallory")):
        body = {"username": name, "email": f"user{number}@bücher.example", "password": PASSWORD}
        play.post("users/register", body)
    new = {"new": "alice@example.com", "authorization": PASSWORD}
    play.post("users/Alice/email/change", new, "mail of Alice")
    play.post("users/Bob/admin/ban", {"duration": 7, "reason": "Cheated.", "moderator": "Clerk"})
    play.post("users/Carol/notes", {"Text": "Asked twice."})
    play.post("users/Carol/admin/mute", {"duration": 7, "reason": "Shouted."})
    play.post("users/Carol/admin/unmute")


def play_staff(play):
    """Roles, colleagues and their approvals, which the first release did not have."""
    play.post("roles", {"Name": "event-team", "Permissions": ["players.read", "items.move"]})
    limits = {"LargestQuantity": 10, "ItemsPerDay": 100, "RowsPerBatch": 5}
    more = {"Permissions": ["players.read", "items.move", "batches.plan"], "Limits": limits}
    play.call("PUT", "roles/event-team", more)
    play.call("PUT", "staff/Dave/roles", {"Roles": ["event-team"]})
    invited = {"Name": "Erin", "Email": "erin@example.com", "Roles": ["viewer"]}
    play.post("staff", invited)
    play.post("staff/Dave/disable")
    play.post("staff/Dave/enable")


def play_approvals(play):
    boss = play.world.add_user("secret", Name="Boss", Roles=["senior-support"])
    boss = play.world.headers(user=boss)
    requests = []
    for number, player in enumerate(("Hero01", "Hero02", "Hero03", "Hero04")):
        arguments = {"itemid": BOW, "quantity": 2 + number, "bankoverflow": False}
        body = {"Operation": "give", "Subject": player, "Arguments": arguments, "Reason": "Lost."}
        requests.append(play.post("approvals", body, f"ask {number}"))
    play.post(f"approvals/{requests[0]['Id']}/approve", headers=boss)
    play.post(f"approvals/{requests[1]['Id']}/decline", {"Why": "Too much."}, headers=boss)
    play.post(f"approvals/{requests[2]['Id']}/withdraw")


def play_catalogue(play):
    for id_, kind, name in (
        *((ARROW, "item", "Arrow"), (BOW, "item", "Bow"), (SHIELD, "item", "Shield")),
        *((SPELL, "spell", "Fireball"), (VARIABLE, "playervariable", "Quest")),
        *((GLOBAL, "servervariable", "Weather"), (MAP, "map", "Mines")),
    ):
        own = {"Value": 0} if id_ == GLOBAL else {}
        play.world.add_object(Id=id_, Type=kind, Name=name, **own)
    for value in (1, 2):
        play.post(f"variables/global/{GLOBAL}", {"value": value}, f"weather {value}")


def play_players(play):
    owners = {user["Name"]: user["_id"] for user in play.db.users.find()}
    names = ["Alice", "Bob", "Carol", "Dave", "Zoë"]
    play.db.bags.insert_one(make_bag({"0": {"ItemId": SHIELD, "Quantity": 1}}, _id=BAG))
    for number in range(1, 19):
        held = {"0": {"ItemId": BOW, "Quantity": 1}}
        if number == 6:
            held["1"] = {"ItemId": SHIELD, "Quantity": 1, "BagId": BAG}
        owner = owners["Mallory"] if number > 15 else owners[names[number % 5]]
        name = f"Hero{number:02}"
        play.world.add_player(Name=name, UserId=owner, Inventory=held, Level=number)
        play.give(name, 5, f"welcome {number}")
    play.post("players/Hero01/items/take", {"itemid": ARROW, "quantity": 2}, "take 1")
    play.post("players/Hero02/spells/teach", {"spellid": SPELL}, "teach 2")
    play.post("players/Hero02/spells/forget", {"spellid": SPELL})
    play.post(f"players/Hero03/variables/{VARIABLE}", {"value": 7}, "quest 3")
    play.post("players/Hero04/name", {"Name": "Renamed04"}, "name 4")
    play.post("players/Renamed04/name", {"Name": "Hero04"})
    play.post("players/Hero05/admin/ban", {"duration": 7, "reason": "Cheated."}, "ban 5")
    play.post("players/Hero05/notes", {"Text": "Has a brother."})
    play.call("PUT", f"players/{id_of(play, 'Hero07')}", {"Level": 33, "Exp": 12})


def id_of(play, name):
    return play.db.players.find_one({"Name": name})["_id"]


def play_undo(play):
    play.give("Hero08", 3, "given 8")
    play.undo(play.last_entry("Hero08"), "undo 8")
    play.give("Hero08", 4)
    play.undo(play.last_entry("Hero08"))
    if not play.is_first:
        sent = {"to": "Hero10", "itemid": ARROW, "quantity": 2}
        play.post("players/Hero09/items/transfer", sent, "transfer 9")
        play.post("players/Hero10/items/transfer", {**sent, "to": "Hero09", "quantity": 1})
        play.undo(play.last_entry("Hero10"), "undo of transfer")


def play_deletions(play):
    """Three are deleted, of whom one is restored; one is deleted, restored and deleted again."""
    for name in ("Hero11", "Hero12", "Hero13"):
        play.call("DELETE", f"players/{name}", key=f"delete {name}")
    play.move()
    deleted = {
        e["Subject"]["Name"]: e for e in play.get("history?operation=delete-player")["Values"]
    }
    play.undo(deleted["Hero12"], "restore 12")
    play.undo(deleted["Hero13"])
    play.call("DELETE", "players/Hero13")


def play_erasure(play):
    body = {"Confirm": "Mallory"}
    play.post("users/Mallory/erase", body, may_fail=True)
    play.move()
    record = play.db.erasures.find_one()
    # The time that it waits for callers that are cached.
    play.db.erasures.update_one({}, {"$set": {"SettledAt": record["BegunAt"]}})
    play.services["Erasures"].finish(record["_id"])


def play_game(play):
    play.post("game/actions", {"Game": "world-1"})
    play.post("players/Hero01/admin/kick", may_fail=True)
    play.post("chat/global", {"Message": "Hello."}, "chat", may_fail=True)
    if play.is_first:
        return
    gift = [{"ItemId": BOW, "Quantity": 2}]
    for name in ("Hero14", "Hero15"):
        letter = {"Message": "Here it is.", "Items": gift}
        play.post(f"players/{name}/letters", letter, f"letter {name}")
    # The game has delivered one, and nobody has given its items yet.
    delivered = {"Subject.Name": "Hero15", "Kind": "letter"}
    now = datetime.now(timezone.utc)
    done = {"Taken": now, "TakenBy": "world-1", "Done": now, "Error": None, "Result": None}
    play.db.actions.update_one(delivered, {"$set": done})
    lost = [{"ItemId": ARROW, "Quantity": -1}]
    at = (now - timedelta(minutes=5)).isoformat().replace("+00:00", "Z")
    for number, name in enumerate(("Hero01", "Hero02")):
        event = {"Id": f"world-1:{number}", "Player": id_of(play, name), "At": at, "Kind": "drop"}
        play.post("game/events", {"Events": [{**event, "Items": lost}]})
    play.post("players/Hero01/items/give-back", {"event": "world-1:0"}, "back 1")
    founded = {"FoundingDate": now, "Variables": {}, "Members": []}
    guild = {"_id": GUILD, "Name": "The Lanterns", "NameKey": "the lanterns", **founded}
    play.db.guilds.insert_one(guild)
    play.post(f"guilds/{GUILD}/variables/{VARIABLE}", {"value": 5}, may_fail=True)


def rows(operation, count, names, **arguments):
    of_each = [{"Player": name, "Operation": operation, **arguments} for name in names]
    return (of_each * count)[: count * len(names)]


def play_batches(play):
    """One is planned, one done, one undone, and one is running, or paused in the middle."""
    few = [f"Hero{number:02}" for number in (1, 2, 3, 4)]
    give = {"ItemId": ARROW, "Quantity": 1}

    def plan(name, some, key=None):
        return play.post("batches", {"Name": name, "Reason": "A ticket.", "Rows": some}, key)["Id"]

    def advance(batch, runner=play.services["Runner"], seconds=5.0):
        runner._seconds = seconds
        return play.post(f"batches/{batch}/advance")

    plan("Planned", rows("give", 1, few, **give), "plan")
    taken = rows("take", 1, ["Hero05"], ItemId=BOW, Quantity=99)
    done = plan("Done", rows("give", 2, few, **give) + taken)
    assert advance(done)["State"] == "done"
    play.move()
    undone = play.post(f"batches/{done}/undo")["Id"]
    assert advance(undone)["State"] == "done"
    half = plan("Half", rows("give", 12, few, **give))
    state = advance(half, seconds=0.02)
    assert state["State"] == "running"
    assert 0 < state["Done"] < 48
    if not play.is_first:
        play.post(f"batches/{half}/pause")
        # A worker was killed in the middle of another one.
        killed = plan("Killed", rows("give", 12, few, **give))
        assert advance(killed, seconds=0.02)["State"] == "running"
    play.move()


def play_keys(play):
    names = ["players.read", "players.change", "history.read"]
    body = {"Name": "shop", "Scopes": names, "ExpiresAt": "2099-01-01T00:00:00Z"}
    made = play.post("keys", body)
    secret = next(v for k, v in made.items() if k in ("Key", "Secret") and isinstance(v, str))
    own = {"Authorization": f"Bearer {secret}"}
    gift = {"itemid": ARROW, "quantity": 1}
    play.post("players/Hero03/items/give", gift, "by key", headers=own)
    other = play.post("keys", {**body, "Name": "old"})
    play.call("DELETE", f"keys/{other['Id']}")
    return secret


def set_back(play):
    """A game saves a document of before: versions, and so the ids of entries, come twice."""
    former = play.db.players.find_one({"Name": "Hero14"})
    play.give("Hero14", 1, "before it was set back")
    play.move()
    play.db.players.replace_one({"_id": former["_id"]}, former)
    play.give("Hero14", 2, "after it was set back")
    play.move()
    play.db.players.replace_one({"_id": former["_id"]}, former)
    play.give("Hero14", 3, "after it was set back again")


def leave_entries(play):
    """Changes whose entries stay in Journals."""
    for number in range(12):
        play.give("Hero01", 1, f"left {number}")
    for number in range(2, 6):
        play.give(f"Hero{number:02}", 2, f"left of {number}")
    play.post("players/Hero07/name", {"Name": "Newer07"}, "left name")
    play.post("users/Alice/notes", {"Text": "Called again."}, "left note")
    changed = {"new": "zoe@example.com", "authorization": PASSWORD}
    play.post("users/Zoë/email/change", changed, "left mail")
    play.post(f"variables/global/{GLOBAL}", {"value": 3}, "left weather")
    entry = next(
        e
        for e in play.get("players/Hero06/history")["Values"]
        if e["Operation"] == "give" and not e.get("UndoneBy")
    )
    play.undo(entry, "left undo")
    if not play.is_first:
        play.call("PUT", "roles/event-team", {"Permissions": ["players.read"]})
        sent = {"to": "Hero10", "itemid": ARROW, "quantity": 1}
        play.post("players/Hero09/items/transfer", sent, "left transfer")
    # What a game has written into a Journal is no entry.
    play.db.players.update_one({"Name": "Hero03"}, {"$push": {"Journal": {"Odd": 1}}})


def add_doubles(play):
    """No release writes these, but a rolled-back write or a restore may have left them."""
    history, players = play.db.history, play.db.players
    first = history.find_one({"IdempotencyKey": "welcome 1"})
    later = {"At": first["At"] + timedelta(hours=1), "Stamp": ObjectId()}
    history.insert_one({**first, **later, "_id": f"{first['_id']}:double", "Number": 900})
    key = {"IdempotencyKey": "welcome 2"}
    player, moved = players.find_one({"Name": "Hero02"}), history.find_one(key)
    twin = {**player["Journal"][-1], **key, "Answer": {"Twin": True}, "Stamp": ObjectId()}
    twin |= {"_id": f"player:{player['_id']}:9000", "Version": 9000}
    twin |= {"At": twin["At"] + timedelta(milliseconds=1), "Fingerprint": moved["Fingerprint"]}
    players.update_one({"_id": player["_id"]}, {"$push": {"Journal": twin}})
    undo = history.find_one({"IdempotencyKey": "undo 8"})
    again = {"At": undo["At"] + timedelta(hours=1), "Stamp": ObjectId(), "IdempotencyKey": "undo x"}
    history.insert_one({**undo, **again, "_id": f"{undo['_id']}:double", "Number": 901})


def keep_for_ever(db):
    """Let nothing expire: a fixture is as good as new in ten years."""
    db.locks.update_many({}, {"$set": {"Until": LONG_AGO}})
    for name in db.list_collection_names():
        for field in KEPT_FIELDS:
            db[name].update_many({field: {"$type": "date"}}, {"$set": {field: NEVER}})
        for found in db[name].find({"ExpiresAt": {"$exists": False}, "Keys": {"$type": "object"}}):
            for id_ in found["Keys"]:
                db[name].update_one(
                    {"_id": found["_id"]}, {"$set": {f"Keys.{id_}.ExpiresAt": NEVER}}
                )


def pages(play, path, size=PAGE, after=""):
    """Return all pages of a list, each with the cursor that it was read by."""
    found = []
    while True:
        joint = "&" if "?" in path else "?"
        page = play.get(f"{path}{joint}pageSize={size}&after={after}")
        found.append({"After": after, **page})
        if not page["Values"] or not page["Next"]:
            return found
        after = page["Next"]


def ids_of(found):
    return [{"After": page["After"], "Ids": [e["Id"] for e in page["Values"]]} for page in found]


def answers(play):
    """Return what the release answers of what it stores, by path."""
    paths = ["players?pageSize=100", "users?pageSize=100", "batches", "actions", "keys"]
    paths += ["gameobjects/item", f"variables/global/{GLOBAL}", f"players/bag/{BAG}"]
    for player in play.db.players.find(sort=[("NameKey", 1)]):
        base = f"players/{player['_id']}"
        paths += [base, f"{base}/items", f"{base}/spells", f"{base}/variables", f"{base}/notes"]
    for user in play.db.users.find(sort=[("NameKey", 1)]):
        paths += [f"users/{user['_id']}", f"users/{user['_id']}/notes"]
    for batch in play.db.batches.find(sort=[("At", 1)]):
        paths += [f"batches/{batch['_id']}", f"batches/{batch['_id']}/rows?pageSize=100"]
    if not play.is_first:
        paths += ["approvals", "roles", "staff", "guilds"]
        paths += [f"players/{id_of(play, name)}/events" for name in ("Hero01", "Hero02")]
    return {path: without_empty_slots(play.get(path)) for path in paths}


def without_empty_slots(value):
    """Return an answer without the slots that hold nothing, which are most of it."""
    if isinstance(value, dict):
        return {name: without_empty_slots(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_empty_slots(one) for one in value if not is_empty_slot(one)]
    return value


def is_empty_slot(value):
    return isinstance(value, dict) and value.get("Quantity") == 0 and "StatBuffs" in value


def dump(db):
    plans = {}
    for name in sorted(db.list_collection_names()):
        indexes = [dict(index) for index in db[name].list_indexes() if index["name"] != "_id_"]
        for index in indexes:
            index.pop("v")
            index["key"] = dict(index["key"])
        documents = list(db[name].find(sort=[("_id", 1)]))
        options = db[name].options()
        plans[name] = {"options": options, "indexes": indexes, "documents": documents}
    return plans


def load(db, plans):
    for name, plan in plans.items():
        db[name].delete_many({})
        if plan["documents"]:
            db[name].insert_many(deepcopy(plan["documents"]), bypass_document_validation=True)


def in_lines(value):
    """Return JSON with a line for each path, page or request."""
    dumps = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, dict):
        lines = [f"{dumps(name)}: {dumps(inner)}" for name, inner in value.items()]
        return "{\n" + ",\n".join(lines) + "\n}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(dumps, value)) + "\n]"
    return dumps(value)


def write(path, plans):
    """Write a line for each document."""
    lines = []
    for name, plan in plans.items():
        shape = {key: plan[key] for key in ("options", "indexes")}
        written = [json_util.dumps(one, json_options=OPTIONS) for one in plan["documents"]]
        documents = "[\n" + ",\n".join(written) + "\n]" if written else "[]"
        text = json_util.dumps(shape, json_options=OPTIONS)[:-1]
        lines.append(f'"{name}": {text}, "documents": {documents}}}')
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(name, folder):
    uri, folder = os.environ["QM_MONGODB_URI"], Path(folder)
    play = Play(uri, name)
    play_people(play)
    play_catalogue(play)
    play_players(play)
    play.move()
    play.follow()
    middle = play.get("events?pageSize=30")["Next"]
    play_undo(play)
    play_deletions(play)
    play_erasure(play)
    if not play.is_first:
        play_staff(play)
        play_approvals(play)
    play_game(play)
    play_batches(play)
    secret = play_keys(play)
    set_back(play)
    leave_entries(play)
    add_doubles(play)
    keep_for_ever(play.db)
    plans, clerk = dump(play.db), play.db.users.find_one({"Name": "Clerk"})
    answered = {"As it is": answers(play), "Keys": play.keyed, "Key of shop": secret}
    answered["Events after a cursor"] = ids_of(pages(play, "events", PAGE, middle))
    # The same database, once its own mover and its log have finished.
    copy = Play(uri, f"{name}_moved", clerk)
    load(copy.db, plans)
    copy.headers = copy.world.headers(user=clerk)
    copy.move()
    answered["History"] = pages(copy, "history")
    answered["Events"] = ids_of(pages(copy, "events"))
    answered["Entries"] = sorted(copy.db.history.distinct("_id"))
    (folder / "answers").mkdir(parents=True, exist_ok=True)
    write(folder / f"{name}.json", plans)
    parts = [f"{json.dumps(part)}: {in_lines(value)}" for part, value in answered.items()]
    (folder / "answers" / f"{name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")
    for one in (play, copy):
        one.storage.client.drop_database(one.db.name)


if __name__ == "__main__":
    main(*sys.argv[1:])

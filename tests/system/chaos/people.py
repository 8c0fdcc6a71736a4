"""People are erased, and players deleted and brought back, while things break.

Whoever was told that a person is erased finds nothing of that person anywhere but ids; who was not
told is erased in the end all the same. A player who is deleted and brought back has what it had.
"""

import json
from contextlib import suppress
from urllib.parse import quote

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from app.auth.roles import Role
from tests.factories import guid, make_bag, make_entry, make_player, make_user
from tests.system.chaos.clients import JSON, PATIENCE_SECONDS, Client
from tests.system.chaos.service import NAME
from tests.system.chaos.stored import DATABASE
from tests.system.chaos.storm import Storm
from tests.system.chaos.world import CAREFUL, OWN, PATIENCE_MS, SLOTS, ExampleWorld
from tests.system.programs import run, wait_until

# One of so many clients erases people, and one deletes players; the others would be too many.
SHARE = 3
# Begins every text that tells of a person, so that all of them are found by one search.
MARK = "Zwq"
ENTRIES = 5
# Whoever waits for a worker that stands still is answered in time all the same.
STOPPED_SECONDS = 8


class Eraser(Client):
    """Makes a person with all that may belong to one, and erases it."""

    latest_seconds = 20.0

    def __init__(self, number, service, db):
        super().__init__(f"eraser {number}", service, [None], PeopleStorm.pace)
        self._db = db
        self.erased = []

    def _act(self, _):
        person = add_person(self._db)
        body = json.dumps({"Confirm": person["Name"]})
        path = f"/api/v1/users/{person['_id']}/erase"
        answer = self._until_answered("POST", path, body, JSON)
        if answer and answer["Gone"]["Players"] != 1:
            self._complain(f"an erasure was told as {answer}")
        self.erased.append(person["_id"])


class Deleter(Client):
    """Deletes a player of its own, and brings it back by undoing the deletion."""

    latest_seconds = 20.0

    def __init__(self, number, service, player):
        super().__init__(f"deleter {number}", service, [player], PeopleStorm.pace)
        self._items = {player["_id"]: player["Inventory"]}

    def _act(self, player):
        path = f"/api/v1/players/{player['_id']}"
        if not self._until_answered("DELETE", path, None, {"Idempotency-Key": guid()}):
            return
        history = f"{path}/history?pageSize=1&operation=delete-player"
        found = self._until_answered("GET", history, None, {})
        if not found or not found["Values"]:
            self._complain("a deletion has no entry")
            return
        undo = f"/api/v1/history/{quote(found['Values'][0]['Id'])}/undo"
        self._until_answered("POST", undo, "{}", {**JSON, "Idempotency-Key": guid()})
        items = self._until_answered("GET", f"{path}/items/inventory", None, {})
        held = [slot["Quantity"] for slot in items or [] if slot["Quantity"]]
        expected = [slot["Quantity"] for slot in player["Inventory"].values()]
        if items is not None and held != expected:
            self._complain(f"a player who was brought back has {held}, not {expected}")


class PeopleStorm(Storm):
    """Some who erase people, and some who delete players."""

    def __init__(self, services, uri):
        self._erasers = self.crowd // SHARE
        self._client = MongoClient(uri, w="majority")
        self._db = self._client.get_default_database(DATABASE)
        super().__init__("people", services, uri)
        self._deletable = self.players
        # Nobody deletes a player who plays, so the worlds have players of their own.
        self.beside += [
            ExampleWorld(
                uri, self.folder, self.add_players(OWN), form, 1 / self.pace, patience=PATIENCE_MS
            )
            for form in (CAREFUL, SLOTS)
        ]
        # So has the staff.
        self.clients += super()._make_staff(self.add_players(OWN))

    def _make_staff(self, players, token=None):
        """Return nobody: whom others delete is no longer there for a batch or a page."""
        return []

    def _make_players(self):
        stack = {"0": {"ItemId": guid(), "Quantity": 7}}
        return [make_player(Inventory=stack) for _ in range(self._erasers)]

    def _make_clients(self, clients, token):
        erasers = [Eraser(n, self._service_of(n), self._db) for n in range(self._erasers)]
        deleters = [
            Deleter(n, self._service_of(n), player) for n, player in enumerate(self.players)
        ]
        return [*erasers, *deleters]

    def _settle(self):
        self._sum_up()
        played = [player for player in self.players if player not in self._deletable]
        self._compare(played, {"$in": [player["_id"] for player in played]})
        outcome = self.outcome
        unfinished = {"FinishedAt": None}
        wait_until(lambda: not self._db.erasures.count_documents(unfinished), seconds=120)
        outcome.complaints += [f"{name} still tells of a person" for name in traces(self._db)]
        for player in self._deletable:
            stored = self._db.players.find_one({"_id": player["_id"]})
            if stored is None or stored["Inventory"] != player["Inventory"]:
                outcome.complaints.append(f"a player is not what it was: {stored}")
        outcome.notes.append(f"{self.erased():,} people were erased")
        self._client.close()

    def erased(self):
        """Return how many people were erased until now."""
        return sum(len(client.erased) for client in self.clients[: self._erasers])


def add_person(db):
    """Store a person with a character, a bag, sign-ins and a history full of the name."""
    name = f"{MARK}{guid()[:8]}"
    user = make_user(Name=name)
    bag = make_bag()
    slots = {"0": {"ItemId": guid(), "Quantity": 1, "BagId": bag["_id"]}}
    player = make_player(Name=f"{name}x", UserId=user["_id"], Inventory=slots)
    entries = [
        make_entry(player, Version=number, Reason=f"for {name}, {user['Email']}")
        for number in range(1, ENTRIES)
    ]
    for entry in (*entries, make_entry(user, "user", Reason=name)):
        store(db.history, entry)
    store(db.bags, bag)
    store(db.players, player)
    store(db.users, user)
    return user


def store(collection, document):
    """Store a document as soon as there is a primary that takes it.

    Of a person who is there in part nobody would ever be told that it is erased.
    """

    def is_stored():
        with suppress(PyMongoError):
            return collection.replace_one({"_id": document["_id"]}, document, upsert=True)

    wait_until(is_stored, seconds=PATIENCE_SECONDS)


def traces(db):
    """Return the collections that hold the text of a person."""
    wanted = MARK.casefold()
    return [
        name
        for name in db.list_collection_names()
        if any(wanted in repr(document).casefold() for document in db[name].find())
    ]


def _stop_worker(people, served):
    """Let a worker stand still while others erase people to the end."""
    before = people.erased()
    served.stop_worker(lambda: people.erased() > before + 1, STOPPED_SECONDS)


def storm(replicas, served, rounds):
    """Workers die, the primary changes, all is restarted; erasures and deletions go on."""
    for role in (Role.USERS_QUERY, Role.USERS_MANAGE):
        done = run(served.folder, "api", "grant", NAME, role.value, **served.settings)
        assert done.returncode == 0, done.stderr
    people = PeopleStorm([served], replicas.uri)
    with people.raging():
        for _ in range(rounds):
            people.inject("worker killed", served.kill_worker)
            people.inject("worker stopped", _stop_worker, people, served)
            people.inject("primary stepped down", replicas.step_down)
            replicas.wait()
            people.inject("service killed", served.die_and_start)
    return people.outcome

"""A small game that shares its database with Quartermaster, and follows the rules of docs/game.rst.

    python game_server.py --uri "$(quartermaster db uri)"

About a hundred characters walk, fight, loot, trade, talk, log in and out. It uses the database as a
real game server does; the play itself is random. It needs pymongo; a game in another language needs
the driver for that language. The rules, and the code that follows them:

1. A write filters on the Version that was read and increments it. If nothing matches, another
   writer was faster: read again, and decide again. A write sets single fields and slots, never
   whole documents, and a change of two characters is a transaction (Characters).
2. A change stream reports gifts and other changes by others (Gifts).
3. The game polls for actions such as a kick or a restart, and for letters to its players, takes
   them and answers them (Actions). It reports trades as events, so that support can tell what left
   whom (World).
4. The game reports in bulk who is online, without incrementing Version. Bans and mutes are fields
   of the account (World: log_in, log_out, look_up_penalties).
5. A new account or character has all fields, two of them derived from its name (named).
"""

import argparse
import os
import random
import shutil
import signal
import sys
import time
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pymongo
from bson import json_util
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

Document = dict[str, Any]
# The changes to a character, by field ("Exp") or slot ("Inventory.3"). None removes a slot.
Change = dict[str, Any]

NIL = "00000000-0000-0000-0000-000000000000"
INVENTORY_SIZE, STACK_LIMIT = 35, 1_000_000  # QM_INVENTORY_SIZE and QM_STACK_LIMIT
WIDTH, HEIGHT = 32, 26
TICK_SECONDS, DOORS_SECONDS, KICKED_SECONDS = 0.1, 2, 20
FIRST_ANSWER_SECONDS, LAST_ANSWER_SECONDS = 3, 5
RESTART_WARNINGS = (10, 5, 1)  # minutes before a restart
LOOK_SECONDS = 1  # if no game polls for ten seconds, the service refuses actions
EVENT_DAYS = 30  # QM_GAME_EVENT_DAYS
PRESENCE_SECONDS = 30  # after QM_ONLINE_TTL_SECONDS (300), a player counts as offline
UNREAD = {"Notes": 0, "NameTails": 0}  # fields of the service, or not needed here
NO_RIGHT, DAMAGED = (13, 18, 8000), (28, 121)  # MongoDB's codes; DAMAGED: an invalid document
SETTINGS = {
    "w": "majority",  # a write on fewer servers may be rolled back
    "readConcernLevel": "majority",
    "timeoutMS": 10_000,  # until then, the driver retries what an election interrupts
    "connectTimeoutMS": 2_000,
}
FIRST = ("Al", "Bar", "Cor", "Dag", "El", "Fen", "Gor", "Hal", "Jor", "Kel", "Mir", "Tor", "Wil")
LAST = ("adric", "eldor", "owyn", "idan", "ora", "elia", "aneth", "ithas", "obert", "ina", "oris")
TALK = ("Anyone for the mines?", "Selling herbs!", "Well met.", "Who healed me? Thanks!", "Brb.")

dice = random.Random()


class Refused(Exception):
    """An action that cannot be done; its text is the error message for the caller."""


class Screen:
    """The output: plain lines, and on a terminal a status line below them."""

    def __init__(self, is_quiet: bool) -> None:
        self.is_quiet, self.is_terminal = is_quiet, sys.stdout.isatty()
        self.next_status = time.monotonic() + 2

    def tell(self, text: str, is_chatter: bool = False) -> None:
        # Names and messages come from people: a control character must not reach a terminal.
        text = text if text.isprintable() else repr(text)
        if not (is_chatter and self.is_quiet):
            print(f"\r\x1b[K{text}" if self.is_terminal else text, flush=True)

    def status(self, text: str) -> None:
        if not self.is_quiet and time.monotonic() >= self.next_status:
            self.next_status = time.monotonic() + (0.5 if self.is_terminal else 10)
            short = text[: shutil.get_terminal_size().columns - 1]
            print(f"\r\x1b[K{short}\r" if self.is_terminal else f"{text}\n", end="", flush=True)


def difference(before: Document, after: Document) -> dict[str, int]:
    """Return the difference in the quantity of each item between two states."""
    items: Counter[str] = Counter()
    for sign, character in ((-1, before), (1, after)):
        for place in ("Inventory", "Bank"):
            for slot in (character.get(place) or {}).values():
                items[slot["ItemId"]] += sign * slot["Quantity"]
    return {item: quantity for item, quantity in items.items() if quantity}


def changed(character: Document, change: Change) -> Document:
    """Return a copy of a character with a change applied."""
    after = dict(character)
    for path, value in change.items():
        field, _, slot = path.partition(".")
        if slot:
            others = {n: held for n, held in (after.get(field) or {}).items() if n != slot}
            after[field] = others if value is None else {**others, slot: value}
        else:
            after[field] = value
    return after


def still(value: Any) -> Document:
    """Return the condition that a field is unchanged since it was read, or is still absent."""
    return {"$exists": False} if value is None else {"$eq": value}


def assignments(change: Change, write_id: str) -> Document:
    """Return the update that makes a change, field by field and slot by slot."""
    new = {path: value for path, value in change.items() if value is not None}
    gone = dict.fromkeys(change.keys() - new.keys(), "")
    update = {"$set": {**new, "GameWrite": write_id}}
    return {**update, "$unset": gone} if gone else update


class Characters:
    """Copies of the characters that are being played, and the only code that writes them.

    Each write sets GameWrite, a field of our own, to something unique. If the connection is lost
    before the answer comes, the next look at the character tells whether the write was made.
    """

    projection: Document | None = UNREAD

    def __init__(self, collection: Any, options: argparse.Namespace) -> None:
        self.collection, self.careless = collection, options.careless
        self.ledger = options.ledger.open("a") if options.ledger else None
        self.copies: dict[str, Document] = {}
        self.in_doubt: dict[str, dict[str, Change]] = {}  # by character and write
        self.broken_sessions: list[Any] = []
        self.outdated: set[str] = set()
        self.write_ids = (f"{options.name}:{uuid.uuid4().hex}:{n}" for n in count(1))
        self.tell_others_change: Callable[[Document, dict[str, int]], None] = lambda *_: None

    def read(self, ids: Iterable[str]) -> None:
        """Read characters again, and report what others have changed."""
        ids = list(ids)
        self.outdated.difference_update(ids)
        found = {c["_id"]: c for c in self.collection.find({"_id": {"$in": ids}}, self.projection)}
        for id_ in ids:
            former, now = self.copies.pop(id_, None), found.get(id_)
            if now is not None:
                self.copies[id_] = now
                self.compare(former or now, now, is_final=False)

    def compare(self, former: Document, now: Document, is_final: bool) -> None:
        """Report changes by others, without our own writes whose response was lost."""
        if others := difference(changed(former, self.settle(now, is_final)), now):
            self.tell_others_change(now, others)

    def write(self, changes: dict[str, Change]) -> bool:
        """Make all changes or none. If another writer was faster, read again and return False."""
        self.end_broken_sessions()
        if outdated := self.outdated & changes.keys():
            self.read(outdated)
            return False
        write_id = next(self.write_ids)
        self.note(write_id, "begun", self.effects(self.copies, changes))
        try:
            found = self.write_all(write_id, changes)
        except PyMongoError:
            self.note(write_id, "in doubt")
            for id_, change in changes.items():
                self.in_doubt.setdefault(id_, {})[write_id] = change
            self.outdated.update(changes)
            raise
        if len(found) < len(changes):
            self.note(write_id, "not made")
            self.read(changes)
            return False
        self.note(write_id, "made", self.effects(found, changes))
        for id_, before in found.items():
            self.compare(self.copies[id_], before, is_final=True)
            self.copies[id_] = self.written(before, changes[id_], write_id)
        return True

    def write_all(self, write_id: str, changes: dict[str, Change]) -> dict[str, Document]:
        """Return the characters before the write; if one is missing, nothing was written."""

        def write_each(session: Any = None) -> dict[str, Document]:
            found = {}
            for id_, change in changes.items():
                if before := self.write_one(write_id, id_, change, session):
                    found[id_] = before
                elif session:
                    session.abort_transaction()
                    break
            return found

        if len(changes) == 1:
            return write_each()
        # Both writes or neither, even if we are killed in between. Until the commit, other
        # writers wait for these two characters: keep a transaction to two quick writes.
        client = self.collection.database.client
        # By default, the driver retries a transaction for two minutes, which would block the game.
        with client.start_session() as session, pymongo.timeout(client.options.timeout):
            try:
                return session.with_transaction(write_each)
            except PyMongoError:
                self.broken_sessions.append(session.session_id)
                raise

    def end_broken_sessions(self) -> None:
        """End transactions of lost connections, which would block other writers for a minute."""
        while self.broken_sessions:
            session_id = self.broken_sessions[-1]
            self.collection.database.client.admin.command({"killSessions": [session_id]})
            self.broken_sessions.pop()

    def write_one(self, write_id: str, id_: str, change: Change, session: Any) -> Document | None:
        """Write a character if it is unchanged since we read it; return it as it was before."""
        where = {"_id": id_, "Version": still(self.copies[id_].get("Version"))}
        update = {**assignments(change, write_id), "$inc": {"Version": 1}}
        return self.collection.find_one_and_update(where, update, self.projection, session=session)

    def written(self, before: Document, change: Change, write_id: str) -> Document:
        """Return a character as it is after a write."""
        version = (before.get("Version") or 0) + 1
        return changed(before, {**change, "Version": version, "GameWrite": write_id})

    def settle(self, character: Document, is_final: bool) -> Change:
        """Return what unconfirmed writes changed. After our next write, none can take effect."""
        doubts, made = self.in_doubt.get(character["_id"], {}), {}
        if (write_id := character.get("GameWrite")) in doubts:
            made = doubts.pop(write_id)
            self.note(write_id, "made")
        while is_final and doubts:
            self.note(doubts.popitem()[0], "not made")
        return made

    def effects(self, found: dict[str, Document], changes: dict[str, Change]) -> Document | None:
        """Return the effects of a write on items and Version, for the ledger."""
        effects = {}
        for id_, change in changes.items() if self.ledger else ():
            before, after = found[id_], self.written(found[id_], change, "")
            version = after["Version"] - (before.get("Version") or 0)
            effects[id_] = {"Items": difference(before, after), "Version": version}
        return effects

    def note(self, write_id: str, state: str, effects: Document | None = None) -> None:
        """Add a line to the ledger, which the tests compare with the requests to the service."""
        if self.ledger:
            line = {"Write": write_id, "State": state, "At": time.monotonic(), "Effects": effects}
            print(json_util.dumps(line), file=self.ledger, flush=True)


class CarelessCharacters(Characters):
    """Wrong ways to write, for the tests. Do not use them in a game."""

    def __init__(self, collection: Any, options: argparse.Namespace) -> None:
        super().__init__(collection, options)
        self.projection = None if self.careless == "documents" else UNREAD

    def write(self, changes: dict[str, Change]) -> bool:
        """Write one after the other, without a transaction."""
        made = [super(CarelessCharacters, self).write({id_: changes[id_]}) for id_ in changes]
        return all(made)

    def write_one(self, write_id: str, id_: str, change: Change, session: Any) -> Document | None:
        copy, where = self.copies[id_], {"_id": id_}
        if self.careless == "documents":
            return self.collection.find_one_and_replace(where, self.written(copy, change, write_id))
        if self.careless == "guarded":
            slots = copy.get("Inventory") or {}
            where |= {path: still(slots.get(path[10:])) for path in change if "Inventory." in path}
        update = assignments(change, write_id)
        return self.collection.find_one_and_update(where, update, self.projection)

    def written(self, before: Document, change: Change, write_id: str) -> Document:
        base = self.copies[before["_id"]] if self.careless == "documents" else before
        version = {"Version": base.get("Version") or 0}
        return changed(base, {**change, **version, "GameWrite": write_id})


class Gifts:
    """Finds the characters that others have changed: by a change stream, or by their Versions."""

    def __init__(self, characters: Characters, screen: Screen, has_streams: bool) -> None:
        self.characters, self.screen, self.has_streams = characters, screen, has_streams
        self.stream: Any = None
        self.resume_token: Any = None

    def look(self) -> None:
        found = self.by_stream() if self.has_streams else self.by_versions()
        self.characters.read(set(found) & self.characters.copies.keys())

    def by_stream(self) -> Iterator[str]:
        """Yield the characters changed since the last call; after an error, resume from there."""
        try:
            self.stream = self.stream or self.open_stream()
            while event := self.stream.try_next():
                yield event["documentKey"]["_id"]
            self.resume_token = self.stream.resume_token
        except OperationFailure as error:
            # If the resume token has expired, the Versions show what we missed. If no stream can be
            # opened, we only compare Versions.
            self.has_streams, self.stream = self.resume_token is not None, None
            self.resume_token = None
            self.screen.tell(f"The change stream has ended: {reason(error)}.")
            yield from self.by_versions()
        except PyMongoError:
            self.stream = None
            raise

    def open_stream(self) -> Any:
        fields = "updateDescription.updatedFields"
        by_others = {f"{fields}.Version": {"$exists": True}, f"{fields}.GameWrite": None}
        match = {"$match": {"$or": [{"operationType": "replace"}, by_others]}}
        return self.characters.collection.watch(
            [match, {"$project": {"documentKey": 1}}],
            resume_after=self.resume_token,
            max_await_time_ms=1,
        )

    def by_versions(self) -> Iterator[str]:
        copies = self.characters.copies
        for found in self.characters.collection.find({"_id": {"$in": list(copies)}}, ["Version"]):
            if found.get("Version") != copies[found["_id"]].get("Version"):
                yield found["_id"]


class Actions:
    """Takes actions from the service, executes them, and answers."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name, self.tell = world, name, world.screen.tell
        self.actions, self.games = world.db["actions"], world.db["games"]
        self.kinds = {"chat": self.chat, "kick": self.kick, "kill": self.kill, "warp": self.warp}
        self.restart: Document | None = None
        self.restart_at, self.warnings = 0.0, list[int]()  # in minutes, the next one last

    def say_that_we_look(self) -> None:
        seen = {"$currentDate": {"LookedAt": True}}
        self.games.update_one({"_id": self.name}, seen, upsert=True)

    def take_all(self) -> None:
        """Take and answer all waiting actions. The filter on Taken excludes other game servers."""
        where: Document = {"Taken": None, "TakeBefore": {"$gt": datetime.now(timezone.utc)}}
        if self.world.options.characters:  # one of several game servers takes its own actions
            where["Subject.Id"] = {"$in": [*self.world.mine, *self.world.mine.values()]}
        taken = {"$currentDate": {"Taken": True}, "$set": {"TakenBy": self.name}}
        while action := self.actions.find_one_and_update(where, taken, sort=[("TakeBefore", 1)]):
            if action["Kind"] == "restart" and not self.restart:
                self.begin_restart(action)  # count_down answers it
                continue
            try:
                if action["Kind"] == "restart":
                    raise Refused("The game already counts down to a restart.")
                result = self.do(action["Kind"], action["Subject"], action["Arguments"])
                answer = {"$currentDate": {"Done": True}, "$set": {"Result": result}}
            except Refused as refusal:
                answer = {"$set": {"Error": str(refusal)}}
            self.actions.update_one({"_id": action["_id"]}, answer)

    def begin_restart(self, action: Document) -> None:
        minutes = action["Arguments"]["Minutes"]
        self.restart, self.restart_at = action, time.monotonic() + 60 * minutes
        self.warnings = sorted({minutes, *(m for m in RESTART_WARNINGS if m < minutes)} - {0})

    def count_down(self) -> None:
        """Warn everybody before a restart, unless staff withdraw it; restart when it is due."""
        if self.restart is None:
            return
        counting = {"_id": self.restart["_id"], "Withdrawn": None}
        if not self.actions.find_one(counting, ["_id"]):
            self.restart = None
            self.tell("The restart was called off.")
            return
        left = self.restart_at - time.monotonic()
        while self.warnings and left <= 60 * self.warnings[-1]:
            minutes = self.warnings.pop()
            self.tell(f"[in {minutes} min] {self.restart['Arguments']['Message']}")
        if left <= 0:
            # Before the restart: afterwards, a real game would not know what it has to answer.
            # The filter decides if staff withdraw it at the same moment.
            done = {"$currentDate": {"Done": True}, "$set": {"Result": None}}
            if not self.actions.update_one(counting, done).matched_count:
                return  # the next call tells everybody
            self.world.log_out(list(self.world.characters.copies))
            self.restart = None
            self.tell("The game restarts.")
            self.world.open_doors()

    def take_letters(self) -> None:
        """Show letters to players who are online, and those again that we have not answered.

        The service gives the items of a letter when we have answered, and tells it as any gift.
        """
        playing = {"Kind": "letter", "Subject.Id": {"$in": list(self.world.characters.copies)}}
        open_ = {"TakenBy": self.name, "TakerId": None, "Done": None, "Error": None}
        where = {**playing, "$or": [{"Taken": None}, open_]}
        taken = {"$currentDate": {"Taken": True}, "$set": {"TakenBy": self.name}}
        while letter := self.actions.find_one_and_update(where, taken, sort=[("At", 1)]):
            self.tell(f"[letter to {letter['Subject']['Name']}] {letter['Arguments']['Message']}")
            self.actions.update_one({"_id": letter["_id"]}, {"$currentDate": {"Done": True}})

    def do(self, kind: str, subject: Document, arguments: Document) -> Document | None:
        """Execute an action, and return its result."""
        if kind not in {*self.kinds, "guild-variable"}:
            raise Refused(f"The game does not know what '{kind}' is.")
        name = subject.get("Name") or subject["Id"]
        if kind == "guild-variable":
            value = {f"Variables.{arguments['VariableId']}": arguments["Value"]}
            self.world.db["guilds"].update_one({"_id": subject["Id"]}, {"$set": value})
            return None
        if kind == "chat" and subject["Kind"] in ("world", "map"):
            self.tell(f"[to {name or 'everybody'}] {arguments['Message']}")
            return None
        field, result = "_id" if subject["Kind"] == "player" else "UserId", None
        playing = [c for c in self.world.characters.copies.values() if c[field] == subject["Id"]]
        for one in playing:
            result = self.kinds[kind](one, arguments)
        if not playing:
            raise Refused(f"{name} is not playing.")
        return result

    def chat(self, one: Document, arguments: Document) -> None:
        self.tell(f"[to {one['Name']}] {arguments['Message']}")

    def kick(self, one: Document, _: Document) -> None:
        self.world.away[one["_id"]] = time.monotonic() + KICKED_SECONDS
        self.world.log_out([one["_id"]])
        self.tell(f"{one['Name']} was kicked.")

    def kill(self, one: Document, _: Document) -> None:
        self.insist(one, lambda now: {"Vitals": [0, *now["Vitals"][1:]]})
        self.tell(f"{one['Name']} was killed.")

    def warp(self, one: Document, arguments: Document) -> Document:
        place = self.world.maps.get(arguments["MapId"])
        if place is None:
            raise Refused(f"The game has no map {arguments['MapId']}.")
        x, y = arguments["X"], arguments["Y"]
        x, y = WIDTH // 2 if x is None else x, HEIGHT // 2 if y is None else y
        there = {"MapId": arguments["MapId"], "X": x, "Y": y}
        self.insist(one, lambda _: {**there, "MapName": place["Name"]})
        self.tell(f"{one['Name']} was warped to {place['Name']}.")
        return there

    def insist(self, one: Document, decide: Callable[[Document], Change]) -> None:
        """Decide and write, and retry while other writers are faster."""
        id_, characters = one["_id"], self.world.characters
        for _ in range(20):
            if id_ in characters.copies and characters.write({id_: decide(characters.copies[id_])}):
                return
        raise Refused(f"{one['Name']} could not be changed.")


class World:
    """The players, and what they do."""

    def __init__(self, db: Any, options: argparse.Namespace) -> None:
        self.db, self.options, self.screen = db, options, Screen(options.quiet)
        with pymongo.timeout(FIRST_ANSWER_SECONDS):
            is_replica_set = "setName" in db.client.admin.command("hello")
        is_careless = options.careless != "no"
        kind = CarelessCharacters if is_careless else Characters
        self.characters = kind(db["players"], options)
        self.characters.tell_others_change = self.tell_gift
        self.gifts = Gifts(self.characters, self.screen, is_replica_set)
        self.actions = Actions(self, options.name)
        self.done: Counter[str] = Counter()
        self.away: dict[str, float] = {}
        self.banned: set[str] = set()
        self.muted: set[str] = set()
        self.is_ending = False
        self.doings = {"walk": 8, "fight": 8, "loot": 3, "use": 2, "trade": 2, "speak": 1}
        if not is_replica_set and not is_careless:
            del self.doings["trade"]
            self.screen.tell("Without a replica set there are no transactions, and so no trades.")
        coin = {str(uuid.uuid5(uuid.NAMESPACE_DNS, "coin")): {"Name": "Coin"}}
        self.items = {o["_id"]: o for o in db["objects"].find({"Type": "item"})} or coin
        nowhere = {NIL: {"Name": ""}}
        self.maps = {o["_id"]: o for o in db["objects"].find({"Type": "map"})} or nowhere
        self.mine = self.choose_characters()

    def choose_characters(self) -> dict[str, str]:
        """Return the account of each character that we play; make more if there are too few."""
        where: Document = {}
        if listed := self.options.characters:
            where["_id"] = {"$in": listed.read_text().split()}
        # Characters marked online first, so that at the end none is marked who does not play.
        found = self.db["players"].find(where, ["UserId"]).sort({"Online": -1, "_id": 1})
        chosen = list(found.limit(self.options.players))
        if not listed:
            chosen += [self.make_character() for _ in range(self.options.players - len(chosen))]
        if not chosen:
            sys.exit("There is nobody to play: the database has none of these characters.")
        return {character["_id"]: character["UserId"] for character in chosen}

    def make_character(self) -> Document:
        account = new_account(f"player{uuid.uuid4().hex[:12]}")
        self.db["users"].insert_one(account)
        map_id, place = any_of(self.maps)
        while True:
            name = f"{dice.choice(FIRST)}{dice.choice(LAST)} {dice.randrange(1000)}"
            character = new_character(name, account["_id"], map_id, place["Name"])
            try:  # an index keeps names unique; a query before the insert would not
                self.db["players"].insert_one(character)
            except DuplicateKeyError:
                continue
            return character

    def log_in(self, ids: Iterable[str]) -> None:
        """Report in bulk who plays: at log-in, and for all players every half a minute."""
        online = {"$set": {"Online": True}, "$currentDate": {"LastSeen": True}}
        self.db["players"].update_many({"_id": {"$in": list(ids)}}, online)

    def log_out(self, ids: Iterable[str]) -> None:
        ids = list(ids)
        left = {"$set": {"Online": False}, "$currentDate": {"LastSeen": True, "LastOnline": True}}
        self.db["players"].update_many({"_id": {"$in": ids}}, left)
        for id_ in ids:
            self.characters.copies.pop(id_, None)

    def open_doors(self) -> None:
        """Let some players log in and some log out, so that about nine of ten play."""
        playing, now = self.characters.copies, time.monotonic()
        self.log_out(dice.sample(list(playing), len(playing) // 50))
        may = [id_ for id_, user in self.mine.items() if user not in self.banned]
        absent = [id_ for id_ in may if id_ not in playing and self.away.get(id_, 0) < now]
        wanted = max(0, -(-len(may) * 9 // 10) - len(playing))
        coming = dice.sample(absent, min(len(absent), wanted))
        self.characters.read(coming)
        self.log_in(playing.keys() & set(coming))

    def look_up_penalties(self) -> None:
        """Read bans and mutes, and log out banned players."""

        def penalised(flag: str, until: str) -> set[str]:
            # Compare with the time: the flag stays true after the end.
            in_force = [{until: None}, {until: {"$gt": datetime.now(timezone.utc)}}]
            where = {"_id": {"$in": list(self.mine.values())}, flag: True, "$or": in_force}
            return {user["_id"] for user in self.db["users"].find(where, ["_id"])}

        self.banned = penalised("IsBanned", "BannedUntil")
        self.muted = penalised("IsMuted", "MutedUntil")
        out = [c for c in self.characters.copies.values() if c["UserId"] in self.banned]
        for character in out:
            self.screen.tell(f"{character['Name']} was banned, and may not play.")
        self.log_out([character["_id"] for character in out])

    def tell_gift(self, character: Document, items: dict[str, int]) -> None:
        for item, quantity in items.items():
            what = f"{abs(quantity)} {self.items.get(item, {}).get('Name', item)}"
            told = f"got {what} as a gift" if quantity > 0 else f"had {what} taken away"
            self.screen.tell(f"{character['Name']} {told}.")

    # The activities of players. Each returns its changes, by character.

    def walk(self, one: Document) -> dict[str, Change]:
        dx, dy, direction = dice.choice(((0, -1, 0), (0, 1, 1), (-1, 0, 2), (1, 0, 3)))
        x, y = one["X"] + dx, one["Y"] + dy
        if 0 <= x < WIDTH and 0 <= y < HEIGHT:
            return {one["_id"]: {"X": x, "Y": y, "Dir": direction}}
        map_id, place = any_of(self.maps)
        there = {"MapId": map_id, "MapName": place["Name"], "X": WIDTH // 2, "Y": HEIGHT // 2}
        return {one["_id"]: there}

    def fight(self, one: Document) -> dict[str, Change]:
        level, most = one["Level"], [max(100, one["MaxVitals"][0]), *one["MaxVitals"][1:]]
        health = one["Vitals"][0] - dice.randrange(30)
        exp = one["Exp"] + dice.randint(1, 10 + 10 * level)
        if health <= 0:  # beaten, or killed by an action: revive
            return {one["_id"]: {"Vitals": most}}
        if exp < 100 * level:
            return {one["_id"]: {"Vitals": [health, *one["Vitals"][1:]], "Exp": exp}}
        self.screen.tell(f"{one['Name']} reaches level {level + 1}.", is_chatter=True)
        rise = {"Level": level + 1, "Exp": 0, "ExperienceToNextLevel": 100 * (level + 1)}
        return {one["_id"]: {**rise, "StatPoints": one["StatPoints"] + 5, "Vitals": most}}

    def loot(self, one: Document) -> dict[str, Change]:
        """Pick up an item: onto a plain stack of it that has room, or into a free slot."""
        (item, about), slot = any_of(self.items), free_slot(one)
        found = {"ItemId": item, "Quantity": 1}
        for n, held in self.stacks(one):
            has_room = held["Quantity"] < about.get("StackLimit", STACK_LIMIT)
            if held["ItemId"] == item and has_room and held.keys() == found.keys():
                slot, found = n, {**held, "Quantity": held["Quantity"] + 1}
        return {one["_id"]: {f"Inventory.{slot}": found}} if slot else {}

    def use(self, one: Document) -> dict[str, Change]:
        """Use up one of a stack."""
        for n, held in self.stacks(one):
            if "BagId" not in held:
                less = {**held, "Quantity": held["Quantity"] - 1}
                return {one["_id"]: {f"Inventory.{n}": less if less["Quantity"] else None}}
        return {}

    def trade(self, one: Document) -> dict[str, Change]:
        """Exchange two stacks, or give one to a player who has none, but a free slot."""
        _, other = any_of(self.characters.copies)
        slot, given = next(iter(self.stacks(one)), (None, None))
        other_slot, got = next(iter(self.stacks(other)), (free_slot(other), None))
        if one is other or slot is None or other_slot is None:
            return {}
        mine, theirs = {f"Inventory.{slot}": got}, {f"Inventory.{other_slot}": given}
        return {one["_id"]: mine, other["_id"]: theirs}

    def speak(self, one: Document) -> dict[str, Change]:
        said = " is muted." if one["UserId"] in self.muted else f": {dice.choice(TALK)}"
        self.screen.tell(one["Name"] + said, is_chatter=True)
        return {}

    def stacks(self, one: Document) -> list[tuple[str, Document]]:
        """Return the stacks of a player, in random order, of items that this game uses."""
        held = [
            (n, s) for n, s in (one.get("Inventory") or {}).items() if s["ItemId"] in self.items
        ]
        return dice.sample(held, len(held))

    def play(self) -> None:
        """Let a random player do something."""
        if not self.characters.copies:
            return
        _, one = any_of(self.characters.copies)
        doing = dice.choices(list(self.doings), list(self.doings.values()))[0]
        changes = getattr(self, doing)(one)
        before = {id_: self.characters.copies[id_] for id_ in changes}
        try:
            is_done = not changes or self.characters.write(changes)
            self.done[doing] += is_done
            if doing == "trade" and is_done and changes:
                self.report_trade(before, changes)
        except OperationFailure as error:
            if error.code not in DAMAGED:
                raise
            self.screen.tell(f"{one['Name']} is damaged, and is not played: {reason(error)}.")
            self.log_out(changes)
            self.mine = {id_: user for id_, user in self.mine.items() if id_ not in changes}

    def report_trade(self, before: dict[str, Document], changes: dict[str, Change]) -> None:
        """Tell support what left whom, with its properties, so that it can be given back."""
        now = datetime.now(timezone.utc)
        kept = {"At": now, "ExpiresAt": now + timedelta(days=EVENT_DAYS)}
        for id_, change in changes.items():
            ((path, got),) = change.items()
            lost = (before[id_].get("Inventory") or {}).get(path.partition(".")[2])
            items = [{**lost, "Quantity": -lost["Quantity"]}] if lost else []
            event = {"_id": str(uuid.uuid4()), "Player": id_, "Kind": "trade", **kept}
            (other,) = changes.keys() - {id_}
            moved = {"Items": [*items, *([got] if got else [])], "With": other}
            self.db["game_events"].insert_one({**event, **moved})

    def run(self) -> None:
        """Run the chores when they are due, until the end; wait while the database is down."""
        chores: dict[Callable[[], None], float] = {
            lambda: self.log_in(self.characters.copies): PRESENCE_SECONDS,
            self.look_up_penalties: LOOK_SECONDS,
            self.open_doors: DOORS_SECONDS,
            self.actions.say_that_we_look: LOOK_SECONDS,
            self.actions.take_all: TICK_SECONDS,
            self.actions.take_letters: LOOK_SECONDS,
            self.actions.count_down: LOOK_SECONDS,
            self.gifts.look: TICK_SECONDS,
            self.play: 1 / self.options.pace,
        }
        due, is_away = dict.fromkeys(chores, time.monotonic()), False
        ends = time.monotonic() + (self.options.seconds or float("inf"))
        while not self.is_ending and (now := time.monotonic()) < ends:
            chore = min(due, key=due.__getitem__)
            if due[chore] > now:
                time.sleep(min(TICK_SECONDS, due[chore] - now))
                continue
            due[chore] = max(due[chore] + chores[chore], now - 1)  # skip what was due long ago
            try:
                chore()
                if is_away and chore == self.actions.say_that_we_look:  # a write has succeeded
                    self.screen.tell("The database answers again.")
                    is_away = False
            except PyMongoError as error:
                if getattr(error, "code", None) in NO_RIGHT:
                    raise
                if not is_away:
                    self.screen.tell(f"Waiting for the database: {reason(error)}.")
                is_away = True
                time.sleep(TICK_SECONDS)
            self.screen.status(self.summary())

    def summary(self) -> str:
        done = ", ".join(f"{n:,} {name}" for name, n in sorted(self.done.items()))
        return f"{len(self.characters.copies)} of {len(self.mine)} play. Done: {done or 'nothing'}."

    def end(self) -> None:
        """Log all players out, and stop polling for actions."""
        summary = self.summary()
        self.log_out(self.mine)
        self.actions.games.delete_one({"_id": self.options.name})
        self.screen.tell(f"{summary} Everybody is logged out.", is_chatter=True)


def any_of(documents: dict[str, Document]) -> tuple[str, Document]:
    return dice.choice(list(documents.items()))


def free_slot(one: Document) -> str | None:
    slots = one.get("Inventory") or {}
    return next((str(n) for n in range(INVENTORY_SIZE) if str(n) not in slots), None)


def named(name: str) -> Document:
    """Return the fields of a name: the key for uniqueness, the tails for the search."""
    key = unicodedata.normalize("NFC", name).casefold()
    tails = [key[start:] for start in range(len(key) - 2)]  # of three characters and more
    names = {"_id": str(uuid.uuid4()), "Name": name, "NameKey": key, "NameTails": tails}
    return {**names, "CreationDate": datetime.now(timezone.utc), "Version": 0}


def new_account(name: str) -> Document:
    """Return an account without roles in the service and without a password."""
    powers = ("Editor", "Ban", "Kick", "Mute", "Api", "ApiPersonalInformation", "ApiUserManagement")
    email = f"{name}@example.com"
    fields = {"Email": email, "EmailKey": email, "Power": dict.fromkeys(powers, False)}
    fields |= {"PasswordHash": None, "PasswordVersion": 0, "Reset": None}
    return {**named(name), **fields, "IsMuted": False, "MuteReason": None}


def new_character(name: str, user_id: str, map_id: str, map_name: str) -> Document:
    fields = {"UserId": user_id, "ClassId": NIL, "ClassName": "", "Gender": 0, "Level": 1, "Exp": 0}
    fields |= {"ExperienceToNextLevel": 100, "StatPoints": 0, "Vitals": [100, 50]}
    fields |= {"MaxVitals": [100, 50], "BaseStats": [5] * 5, "StatPointAllocations": [0] * 5}
    fields |= {"Equipment": [], "MapId": map_id, "MapName": map_name, "X": 9, "Y": 9, "Dir": 0}
    fields |= {"Sprite": "", "Face": "", "Online": False, "InBank": False, "LastOnline": None}
    fields |= {"LastSeen": None, "PlayTimeSeconds": 0, "Inventory": {}, "Bank": {}}
    return {**named(name), **fields, "Spells": {}, "Variables": {}}


def reason(error: Exception) -> str:
    """Return why something failed, without the details that a driver adds."""
    short = str(error).split(",")[0].split(" (")[0].rstrip(".")
    is_forbidden = getattr(error, "code", None) in NO_RIGHT
    return f"the account of the URI has no right to this, {short}" if is_forbidden else short


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A small game world beside Quartermaster.")
    add = parser.add_argument
    add("--uri", default=os.environ.get("QM_MONGODB_URI"), help="of MongoDB (QM_MONGODB_URI)")
    add("--database", help="unless the URI or QM_MONGODB_DATABASE names it")
    add("--name", default="world-1", help="of this game server")
    add("--players", type=int, default=100, help="how many characters to play, at least 1")
    add("--characters", type=Path, help="a file with the ids of the only ones that it may play")
    add("--seconds", type=float, default=0, help="how long to play; 0: until Ctrl-C")
    add("--pace", type=float, default=20, help="how much is done in a second, in all")
    add("--careless", choices=("no", "slots", "guarded", "documents"), default="no")
    add("--quiet", action="store_true", help="tell only what others do")
    add("--ledger", type=Path, help="a file to which to add what is done to items")
    options = parser.parse_args()
    if not options.uri:
        parser.error("--uri or QM_MONGODB_URI must name a MongoDB; quartermaster db uri prints it.")
    if options.pace <= 0 or options.players < 1:
        parser.error("--pace must be above 0, and --players at least 1.")
    return options


def main() -> int:
    options = parse_options()
    try:
        in_uri = {name.lower() for name in parse_qs(urlsplit(options.uri).query)}
        settings = {name: value for name, value in SETTINGS.items() if name.lower() not in in_uri}
        client: MongoClient[Document] = MongoClient(options.uri, tz_aware=True, **settings)
        database = os.environ.get("QM_MONGODB_DATABASE", "quartermaster")
        db = client[options.database] if options.database else client.get_default_database(database)
        world = World(db, options)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: setattr(world, "is_ending", True))
        world.log_out(world.mine)  # characters that a game server left online when it died
        world.screen.tell(f"{options.name} has {len(world.mine)} characters. Ctrl-C ends it.", True)
        try:
            world.run()
        finally:
            with pymongo.timeout(LAST_ANSWER_SECONDS):
                world.end()
    except (PyMongoError, OSError, ValueError) as error:
        sys.exit(f"The world has ended: {reason(error)}.")
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

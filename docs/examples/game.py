"""How a game uses the database that it shares with Quartermaster: see docs/game.rst.

    pip install pymongo argon2-cffi
    python game.py mongodb://127.0.0.1:27017/?directConnection=true

makes an account and a character, runs through all functions, and waits for a gift.
The files new_user.json and new_player.json are in the same folder.
"""

import contextlib
import hashlib
import random
import sys
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from bson import json_util
from pymongo import MongoClient, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import DuplicateKeyError

Document = dict[str, Any]
# Returns the update and the answer. Without an update, nothing changes.
Decide = Callable[[Document], tuple[Document | None, Any]]

HERE = Path(__file__).parent
NEW_USER = (HERE / "new_user.json").read_text()
NEW_PLAYER = (HERE / "new_player.json").read_text()
TRIES = 50
MANY = 1000
HASHER = PasswordHasher(time_cost=2, memory_cost=19456, parallelism=1)
# Writes of the service set ChangedAt; writes of a game do not.
BY_THE_SERVICE = {
    "$or": [
        {"operationType": "update", "updateDescription.updatedFields.ChangedAt": {"$exists": True}},
        {
            "operationType": {"$in": ["insert", "replace"]},
            "fullDocument.ChangedAt": {"$exists": True},
        },
    ]
}


class Gone(Exception):
    """The document no longer exists."""


class Busy(Exception):
    """Other writers came first at every try."""


def name_key(name: str) -> str:
    folded = unicodedata.normalize("NFC", name).casefold()
    return unicodedata.normalize("NFC", folded)


def name_tails(key: str) -> list[str]:
    return [key[start:] for start in range(len(key) - 2)]


def named(name: str) -> Document:
    key = name_key(name)
    return {"Name": name, "NameKey": key, "NameTails": name_tails(key)}


def sha256(password: str) -> str:
    return hashlib.sha256(password.encode()).hexdigest().upper()


def change(collection: Collection[Document], id_: str, decide: Decide) -> Any:
    """Change single fields of a document, based on its current content."""
    for _ in range(TRIES):
        document = collection.find_one({"_id": id_})
        if document is None:
            raise Gone(id_)
        update, answer = decide(document)
        if update is None:
            return answer
        unchanged = {"_id": id_, "Version": document.get("Version", {"$exists": False})}
        if collection.update_one(unchanged, {**update, "$inc": {"Version": 1}}).matched_count:
            return answer
        time.sleep(random.uniform(0, 0.02))
    raise Busy(id_)


def make_account(db: Database[Document], name: str, email: str, password: str) -> str:
    """Make an account. Raise DuplicateKeyError if the name or the address is taken."""
    if not email.isascii():
        raise ValueError("Let the service register this address: its key needs IDNA.")
    user = json_util.loads(NEW_USER)
    user |= {"_id": str(uuid.uuid4()), **named(name), "Email": email, "EmailKey": email.lower()}
    user |= {
        "PasswordHash": HASHER.hash(sha256(password)),
        "CreationDate": datetime.now(timezone.utc),
    }
    db.users.insert_one(user)
    return str(user["_id"])


def is_password(user: Document, password: str) -> bool:
    try:
        return HASHER.verify(user["PasswordHash"] or "", sha256(password))
    except (VerificationError, InvalidHashError):
        return False


def is_in_force(user: Document, flag: str, until: str) -> bool:
    """Return whether a penalty is in force: "IsBanned", "BannedUntil"; "IsMuted", "MutedUntil"."""
    end = user.get(until)
    return user.get(flag) is True and (end is None or end > datetime.now(timezone.utc))


def make_character(db: Database[Document], user_id: str, name: str, **fields: Any) -> str:
    """Make a character. Raise DuplicateKeyError if the name is taken."""
    player = json_util.loads(NEW_PLAYER)
    player |= {"_id": str(uuid.uuid4()), **named(name), "UserId": user_id}
    player |= {"CreationDate": datetime.now(timezone.utc), **fields}
    db.players.insert_one(player)
    return str(player["_id"])


def heartbeat(db: Database[Document], playing: Iterable[str]) -> None:
    """Report who is playing: at log-in, and about every 30 seconds for all players at once."""
    ids = list(playing)
    for start in range(0, len(ids), MANY):
        db.players.update_many(
            {"_id": {"$in": ids[start : start + MANY]}},
            {"$set": {"Online": True}, "$currentDate": {"LastSeen": True}},
        )


def log_out(db: Database[Document], player_id: str) -> None:
    now = {"LastSeen": True, "LastOnline": True}
    db.players.update_one({"_id": player_id}, {"$set": {"Online": False}, "$currentDate": now})


def move_item(db: Database[Document], player_id: str, source: str, target: str) -> bool:
    """Move the content of a slot, such as "Inventory.3", to an empty one, such as "Bank.7"."""

    def decide(player: Document) -> tuple[Document | None, bool]:
        held, there = slot(player, source), slot(player, target)
        if held is None or there is not None:
            return None, False
        return {"$set": {target: held}, "$unset": {source: ""}}, True

    return bool(change(db.players, player_id, decide))


def slot(player: Document, path: str) -> Document | None:
    place, _, number = path.partition(".")
    return (player.get(place) or {}).get(number)


def hand_over(db: Database[Document], giver: str, taker: str, source: str, target: str) -> bool:
    """Move the content of a slot to an empty slot of another player, in one transaction."""

    def both(session: ClientSession) -> bool:
        one = db.players.find_one({"_id": giver}, session=session)
        other = db.players.find_one({"_id": taker}, session=session)
        held = one and slot(one, source)
        if not held or other is None or slot(other, target) is not None:
            return False
        counted = {"$inc": {"Version": 1}}
        db.players.update_one({"_id": giver}, {"$unset": {source: ""}, **counted}, session=session)
        db.players.update_one({"_id": taker}, {"$set": {target: held}, **counted}, session=session)
        return True

    with db.client.start_session() as session:
        return session.with_transaction(both)


def pick_up(
    db: Database[Document], player_id: str, item: str, quantity: int, size: int, limit: int
) -> int:
    """Put as many items into the inventory as fit there; return how many."""

    def decide(player: Document) -> tuple[Document | None, int]:
        slots, left, changed = player.get("Inventory") or {}, quantity, {}
        numbers = sorted(map(str, range(size)), key=lambda number: number not in slots)
        for number in numbers:  # stacks first, then empty slots
            held = slots.get(number, {"ItemId": item, "Quantity": 0})
            is_plain = "BagId" not in held and "StatBuffs" not in held
            room = limit - held["Quantity"] if held["ItemId"] == item and is_plain else 0
            if (added := min(left, room)) > 0:
                left -= added
                changed[f"Inventory.{number}"] = {**held, "Quantity": held["Quantity"] + added}
        return ({"$set": changed} if changed else None), quantity - left

    return int(change(db.players, player_id, decide))


def gifts(db: Database[Document], resume: Document | None = None) -> Iterator[Document]:
    """Yield every write of the service to a player: gifts, names, variables and so on."""
    with db.players.watch(
        [{"$match": BY_THE_SERVICE}], full_document="updateLookup", resume_after=resume
    ) as stream:
        for event in stream:
            if event.get("fullDocument"):
                yield event


def take_action(db: Database[Document], game: str) -> Document | None:
    """Take the oldest waiting action, and report that this game polls."""
    look = {"$currentDate": {"LookedAt": True}}
    looked = db.games.find_one_and_update(
        {"_id": game}, look, upsert=True, return_document=ReturnDocument.AFTER
    )
    return db.actions.find_one_and_update(
        {"Taken": None, "TakeBefore": {"$gt": looked["LookedAt"]}},
        {"$currentDate": {"Taken": True}, "$set": {"TakenBy": game}},
        sort=[("TakeBefore", 1)],
    )


def take_letter(db: Database[Document], game: str, playing: Iterable[str]) -> Document | None:
    """Take a letter to a player who is online, or one that this game took and did not answer."""
    mine = {"Kind": "letter", "Subject.Id": {"$in": list(playing)}}
    unanswered = {"TakenBy": game, "TakerId": None, "Done": None, "Error": None}
    return db.actions.find_one_and_update(
        {**mine, "$or": [{"Taken": None}, unanswered]},
        {"$currentDate": {"Taken": True}, "$set": {"TakenBy": game}},
        sort=[("At", 1)],
    )


def answer_action(
    db: Database[Document], action_id: str, error: str | None = None, result: Document | None = None
) -> None:
    """Report that an action is done, or why it failed."""
    if error:
        db.actions.update_one({"_id": action_id}, {"$set": {"Error": error}})
    else:
        done = {"$set": {"Result": result}, "$currentDate": {"Done": True}}
        db.actions.update_one({"_id": action_id}, done)


def report(db: Database[Document], event_id: str, player_id: str, kind: str, **more: Any) -> None:
    """Report an event; more may be Items, Text and With."""
    now = datetime.now(timezone.utc)
    event = {"_id": event_id, "Player": player_id, "Kind": kind, "At": now, **more}
    with contextlib.suppress(DuplicateKeyError):  # it was reported before
        db.game_events.insert_one({**event, "ExpiresAt": now + timedelta(days=30)})


def play(uri: str) -> None:
    db = MongoClient[Document](uri, tz_aware=True).quartermaster
    name = f"Nova{uuid.uuid4().hex[:8]}"
    user_id = make_account(db, name, f"{name}@example.com", "secret")
    player_id = make_character(db, user_id, name, Level=3)
    heartbeat(db, [player_id])
    item = str(uuid.uuid4())
    print("Picked up:", pick_up(db, player_id, item, 30, size=35, limit=20))
    print("Moved:", move_item(db, player_id, "Inventory.1", "Bank.0"))
    print(f"Give something to {name}, in the console or with curl.")
    for event in gifts(db):
        if event["documentKey"]["_id"] == player_id:
            print("Now the inventory holds:", event["fullDocument"]["Inventory"])
            break
    log_out(db, player_id)


if __name__ == "__main__":
    play(sys.argv[1])

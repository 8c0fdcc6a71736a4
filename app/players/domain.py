"""The player document: what is stored, and what of it is served. Pure."""

from __future__ import annotations

from datetime import datetime

from app.errors import Damaged
from app.keys import NIL, name_key, name_tails
from app.types import Document

# These are served by endpoints of their own.
EMBEDDED = ("Inventory", "Bank", "Spells", "Variables")
# These are nobody's business but ours.
INTERNAL = ("NameKey", "NameTails", "Version", "Stamp", "Journal", "JournalCount")

RECORD = dict.fromkeys((*EMBEDDED, *INTERNAL), 0)


def stored(record: Document, version: int = 0) -> Document:
    """Turn a complete record, embedded parts included, into a document."""
    fields = dict(record)
    key = name_key(record["Name"])
    return {
        "_id": fields.pop("Id"),
        "Name": fields.pop("Name"),
        "UserId": fields.pop("UserId"),
        **fields,
        "NameKey": key,
        "NameTails": name_tails(key),
        "Version": version,
        "Journal": [],
    }


def served(document: Document, online_since: datetime | None) -> Document:
    """Turn a document, read without its internal fields, into the record that callers see."""
    # The Id comes first to a reader, and last to whoever stored a field of that name.
    record = {"Id": None, **document, "Online": is_online(document, online_since)}
    record["Id"] = record.pop("_id")
    return record


def with_maps(document: Document) -> Document:
    """Return a player with an empty map for each that is missing, as every reader takes it."""
    maps = {name: document.get(name) for name in EMBEDDED}
    return {**document, **{name: m if isinstance(m, dict) else {} for name, m in maps.items()}}


def with_changeable_maps(document: Document) -> Document:
    """Return the same for a change, which must not replace what somebody else stored there."""
    if not all(isinstance(document.get(name), dict | None) for name in EMBEDDED):
        raise Damaged("player")
    return with_maps(document)


def is_online(document: Document, since: datetime | None) -> bool:
    """Tell whether the Online flag is fresh; a game server that died left stale ones."""
    flag = bool(document.get("Online"))
    if since is None or not flag:
        return flag
    seen = document.get("LastSeen")
    return seen is not None and seen >= since


def defaults(now: datetime) -> Document:
    """Return a player's fields as they are where nobody said otherwise."""
    return {
        **{"ClassId": NIL, "ClassName": "", "Gender": 0, "Level": 1, "Exp": 0},
        **{"ExperienceToNextLevel": 0, "StatPoints": 0, "Vitals": [0, 0], "MaxVitals": [0, 0]},
        **{"BaseStats": [0] * 5, "StatPointAllocations": [0] * 5, "Equipment": []},
        **{"MapId": NIL, "MapName": "", "X": 0, "Y": 0, "Dir": 0, "Sprite": "", "Face": ""},
        **{"Online": False, "InBank": False, "LastOnline": None, "LastSeen": None},
        **{"CreationDate": now, "PlayTimeSeconds": 0},
        **{"Inventory": {}, "Bank": {}, "Spells": {}, "Variables": {}},
    }

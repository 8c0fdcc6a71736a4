"""The player document: its fields, and its stored and served forms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from datetime import datetime
from typing import Any, NamedTuple

from app.auth.api_keys import PREFIX
from app.catalogue.domain import public_object
from app.core.changes import (
    ABSENT,
    Change,
    SubjectKind,
    former_value,
    is_same_value,
)
from app.core.errors import Conflict, Damaged, Invalid, InvalidField
from app.core.naming import (
    NAME_LENGTH,
    NIL,
    carry_names,
    compose,
    holds_invisible,
    is_visible,
    name_fields,
    name_key,
    parse_guid,
)
from app.core.types import Document, value_at, whole
from app.http.examples import CLASS, MAP, STATS
from app.http.masking import masked
from app.storage.schema.shapes import (
    ARRAY,
    COUNT,
    FLAG,
    GUID,
    INTEGER,
    MOMENT,
    MOMENT_OR_NULL,
    NAMED,
    NOTES,
    SLOT_NUMBER,
    TEXT,
    changeable,
    integers,
    map_of,
    object_shape,
)

SLOT: Document = {
    **object_shape(
        {"ItemId": GUID, "Quantity": {**COUNT, "minimum": 1, "maximum": 2**31 - 1}},
        {"BagId": GUID, "StatBuffs": integers(5)},
    ),
    "additionalProperties": False,
}
SLOTS = map_of(SLOT_NUMBER, SLOT)
# The field by which history records that a player was deleted.
DELETED_AT = "DeletedAt"
# Path segments that are not player names, as in /api/v1/players/rank.
PATHS = ("rank", "online", "bag")
# Characters that a new name must not contain: they have a meaning in pages, chats or paths.
MARKUP = '<>&"`\\{}|%?#'
VARIABLE: Document = {"bsonType": ["int", "long", "bool"]}


class Field(NamedTuple):
    """A stored field: the validator, the API, pages and docs/collections.rst have it from here."""

    shape: Document
    # In the record of a player; None: other endpoints serve the field.
    example: Any = None
    # In a new document; ABSENT: the field is optional.
    default: Any = ABSENT
    about: str = ""
    # What precedes the value on the page of a player; None: the page does not show it here.
    label: str | None = None


FIELDS = {
    "ClassId": Field(GUID, CLASS, NIL),
    "ClassName": Field(TEXT, "Ranger", "", label=""),
    "Gender": Field(INTEGER, 1, 0),
    "Level": Field(COUNT, 16, 1),
    "Exp": Field(COUNT, 1425, 0, "Experience gained on this level."),
    "ExperienceToNextLevel": Field(INTEGER, 1600, 0),
    "StatPoints": Field(INTEGER, 5, 0, "Not yet allocated."),
    "Vitals": Field(integers(), [51, 82], [0, 0], "Health, mana."),
    "MaxVitals": Field(integers(), [272, 126], [0, 0], "Health, mana."),
    "BaseStats": Field(integers(5), [30, 29, 36, 29, 28], [0] * 5, STATS),
    "StatPointAllocations": Field(
        integers(5), [16, 10, 5, 5, 8], [0] * 5, "In the order of BaseStats."
    ),
    "Equipment": Field(ARRAY, [4, -1, 7], [], "Worn inventory slots; -1: nothing."),
    "MapId": Field(GUID, MAP, NIL),
    "MapName": Field(TEXT, "Goldcrest", ""),
    "X": Field(INTEGER, 13, 0),
    "Y": Field(INTEGER, 22, 0),
    "Dir": Field(INTEGER, 3, 0),
    "Sprite": Field(TEXT, "ranger_0.png", ""),
    "Face": Field(TEXT, "ranger.png", ""),
    "Online": Field(FLAG, False, False, "Only valid while LastSeen is recent."),
    "InBank": Field(FLAG, False, False),
    "LastOnline": Field(MOMENT_OR_NULL, "2025-02-19T19:04:21Z", None),
    "LastSeen": Field(MOMENT_OR_NULL, "2025-02-19T19:04:21Z", None),
    # The default of this one is the current time.
    "CreationDate": Field(MOMENT, "2025-01-14T08:09:18Z", None),
    "PlayTimeSeconds": Field(COUNT, 64006, 0),
    "Inventory": Field(SLOTS, default={}),
    "Bank": Field(SLOTS, default={}),
    "Spells": Field(map_of(SLOT_NUMBER, GUID), default={}),
    "Variables": Field(map_of(GUID["pattern"], VARIABLE), default={}),
}
SHAPES = {name: field.shape for name, field in FIELDS.items()}
DEFAULTS = {name: field.default for name, field in FIELDS.items() if field.default is not ABSENT}
SHAPE = changeable(
    {**NAMED, "UserId": GUID, **{name: SHAPES[name] for name in DEFAULTS}},
    # ErasedAt is set while the person it belongs to is being erased.
    {**SHAPES, "Notes": NOTES, "FormerNames": ARRAY, "ErasedAt": MOMENT},
)
# Fields derived from the name and from former names.
NAME_FIELDS = ("NameKey", "NameTails", "FormerNames")
SUBJECT = SubjectKind(
    "player",
    shape={"bsonType": "object", "properties": {"Notes": NOTES}},
    derived=NAME_FIELDS,
    hidden=("ErasedAt",),
    unquoted=("Notes",),
    carried=carry_names,
)
# Separate endpoints serve these fields.
EMBEDDED = ("Inventory", "Bank", "Spells", "Variables", "Notes")
# Derived keys and bookkeeping, which are never served.
INTERNAL = SUBJECT.unrecorded
# The projection of a served player: all fields but these.
RECORD = dict.fromkeys((*EMBEDDED, *INTERNAL), 0)


class PlayerNameTaken(Conflict):
    sentence = "Another player already has this name."


class RenamedSince(Conflict):
    code = "NAME_CHANGED"
    sentence = "The player has been renamed and is now '{name}'."


class PlayerOnline(Conflict):
    sentence = "The player '{name}' is online: the game would save it again."


class PlayerIsBack(Conflict):
    """An import or the game has stored a deleted player again."""

    sentence = "The deleted player exists again: somebody else has restored it."


class WasDeleted(Conflict):
    sentence = "The player was deleted: undo the deletion in history to restore it."


class WasErased(Conflict):
    sentence = "The player belongs to somebody who was erased."


class SavedSince(Conflict):
    code = "VERSION_CHANGED"
    sentence = "The player has changed: its Version is now {version}."


class CharacterChanged(Conflict):
    sentence = "The player has changed: its {field} is different now."


class NotKept(Conflict):
    sentence = "The data of the deleted player is no longer kept."


def restore_fields(
    player: Document,
    *,
    changes: list[Document],
    changed: Callable[[str], Conflict] = CharacterChanged,
) -> Change:
    """Restore the former values of fields, or of keys of maps, if none has changed since."""
    fields: Document = {}
    for change in changes:
        field, _, key = change["Path"].partition(".")
        if not is_same_value(value_at(player, change["Path"]), change["After"]):
            raise changed(key or field)
        if not key:
            fields[field] = former_value(change)
            continue
        values = fields.setdefault(field, dict(player[field]))
        values.pop(key, None)
        # No value of a map is null: null stands for one that was not set.
        if change["Before"] is not None:
            values[key] = change["Before"]
    return Change(fields, None)


def ranks(players: Iterable[Document], first: int) -> list[Document]:
    """Return the rank, the name and the level of players, whose first has a given rank."""
    return [
        {"Rank": rank, "Name": player["Name"], "Level": whole(player.get("Level")) or 0}
        for rank, player in enumerate(players, first)
    ]


def rename(player: Document, *, name: str) -> Change:
    """Rename a player; its former names still find it."""
    fields = {"Name": name, **name_fields(name)}
    fields |= carry_names(player, fields)
    return Change(fields, {"Id": player["_id"], "Name": name})


def undo_rename(player: Document, *, changes: list[Document]) -> Change:
    """Restore the former name of a player, if the new one has not changed since."""
    (change,) = changes
    if player.get("Name") != change["After"]:
        raise RenamedSince(str(player.get("Name")))
    if not isinstance(change["Before"], str):
        raise Damaged("player")  # a game had stored something else as the name
    return rename(player, name=change["Before"])._replace(answer=None)


def save(
    player: Document, *, fields: Document, version: int | None, unrecorded: Iterable[str] = ()
) -> Change:
    """Set fields of a player from its game; version is the one that the game has read.

    If only unrecorded fields change, the change has no entry.
    """
    if version is not None and whole(player.get("Version")) != version:
        raise SavedSince(player.get("Version"))
    name = fields.get("Name")
    derived = rename(player, name=name).fields if name is not None else {}
    answer = {
        "Id": player["_id"],
        "Name": name or player.get("Name"),
        "Version": player.get("Version"),
    }
    changed = {name for name, value in fields.items() if not is_same_value(player.get(name), value)}
    has_entry = not changed or not changed <= set(unrecorded)
    return Change({**fields, **derived}, answer, has_entry, is_large=True)


def check_name(name: str) -> None:
    """Raise Invalid for a name that cannot be displayed, or cannot be part of a path."""
    if not name.strip() or len(name) > NAME_LENGTH or not name.isprintable():
        raise Invalid(f"Must be 1 to {NAME_LENGTH} printable characters, not all blank.")
    if "/" in name or name in (".", ".."):
        raise Invalid("Must not be a dot or two dots, or contain a slash: no path can hold it.")
    if not is_visible(name):
        raise Invalid("Must contain a visible character.")
    if parse_guid(name):
        raise Invalid("Must not look like a guid: it would be read as an id.")


def require_name(name: str, setting: Callable[[str], int]) -> None:
    """Raise Invalid for an invalid new name.

    Stored and imported names follow a weaker rule: see check_name.
    """
    try:
        check_name(name)
        shortest, longest = setting("CHARACTER_NAME_SHORTEST"), setting("CHARACTER_NAME_LONGEST")
        if not shortest <= len(compose(name)) <= longest:
            raise Invalid(f"Must be {shortest} to {longest} characters.")
        if name != " ".join(name.split()):
            raise Invalid("Must not begin or end with a space, or contain two spaces in a row.")
        if holds_invisible(name):
            fault = "Must not contain an invisible character: it would look like another name."
            raise Invalid(fault)
        if held := [sign for sign in MARKUP if sign in name]:
            fault = f"Must not contain {' or '.join(held)}: it has a meaning in markup or paths."
            raise Invalid(fault)
        if name_key(name) in PATHS:
            raise Invalid(f"Must not be one of {', '.join(PATHS)}: they are paths of the API.")
        if masked(name) != name or name_key(name).startswith(PREFIX):
            raise Invalid("Must not look like a token, key or hash.")
    except Invalid as error:
        raise InvalidField("Name", str(error)) from None


def defaults(now: datetime | None) -> Document:
    """Return the default fields of a player; they lack the name and the user."""
    return {**deepcopy(DEFAULTS), "CreationDate": now}


def public_player(document: Document, online_since: datetime | None) -> Document:
    """Turn a document, read without its internal fields, into the public record."""
    return public_object({**document, "Online": is_online(document, online_since)})


def with_maps(document: Document) -> Document:
    """Return a player for a reader: a missing or invalid embedded map becomes empty."""
    maps = {name: document.get(name) for name in EMBEDDED}
    return {**document, **{name: m if isinstance(m, dict) else {} for name, m in maps.items()}}


def with_changeable_maps(document: Document) -> Document:
    """Return a player for a change, or raise Damaged instead of overwriting an invalid map."""
    if not all(isinstance(document.get(name), dict | None) for name in EMBEDDED):
        raise Damaged("player")
    return with_maps(document)


def is_online(document: Document, since: datetime | None) -> bool:
    """Tell whether the Online flag is fresh; a game server that crashed leaves stale flags."""
    flag = bool(document.get("Online"))
    if since is None or not flag:
        return flag
    seen = document.get("LastSeen")
    # A game may have stored a value of another type.
    return isinstance(seen, datetime) and seen >= since

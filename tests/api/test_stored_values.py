"""Values of every BSON type, wherever a game may store them: pages, files and the API show them."""

import math
import uuid
from datetime import datetime, timedelta, timezone
from itertools import product

import bson
import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)

from app.core.operations import ANY, all_operations
from app.core.penalties import BAN, MUTE
from app.core.permissions import Role
from app.players.domain import FIELDS
from app.storage.extended_json import to_json
from tests.console_table import CONSOLE_DOORS
from tests.console_table import VALUES as VALUES_OF_DOORS
from tests.console_visitor import visitor
from tests.endpoint_table import DOORS
from tests.factories import (
    guid,
    make_bag,
    make_entry,
    make_event,
    make_guild,
    make_object,
    make_player,
    make_user,
    numbered_guid,
)
from tests.game import make_action
from tests.mongod import on_mongodb
from tests.tiers import some

ITEM, VARIABLE, NOTE = map(numbered_guid, range(3))
# An undefined value is read as None, a symbol as a text, and a DBPointer as a DBRef.
VALUES = {
    "code": Code("x"),
    "null": None,
    "code with scope": Code("x", {"a": 1}),
    "regex": Regex("a.b", "i"),
    "binary": b"\x00\xff",
    "binary of another kind": Binary(b"x", 128),
    "binaries": [Binary(b"x" * 16, kind) for kind in range(10)],
    "uuid": Binary(uuid.UUID(int=7).bytes, 4),
    "old uuid": Binary(uuid.UUID(int=7).bytes, 3),
    "decimal": Decimal128("1.50"),
    "decimal NaN": Decimal128("NaN"),
    "least": MinKey(),
    "most": MaxKey(),
    "timestamp": Timestamp(1, 2),
    "reference": DBRef("players", ObjectId(), "other"),
    "object id": ObjectId(),
    "int64": Int64(2**63 - 1),
    "least int64": Int64(-(2**63)),
    "large double": 1.7e308,
    "fraction": 1.5,
    "NaN": math.nan,
    "infinity": -math.inf,
    "true": True,
    "text": "\x00\u202e<b>{Level}%s",
    "empty text": "",
    "date": datetime(1, 1, 1, tzinfo=timezone.utc),
    "late date": DatetimeMS(2**62),
    "early date": DatetimeMS(-(2**62)),
    "list": [[], {}, [Code("x"), None, b"x", math.nan]],
    "texts": ["a", Code("x")],
    "map": {"": {}, "a.b": Code("x"), "c": [MinKey()], "Name": DBRef("x", 1)},
    "slot": {"ItemId": Code("x"), "Quantity": Decimal128("1"), "BagId": b"x", "StatBuffs": [{}]},
}
MAPS = ("Inventory", "Bank", "Spells", "Variables", "Notes")
PATHS = (
    *("Extra", "Level", "Name", "Inventory", "Inventory.0", "Bank.x", "Spells.0", "Spells"),
    *(f"Variables.{VARIABLE}", "Variables", f"Notes.{NOTE}", "DeletedAt", "Roles", "Power.Ban"),
    *("Limits", "Limits.ItemsPerDay", "NeedsSecondFactor", "ClassId", "Slots.1"),
)
# The operations whose entries here have changes: all have arguments.
CHANGING = ("give", "undo", "change-role", "set-variable")
USER_FIELDS = (*BAN, *MUTE, "Name", "CreationDate", "LastSignInAt", "Variables", "FormerNames")
OBJECT_FIELDS = ("Name", "Value", "StackLimit", "TextId", "Folder", "TimeCreated", "Extra")
TYPES = ("item", "spell", "servervariable")


def documents(value, now):
    """Yield documents by collection, with the value in all fields or in their maps."""
    slot, keyed = {"ItemId": ITEM, "Quantity": 3}, {VARIABLE: value}
    slots = {
        **{"0": value, "1": {**slot, "ItemId": value}, "2": {**slot, "Quantity": value}},
        **{"3": {**slot, "BagId": value}, "4": {**slot, "StatBuffs": value}, "x": value},
        **{"5": {**slot, "StatBuffs": [value] * 5}, "6": {**slot, "Extra": value}},
    }
    whole_slot = dict.fromkeys(("ItemId", "Quantity", "BagId", "StatBuffs"), value)
    note = dict.fromkeys(("At", "UserId", "Name", "Text", "IsHidden"), value)
    notes = {NOTE: value, guid(): note}
    held = {"Inventory": slots, "Bank": slots, "Spells": {"0": value}, "Variables": keyed}
    player = make_player()
    others = dict.fromkeys((*FIELDS, "Extra", "CreationDate"), value)
    # MongoDB indexes only one list of these two.
    without = dict.fromkeys((*MAPS, "Exp"))
    players = [player | {name: v for name, v in others.items() if name not in without}]
    players += [make_player() | {"Name": value, "UserId": value, "FormerNames": value}]
    players += [make_player() | {"Exp": value, "FormerNames": [value]}]
    players += [
        make_player() | dict.fromkeys(MAPS, value),
        make_player() | {**held, "Notes": notes},
    ]
    yield "players", players
    gone = {"NameKey": "x", "UserId": value, "DeletedAt": now, "Player": players[0]}
    yield "deleted_players", [{"_id": guid(), **gone}]
    user = make_user() | dict.fromkeys((*USER_FIELDS, "Extra", "Notes"), value)
    yield "users", [user, make_user() | {"Variables": keyed, "Notes": notes}]
    yield (
        "objects",
        [
            make_object(Type=type_) | dict.fromkeys(OBJECT_FIELDS, value)
            for type_ in (*TYPES, "uservariable", "time")
        ],
    )
    member = {"PlayerId": value, "Rank": value}
    members = [value, member, {**member, "PlayerId": player["_id"]}]
    guild = make_guild("A", **dict.fromkeys(("Members", "Variables", "Bank", "Extra"), value))
    parts = {"Members": members, "Bank": slots, "Variables": keyed, "FoundingDate": value}
    yield "guilds", [guild, make_guild("B", **parts), make_guild("C") | {"Name": value}]
    texts = dict.fromkeys(("Kind", "Text", "With"), value)
    yield (
        "game_events",
        [
            make_event(player["_id"], ITEM, **texts, Items=items)
            for items in (value, [value], [whole_slot], [{**slot, "Quantity": value}])
        ],
    )
    yield "history", [*entries(value, player, now)]
    bag = {"_id": guid(), **dict.fromkeys(("SlotCount", "Slots", "Extra"), value)}
    yield "bags", [bag, make_bag(slots, size=9)]
    answered = dict.fromkeys(("Result", "Error", "Reason"), value)
    for kind in ("chat", "letter", "warp", "restart"):
        arguments = dict.fromkeys(("Message", "Items", "MapId", "X", "Y", "Minutes"), value)
        for one in (arguments, {**arguments, "Items": [value, whole_slot]}):
            yield "actions", [make_action(_id=guid(), Kind=kind, Arguments=one, **answered)]
    yield "games", [{"_id": "world", "LookedAt": now, "Extra": value}]


def entries(value, player, now):
    """Yield an entry of each operation."""
    for number, operation in enumerate(all_operations(), 2):
        arguments = operation.arguments.fields if operation.arguments else {}
        kind = "player" if operation.subject == ANY else operation.subject
        pairs = ((value, value), (1, value), (value, 1))
        sides = [{"Before": before, "After": after} for before, after in pairs]
        changes = [{"Path": path, **both} for path in PATHS for both in sides]
        yield make_entry(player, kind, Version=number) | {
            **{"Operation": operation.name, "At": now - timedelta(minutes=1)},
            "Arguments": dict.fromkeys((*operation.history_arguments(arguments), "Extra"), value),
            "Changes": changes if operation.name in CHANGING else [],
        }


def paths(doors, stored):
    """Yield the paths that the GET rows of a table lead to, of all that is stored."""
    ids = {name: [one["_id"] for one in found] for name, found in stored.items()}
    changed = [one["_id"] for one in stored["history"] if one["Changes"]]
    values = {
        **{"player": ids["players"], "user": ids["users"], "guild": ids["guilds"]},
        **{"bag": ids["bags"], "action": ids["actions"], "variable": [VARIABLE]},
        **{"type": TYPES, "item": ids["objects"][:3], "global": ids["objects"][2:3]},
        "entry": [*changed, *ids["history"][:3]],
    }
    for door in doors:
        known = [values.get(name) or [VALUES_OF_DOORS[name]] for name in door.variables]
        for chosen in product(*known) if door.method == "GET" else ():
            yield door.path_with(dict(zip(door.variables, chosen, strict=True)))


@on_mongodb
@pytest.mark.parametrize("name", some(VALUES))
def test_a_value_of_any_type_is_shown_wherever_it_is_stored(
    app, world, staff, db, name, monkeypatch
):
    # An error of a page is an answer, as in production.
    monkeypatch.setattr(app, "testing", False)
    stored, colleague, statuses = {}, visitor(app, world, *Role), {}
    for kind, found in documents(VALUES[name], datetime.now(timezone.utc)):
        db[kind].insert_many(found, bypass_document_validation=True)
        stored.setdefault(kind, []).extend(found)
    for path in paths(CONSOLE_DOORS, stored):
        answer = colleague.get(path.removeprefix("/console"))
        assert answer.data is not None  # a file is read to its end
        statuses[path] = answer.status_code
    for path in paths(DOORS, stored):
        if path.startswith("/api/v1/"):
            statuses[path] = staff(f"GET {path[8:]}", None, None).status_code
    assert {path: status for path, status in statuses.items() if status >= 500} == {}
    assert [*statuses.values()].count(200) > 150


@on_mongodb
@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_a_game_saves_is_stored_as_it_is(app, staff, world, db, name, monkeypatch):
    # The client of the test would sort what it sends.
    monkeypatch.setattr(app.json, "sort_keys", False)
    path = f"players/{world.add_player()['_id']}"
    answer = staff(f"PUT {path}", {"Extra": to_json(VALUES[name])}, None)
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 200:
        stored = db.players.find_one({}, {"_id": 0, "Extra": 1})
        assert bson.encode(stored) == bson.encode({"Extra": VALUES[name]})
    staff(f"GET {path}")

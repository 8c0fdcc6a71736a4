"""docs/game.rst and docs/collections.rst say what is so of fields, indexes and code."""

import json
import re
import textwrap
import unicodedata
from pathlib import Path

import pytest

from app.catalogue.domain import TIME
from app.catalogue.domain import TYPES as OBJECT_TYPES
from app.core.changes import Intent, Origin, new_entry
from app.core.naming import NIL, named_document
from app.players import domain as players
from app.players.items.domain import BAG_SUBJECT
from app.storage.search_fields import history_document
from app.users import domain as users
from app.users.passwords import Passwords
from config.base import Settings
from tests import name_vectors
from tests.collection_plans import NARROWER, PLANS, TYPES
from tests.factories import NOW, make_bag, make_object, make_user, sha256

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = DOCS / "examples"
GUIDE = (DOCS / "game.rst").read_text()
TEXT = GUIDE + "\n" + (DOCS / "collections.rst").read_text()
# A field, its type, what an insert carries, and who writes it.
FIELD = re.compile(
    r"^``(\w+)``  +([\w ]+?)  +(yours|no|zeros|``.+?``)  +(game|service|both)(?:  |$)", re.M
)
# A field and its type, where it is not the game that inserts.
TYPED = re.compile(r"^``(\w+)``  +([\w ]+?)  +\S", re.M)
LISTED = re.compile(r"^   \* - ``(\w+)``\n((?:     .*\n)+)", re.M)
INDEX = re.compile(r"^``(\w+)``  +``(\w+)``  +``([^`]+)``  +(unique|partial|)(?:  |$)", re.M)
WRITTEN_BY_GAMES = {
    "players": "Players",
    "users": "Users",
    "bags": "Bags",
    "objects": "Objects",
    "guilds": "Guilds",
    "game_events": "Game events",
}
# What a game inserts, with the defaults of the code.
NEW = {
    "players": lambda: named_document(
        {**players.defaults(NOW), "Id": NIL, "Name": "Nova", "UserId": NIL}
    ),
    "users": make_user,
    "bags": make_bag,
    "objects": make_object,
    "guilds": dict,
    "game_events": dict,
}
# What a game and the service tell each other.
COMMON = ("actions", "games")


def section(title):
    """Return the part of the page below a title, up to the next one."""
    return re.split(r"^.+\n[-~]{3,}$", TEXT.split(f"\n{title}\n")[1][3:], flags=re.M)[0]


def fields_of(collection):
    return FIELD.findall(section(WRITTEN_BY_GAMES[collection]))


@pytest.mark.parametrize("collection", WRITTEN_BY_GAMES)
def test_the_fields_of_the_page_are_those_of_the_validator_and_of_new_documents(collection):
    shape, new, fields = PLANS[collection].shape, NEW[collection](), fields_of(collection)
    assert sorted(name for name, *_ in fields) == sorted(shape["properties"])
    assert {name for name, _, value, _ in fields if value != "no"} == set(shape["required"])
    for name, type_, value, _ in fields:
        # The service overwrites whatever is stored where any shape is allowed.
        assert shape["properties"][name] in ({}, TYPES.get(type_), NARROWER.get(name)), name
        if value not in ("yours", "no"):
            assert new[name] == (NIL if value == "zeros" else json.loads(value.strip("`"))), name


def test_what_the_game_must_not_write_is_what_the_tables_call_the_services():
    forbidden = set(re.findall(r"``(\w+)``", TEXT.split("fields alone**: ")[1].split(". A")[0]))
    of_the_service = {
        name
        for collection in WRITTEN_BY_GAMES
        for name, _, _, writer in fields_of(collection)
        if writer == "service"
    }
    # Whoever changes a password or an address takes a code back.
    assert forbidden == of_the_service - {"Reset"}


def test_the_page_has_the_fields_of_a_slot_the_flags_of_power_and_the_types_of_objects():
    fields = dict(TYPED.findall(section("Slots")))
    assert set(fields) == set(players.SLOT["properties"])
    for name, type_ in fields.items():
        assert players.SLOT["properties"][name] in (TYPES[type_], NARROWER.get(name))
    flags = section("Users").split("these seven flags")[1]
    assert re.findall(r"^``(\w+)``  ", flags, re.M) == list(users.POWER_FLAGS)
    types = section("Objects").split("``Type`` ")[1].split("\n``Version``")[0]
    assert re.findall(r"``(\w+)``", types) == [*OBJECT_TYPES, TIME]


def test_the_page_has_the_fields_of_actions():
    fields = dict(TYPED.findall(section("Actions and games").split("collection ``games``")[0]))
    for name, shape in PLANS["actions"].shape["properties"].items():
        documented = TYPES[fields[name]]
        assert shape.get("bsonType", documented["bsonType"]) == documented["bsonType"], name


def test_the_page_has_the_fields_of_an_entry():
    fields = dict(TYPED.findall(section("History")))
    origin = Origin(NIL, "Nova", "api", reason="a reason", key="shop")
    intent = Intent("give", origin, key="key", fingerprint="hash", undoes={"_id": ""}, warning="x")
    entry = new_entry(BAG_SUBJECT, {"_id": NIL}, intent, [], 1)
    entry |= {"At": NOW, "Transfer": {}}
    kept = history_document({**entry, "Answer": None}, NOW - NOW.replace(year=2025))
    assert set(fields) == set(kept) >= set(PLANS["history"].shape["properties"])


def test_the_page_names_every_collection_and_the_fields_of_those_to_leave_alone():
    left_alone = dict(LISTED.findall(section("Collections to leave alone")))
    named = {*WRITTEN_BY_GAMES, *COMMON, "history", *left_alone}
    assert set(PLANS) <= named
    assert named - set(PLANS) <= {*COMMON, "events"}
    for name in left_alone.keys() & PLANS.keys() - {"events"}:
        fields = set(re.findall(r"``(\w+)``", left_alone[name]))
        assert set(PLANS[name].shape["properties"]) <= fields, name


def test_the_indexes_of_the_page_are_those_of_the_plans():
    documented = INDEX.findall(section("Indexes"))
    # When actions are forgotten is no business of a game.
    own = {
        (name, index.document["name"], ", ".join(map(key_of, index.document["key"].items())), kind)
        for name in {*WRITTEN_BY_GAMES, "actions"}
        for index in PLANS[name].indexes
        for kind in [kind_of(index.document)]
    }
    assert len(documented) == len(set(documented))
    assert {row for row in own if row[0] != "actions"} <= set(documented)
    assert {row for row in documented if row[0] in (*WRITTEN_BY_GAMES, "actions")} <= own


def key_of(part):
    name, direction = part
    return f"{'-' * (direction < 0)}{name}"


def kind_of(index):
    if index.get("unique"):
        return "unique"
    return "partial" if "partialFilterExpression" in index else ""


# The code

BLOCK = re.compile(r"^ *\.\. code-block:: (\w+)\n\n((?: {4,}.*\n|\n)+)", re.M)


def test_every_piece_of_code_on_the_pages_stands_in_its_file():
    source = (EXAMPLES / "game.py").read_text()
    for language, block in BLOCK.findall(TEXT):
        assert language == "python"
        for piece in re.split(r"\n\n(?=\S)", textwrap.dedent(block).strip("\n")):
            assert f"\n{piece}\n" in source, piece


def test_the_hash_on_the_page_is_that_of_its_password():
    cost = Settings.ARGON2_TIME_COST, Settings.ARGON2_MEMORY_KIB, Settings.ARGON2_PARALLELISM
    passwords = Passwords(*cost)
    (stored,) = re.findall(r"``(\$argon2id\$[^`]+)``", TEXT)
    assert passwords.hash_again(stored, sha256("secret")) is None
    assert passwords.matches(stored, sha256("secret"))
    assert sha256("secret").upper() in TEXT


# Name keys


def test_the_vectors_are_those_of_the_code():
    assert (EXAMPLES / "name_keys.json").read_text() == name_vectors.name_keys()
    vectors = json.loads(name_vectors.name_keys())
    for kind, field in (("Names", "Name"), ("Addresses", "Email")):
        assert len({vector[field] for vector in vectors[kind]}) == len(vectors[kind])
        assert all(vector["Shows"] for vector in vectors[kind])
    assert (EXAMPLES / "name_keys.json").read_text().isascii()


def test_the_table_of_foldings_is_that_of_the_code():
    lines = (EXAMPLES / "case_folding.txt").read_text().splitlines()
    table, own = (
        {line.split(";")[0]: line for line in text if line[0] != "#"}
        for text in (lines, name_vectors.case_folding())
    )
    # Another Unicode may have more letters, and none that folds to something else.
    assert {code: table[code] for code in table.keys() & own.keys()} == {
        code: own[code] for code in table.keys() & own.keys()
    }
    assert all(unicodedata.category(chr(int(code, 16))) == "Cn" for code in table.keys() - own)
    if f"# Unicode {unicodedata.unidata_version}" in lines:
        assert table == own

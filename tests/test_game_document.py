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
def test_the_fields_of_the_page_are_those_of_the_validator(collection):
    shape = PLANS[collection].shape
    fields = fields_of(collection)
    names = [name for name, *_ in fields]
    assert len(names) == len(set(names))
    assert set(names) == set(shape["properties"])
    assert {name for name, _, value, _ in fields if value != "no"} == set(shape["required"])


@pytest.mark.parametrize("collection", WRITTEN_BY_GAMES)
def test_the_types_of_the_page_are_those_of_the_validator(collection):
    properties = PLANS[collection].shape["properties"]
    for name, type_, *_ in fields_of(collection):
        # The service overwrites whatever is stored there.
        assert properties[name] in ({}, TYPES.get(type_), NARROWER.get(name)), name


@pytest.mark.parametrize("collection", WRITTEN_BY_GAMES)
def test_the_values_of_the_page_are_those_of_new_documents(collection):
    new = NEW[collection]()
    for name, _, value, _ in fields_of(collection):
        if value == "zeros":
            assert new[name] == NIL
        elif value not in ("yours", "no"):
            assert new[name] == json.loads(value.strip("`")), name


def test_an_insert_of_a_player_carries_as_many_fields_as_the_page_says():
    (count,) = re.findall(r"carries all (\d+) fields", TEXT)
    assert int(count) == len(PLANS["players"].shape["required"])


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


def test_the_page_has_the_fields_of_a_slot():
    fields = dict(TYPED.findall(section("Slots")))
    assert set(fields) == set(players.SLOT["properties"])
    for name, type_ in fields.items():
        assert players.SLOT["properties"][name] in (TYPES[type_], NARROWER.get(name))
    assert players.SLOT["required"] == ["ItemId", "Quantity"]


def test_the_page_has_the_flags_of_power():
    flags = section("Users").split("these seven flags")[1]
    assert re.findall(r"^``(\w+)``  ", flags, re.M) == list(users.POWER_FLAGS)


def test_the_page_has_the_types_of_objects():
    row = section("Objects").split("``Type`` ")[1].split("\n``Version``")[0]
    assert re.findall(r"``(\w+)``", row) == [*OBJECT_TYPES, TIME]


@pytest.mark.parametrize("collection", COMMON)
def test_the_page_has_the_fields_of_actions_and_games(collection):
    table = section("Actions and games").split(f"collection ``{collection}``")[1]
    fields = dict(TYPED.findall(table.split("The collection")[0]))
    assert "_id" in fields
    if collection in PLANS:
        properties = PLANS[collection].shape["properties"]
        assert set(properties) <= set(fields)
        for name, shape in properties.items():
            assert bson_types(shape) in (set(), bson_types(TYPES[fields[name]])), name


def bson_types(shape):
    """Return the types that a shape allows; none where it does not say."""
    types = shape.get("bsonType", ())
    return {types} if isinstance(types, str) else set(types)


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
    collections = {*WRITTEN_BY_GAMES, *(PLANS.keys() & set(COMMON))}
    found = {row[:2]: row[2:] for row in documented if row[0] in collections}
    assert len(documented) == len({row[:2] for row in documented})
    # When actions are forgotten is no business of a game.
    assert found == {
        (name, index.document["name"]): (keys_of(index), kind_of(index))
        for name in collections
        for index in PLANS[name].indexes
        if not (name in COMMON and (name, index.document["name"]) not in found)
    }


def keys_of(index):
    return ", ".join(f"{'-' * (to < 0)}{key}" for key, to in index.document["key"].items())


def kind_of(index):
    if index.document.get("unique"):
        return "unique"
    return "partial" if "partialFilterExpression" in index.document else ""


# The code


BLOCK = re.compile(r"^ *\.\. code-block:: (\w+)\n\n((?: {4,}.*\n|\n)+)", re.M)
EXAMPLE_PROGRAMS = ("game.py", "game.go", "Game.cs")


def test_every_piece_of_code_on_the_pages_stands_in_its_file():
    source = (EXAMPLES / "game.py").read_text()
    for language, block in BLOCK.findall(TEXT):
        assert language == "python"
        for piece in re.split(r"\n\n(?=\S)", textwrap.dedent(block).strip("\n")):
            assert f"\n{piece}\n" in source, piece


def test_each_of_the_six_things_has_code_on_the_page_and_every_language_is_linked():
    things = GUIDE.split("\nThe six things\n")[1].split("\nWho is online\n---")[0]
    parts = re.split(r"^.+\n~{3,}$", things, flags=re.M)
    assert len(parts) == 7
    assert all(BLOCK.findall(part) for part in parts)
    assert all(f"<examples/{name}>`_" in GUIDE for name in EXAMPLE_PROGRAMS)


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
    table = dict(map(folding, (line for line in lines if not line.startswith("#"))))
    own = dict(map(folding, (line for line in name_vectors.case_folding() if line[0] != "#")))
    # Another Unicode may have more letters, and none that folds to something else.
    assert {code: table[code] for code in table.keys() & own.keys()} == {
        code: own[code] for code in table.keys() & own.keys()
    }
    assert set(map(is_assigned, table.keys() - own.keys())) <= {False}
    if f"# Unicode {unicodedata.unidata_version}" in lines:
        assert table == own


def folding(line):
    code, _, to, _ = map(str.strip, line.split(";"))
    return int(code, 16), "".join(chr(int(each, 16)) for each in to.split())


def is_assigned(code):
    return unicodedata.category(chr(code)) != "Cn"


@pytest.mark.parametrize("name", ["new_user.json", "new_player.json"])
def test_the_documents_to_begin_with_are_linked_and_used(name):
    assert f"<examples/{name}>`_" in TEXT
    assert all(name in (EXAMPLES / file).read_text() for file in EXAMPLE_PROGRAMS)

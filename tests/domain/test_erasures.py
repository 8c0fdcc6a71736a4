"""Erased people: their accounts are closed, and their names found in texts by digests."""

from __future__ import annotations

from itertools import product

from app.privacy.domain import ERASED, close, mask
from app.storage.mentions import digest_of, find_names, shape_of
from tests.factories import NOW, make_key, make_user, with_keys

NAMES = [
    "Zoe",
    "Zoe Bar",
    "-Zoe-",
    "O'Neil",
    "zoe.bar@mail.example",
    "Straße",
    "E\u0301loi\u0308se",
    "हिन्दी",
]


TEXTS = ["{}", "as {} asked", "({}),", "_{}_ and {}.", "no {}s", "anti{}", "", "{}\n{}"]
TEXTS.append("Zoe, Bar")
SPELLINGS = [str, str.upper, lambda name: name.replace(" ", " \t ")]


def test_a_name_is_found_where_masking_hides_it():
    for name, text, spell in product(NAMES, TEXTS, SPELLINGS):
        assert_found_where_hidden(name, text.replace("{}", spell(name)))


def assert_found_where_hidden(name, text):
    record = {"_id": "erased", "NameShapes": [shape_of(name)], "NameDigests": [digest_of(name)]}
    found = find_names([{"Result": [text]}], [record]).get("erased", [])
    hidden = mask(text, [name])
    assert bool(found) >= (ERASED in hidden), (name, text)
    # Names are unique by their folded case, in which STRASSE is Straße; masking knows it not.
    assert mask(text, found) == hidden or "STRASSE" in text, name


def test_a_name_without_a_word_has_no_shape():
    assert shape_of("***") is None


def test_a_closed_account_has_no_way_in_and_stays_closed():
    user = with_keys(make_user("hash", Reset={"Code": "ABCDEFGH"}), shop=make_key("secret"))
    user["Power"] |= {"Api": True, "Editor": True}
    change = close(user, now=NOW)
    closed = {**user, **change.fields}
    assert not any(closed["Power"].values())
    ways_in = ("PasswordHash", "Reset", "Keys", "KeyDigests")
    assert [closed[way] for way in ways_in] == [None, None, {}, []]
    assert (closed["PasswordVersion"], change.answer) == (1, {"Keys": 1})
    assert close(closed, now=NOW).fields == {}

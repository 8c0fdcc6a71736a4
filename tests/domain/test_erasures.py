"""Erased people: their accounts are closed, and their names masked in texts."""

from __future__ import annotations

import pytest

from app.privacy.domain import close, mask
from tests.factories import NOW, make_key, make_user, with_keys


@pytest.mark.parametrize(
    ("name", "text", "masked"),
    [
        (
            "Zoe",
            "as ZOE asked, (zoe), _Zoe_ and Zoe.",
            "as (erased) asked, ((erased)), _(erased)_ and (erased).",
        ),
        ("Zoe", "no Zoes, antizoe", "no Zoes, antizoe"),
        ("Zoe Bar", "Zoe \t bar\nZoe, Bar", "(erased)\nZoe, Bar"),
        ("-Zoe-", "a -zoe- and Zoe", "a (erased) and Zoe"),
        ("zoe.bar@mail.example", "to Zoe.Bar@mail.example!", "to (erased)!"),
        ("E\u0301loi\u0308se", "\u00c9lo\u00efse", "(erased)"),
        ("Straße", "STRASSE 3", "STRASSE 3"),
    ],
)
def test_a_name_is_masked_as_whole_words_in_any_case(name, text, masked):
    assert mask(text, [name]) == masked


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

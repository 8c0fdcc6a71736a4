from __future__ import annotations

import pytest

import config
from app.core.errors import Invalid
from app.players.domain import check_name
from app.users import passwords
from app.users.domain import is_email, is_username
from app.users.passwords import Passwords
from tests.factories import sha256

CHEAP = Passwords(1, 64, 1)


def test_a_password_is_stored_as_argon2id_and_matches_in_either_case():
    stored = CHEAP.hash(sha256("secret"))
    assert stored.startswith("$argon2id$")
    assert CHEAP.hash(sha256("secret")) != stored
    assert CHEAP.matches(stored, sha256("secret").upper())
    assert CHEAP.matches(stored, sha256("secret"))
    assert not CHEAP.matches(stored, sha256("Secret"))
    assert CHEAP.hash_again(stored, sha256("secret")) is None


def test_what_can_be_set_can_be_paid():
    assert config.MAX_ARGON2_WORK == passwords.MOST_WORK


def test_letters_and_digits_of_any_script_make_a_username_and_nothing_else_does():
    names = ["ab", "Zoë", "Zoe\u0308", "Łukasz9", "玩家一", "a" * 20, "Игрок1"]
    others = ["", "a", "a" * 21, "a b", "a_b", "a/b", "a\x00", "a\n", "a.b", "²³"]
    assert [name for name in [*names, *others] if is_username(name)] == names


# Letters to Unicode, and nothing at all to whoever looks: fillers, blanks, joiners.
UNSEEN = [
    *("\u3164", "\u115f", "\u1160", "\uffa0", "\u034f", "\u200b", "\u200d", "\u2060", "\u00ad"),
    *("\u17b4", "\ufe0f", "\u180e", "\U000e0041", "\u2800", "\U00013441", "\U00016fe4"),
]


def test_letters_that_nobody_sees_make_no_username():
    names = [name for one in UNSEEN for name in (one * 2, f"Ann{one}", f"An{one}n")]
    assert [ascii(name) for name in names if is_username(name)] == []


def test_a_name_is_imported_if_something_is_seen_in_it():
    for name in ("\u2764\ufe0f", "A\u3164B", "e\u0301", "ក\u17b4", "Sir Bob"):
        check_name(name)
    for name in (*UNSEEN, " \u3164 ", "\u0301\u0301", "\u3164\u0301"):
        with pytest.raises(Invalid):
            check_name(name * 2)


PLAUSIBLE = ["a@b.co", "first.last+tag@sub.example.com", "x@bücher.example"]
IMPLAUSIBLE = [
    *("zoë@example.com", "a@ü..co", "a@" + "ü" * 64 + ".de", "a\x80@b.co", "\u202e@b.co"),
    *("a@b.co\u200b", "a@exa\u00admple.com"),
    *("", "a", "a@b", "@b.co", "a@.co", "a@b.", "a@b.c", "a b@c.de", "a@b@c.de", "a@b.co\n"),
    *("a@b.co\r\nBcc: x@y.zz", "<a@b.co>", "a@b.co,c@d.ef", "a" * 65 + "@b.co"),
    "a@" + "b" * 250 + ".co",
]


def test_plausible_addresses_are_taken_and_no_others():
    assert [email for email in [*PLAUSIBLE, *IMPLAUSIBLE] if is_email(email)] == PLAUSIBLE

"""The rules of accounts: codes, passwords, what is shown."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Conflict, InvalidCredentials
from app.users.domain import (
    CODE_LETTERS,
    ResetCodes,
    change_email,
    changed_power,
    email_key,
    new_code,
    queried_power,
    redeem_code,
    remember_code,
    replace_password,
    valid_code,
)
from tests.factories import NOW, make_user

LIFETIME = 1800
CODE = "ABCDEFGH"
RESET = {"Code": CODE, "ExpiresAt": NOW + timedelta(seconds=LIFETIME), "Failures": 0}
USER = make_user("old hash", Reset=RESET)


def redeem(user, code, now=NOW):
    change = redeem_code(user, code=code, now=now, make_hash=lambda: "new hash")
    return {**user, **change.fields}, change.answer


def test_codes_are_long_and_without_look_alikes():
    derived = [ResetCodes("signing key").of("alice", f"key {number}") for number in range(2000)]
    for codes in ([new_code() for _ in range(2000)], derived):
        assert len(set(codes)) == 2000
        assert {len(code) for code in codes} == {8}
        counts = Counter("".join(codes))
        # Each of the 32 letters comes 500 times, give or take.
        assert set(counts) == set(CODE_LETTERS)
        assert all(350 < count < 650 for count in counts.values())
    assert not set(CODE_LETTERS) & set("IO01")


def test_the_code_of_a_key_is_the_same_each_time_and_anothers_differs():
    codes = ResetCodes("signing key")
    code = codes.of("alice", "k1")
    assert code == ResetCodes("signing key").of("alice", "k1")
    others = {codes.of("alice", "k2"), codes.of("bob", "k1"), ResetCodes("x").of("alice", "k1")}
    assert len({code, *others}) == 4


def test_a_code_is_good_once():
    after, is_right = redeem(USER, CODE.lower())
    assert is_right
    assert (after["PasswordHash"], after["PasswordVersion"], after["Reset"]) == (
        *("new hash", 1, None),
    )
    assert redeem(after, CODE) == (after, False)


@given(st.integers(-10, LIFETIME * 2))
def test_a_code_is_good_within_its_lifetime(seconds):
    _, is_right = redeem(USER, CODE, NOW + timedelta(seconds=seconds))
    assert is_right == (seconds < LIFETIME)


@pytest.mark.parametrize("wrong", [0, 4, 5, 6])
def test_five_wrong_tries_void_a_code(wrong):
    user = USER
    for code in ("WRONGONE", "", "é", "ABCDEFG", "ABCDEFGHI", "\x00")[:wrong]:
        change = redeem_code(user, code=code, now=NOW, make_hash=None)  # nothing is hashed
        assert not change.answer
        user = {**user, **change.fields}
    assert user["PasswordHash"] == "old hash"
    assert (valid_code(user, NOW) == CODE) == (wrong < 5)
    assert redeem(user, CODE)[1] == (wrong < 5)


@pytest.mark.parametrize("changed", [{"EmailKey": "other@example.com"}, {"PasswordVersion": 1}])
def test_a_code_that_went_to_a_former_account_is_not_accepted(changed):
    with pytest.raises(Conflict):
        remember_code({**USER, **changed}, field="Reset", code=RESET, mailed=USER)


@pytest.mark.parametrize(
    "spelling",
    ["GINA@example.com", "gina@EXAMPLE.com", "gina@ｅxample.com", "gina@exam\u00adple.com"],
)
def test_one_mailbox_has_one_key(spelling):
    assert email_key(spelling) == email_key("gina@example.com")


def test_a_change_voids_the_code():
    assert change_email(USER, new="new@example.com").fields["Reset"] is None
    changed = replace_password(USER, password_hash="x", checked="old hash").fields
    assert (changed["Reset"], changed["PasswordVersion"]) == (None, 1)


def test_a_change_that_was_checked_against_another_password_is_refused():
    with pytest.raises(InvalidCredentials):
        change_email(USER, new="new@example.com", checked="another hash")
    with pytest.raises(InvalidCredentials):
        replace_password(USER, password_hash="x", checked="another hash")


def test_the_two_sets_of_flags_are_those_of_the_contract():
    power = {**USER["Power"], "Ban": True, "ApiPersonalInformation": True}
    shared = {"Editor": False, "Ban": True, "Kick": False, "Mute": False, "Api": False}
    assert queried_power(power) == {**shared, "PersonalInformation": True}
    assert changed_power(power) == {
        **shared,
        **{"ApiPersonalInformation": True, "ApiUserManagement": False},
    }

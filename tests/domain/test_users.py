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


def with_code(**overrides):
    user = make_user("old hash")
    return {
        **user,
        **remember_code(user, field="Reset", code=RESET, mailed=user).fields,
        **overrides,
    }


def redeem(user, code, now=NOW):
    change = redeem_code(user, code=code, now=now, make_hash=lambda: "new hash")
    return {**user, **change.fields}, change.answer


def test_codes_are_long_and_without_look_alikes():
    codes = {new_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(len(code) == 8 and set(code) <= set(CODE_LETTERS) for code in codes)
    assert not set(CODE_LETTERS) & set("IO01")


def test_the_code_of_a_key_is_the_same_each_time_and_anothers_differs():
    codes = ResetCodes("signing key")
    code = codes.of("alice", "k1")
    assert code == ResetCodes("signing key").of("alice", "k1")
    others = {codes.of("alice", "k2"), codes.of("bob", "k1"), ResetCodes("x").of("alice", "k1")}
    assert len({code, *others}) == 4


def test_the_codes_of_keys_look_like_any_other():
    made = [ResetCodes("signing key").of("alice", f"key {number}") for number in range(2000)]
    assert all(len(code) == 8 and set(code) <= set(CODE_LETTERS) for code in made)
    assert len(set(made)) == 2000
    counts = Counter("".join(made))
    # Each of the 32 letters comes 500 times, give or take.
    assert set(counts) == set(CODE_LETTERS)
    assert all(350 < count < 650 for count in counts.values())


def test_a_code_is_good_once():
    after, is_right = redeem(with_code(), CODE.lower())
    assert is_right
    assert (after["PasswordHash"], after["PasswordVersion"], after["Reset"]) == (
        "new hash",
        1,
        None,
    )
    again, is_right = redeem(after, CODE)
    assert not is_right
    assert again == after


@given(st.integers(-10, LIFETIME * 2))
def test_a_code_is_good_within_its_lifetime(seconds):
    _, is_right = redeem(with_code(), CODE, NOW + timedelta(seconds=seconds))
    assert is_right == (seconds < LIFETIME)


@given(st.integers(0, 8))
def test_five_wrong_tries_void_a_code(wrong):
    user = with_code()
    for _ in range(wrong):
        user, is_right = redeem(user, "WRONGONE")
        assert not is_right
        assert user["PasswordHash"] == "old hash"
    assert (valid_code(user, NOW) == CODE) == (wrong < 5)
    assert redeem(user, CODE)[1] == (wrong < 5)


@pytest.mark.parametrize("code", ["", "é", "ABCDEFG", "ABCDEFGHI", "\x00"])
def test_an_odd_code_is_a_wrong_one(code):
    assert not redeem(with_code(), code)[1]


def test_the_password_is_hashed_only_for_a_right_code():
    def never():
        raise AssertionError("hashed for nothing")

    redeem_code(with_code(), code="WRONGONE", now=NOW, make_hash=never)


@pytest.mark.parametrize("changed", [{"EmailKey": "other@example.com"}, {"PasswordVersion": 1}])
def test_a_code_that_went_to_a_former_account_is_not_accepted(changed):
    user = make_user()
    with pytest.raises(Conflict):
        remember_code({**user, **changed}, field="Reset", code=RESET, mailed=user)


@pytest.mark.parametrize(
    "spelling",
    ["GINA@example.com", "gina@EXAMPLE.com", "gina@ｅxample.com", "gina@exam\u00adple.com"],
)
def test_one_mailbox_has_one_key(spelling):
    assert email_key(spelling) == email_key("gina@example.com")


def test_a_change_voids_the_code():
    user = with_code()
    assert change_email(user, new="new@example.com").fields["Reset"] is None
    assert replace_password(user, password_hash="x").fields["Reset"] is None


def test_a_change_that_was_checked_against_another_password_is_refused():
    user = with_code()
    with pytest.raises(InvalidCredentials):
        change_email(user, new="new@example.com", checked="another hash")
    with pytest.raises(InvalidCredentials):
        replace_password(user, password_hash="x", checked="another hash")
    assert (
        replace_password(user, password_hash="x", checked="old hash").fields["PasswordVersion"] == 1
    )


def test_the_two_sets_of_flags_are_those_of_the_contract():
    power = {**make_user()["Power"], "Ban": True, "ApiPersonalInformation": True}
    assert queried_power(power) == {
        **{"Editor": False, "Ban": True, "Kick": False, "Mute": False, "Api": False},
        "PersonalInformation": True,
    }
    assert changed_power(power) == {
        **{"Editor": False, "Ban": True, "Kick": False, "Mute": False, "Api": False},
        **{"ApiPersonalInformation": True, "ApiUserManagement": False},
    }

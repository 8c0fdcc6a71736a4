"""The second factor: which codes count, and each of them once."""

from datetime import datetime, timedelta, timezone
from functools import partial

import pyotp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.users.second_factor.domain import (
    FIELD,
    RECOVERY_CODES,
    CodeRefused,
    HasFactor,
    NoFactor,
    new_recovery_codes,
    recovery_codes_left,
    renew_recovery_codes,
    reset,
    set_up,
    switch_off,
    use_code,
)
from app.users.second_factor.vault import Vault
from tests.factories import NOW, make_factor

STEP = timedelta(seconds=30)
# The key of the examples in RFC 6238.
SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
KEY = "one key of at least 32 characters"
VAULT = Vault([KEY], NOW.timestamp)
CODES = new_recovery_codes()


def code_at(steps):
    """Return the code that the app shows some steps from now."""
    return pyotp.TOTP(SECRET).at(NOW, counter_offset=steps)


def account():
    return {FIELD: make_factor(SECRET, VAULT, CODES)}


def used(user, code, now=NOW, cipher=VAULT):
    return {**user, **use_code(user, code=code, now=now, cipher=cipher).fields}


@pytest.mark.parametrize(
    ("at", "code"), [(59, "287082"), (1111111109, "081804"), (20000000000, "353130")]
)
def test_codes_are_those_of_the_rfc(at, code):
    now = datetime.fromtimestamp(at, timezone.utc)
    assert used(account(), code, now)[FIELD]["LastStep"] == at // 30


def test_a_clock_may_be_one_step_off_and_beyond_that_the_sentence_names_it():
    for steps in (-1, 0, 1):
        assert used(account(), code_at(steps))
    for steps in (-10, -2, 2):
        with pytest.raises(CodeRefused, match="check the clock"):
            used(account(), code_at(steps))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-2, 2)), max_size=30))
def test_each_step_is_accepted_once_however_codes_and_times_are_mixed(tries):
    user, accepted = account(), []
    for passed, drift in tries:
        try:
            user = used(user, code_at(passed + drift), NOW + passed * STEP)
        except CodeRefused:
            continue
        accepted.append(user[FIELD]["LastStep"])
        assert abs(drift) <= 1
    assert accepted == sorted(set(accepted))


def test_a_recovery_code_works_once_in_any_spelling_and_leaves_an_entry():
    user = account()
    assert (len(set(CODES)), recovery_codes_left(user)) == (RECOVERY_CODES, RECOVERY_CODES)
    change = use_code(user, code=f" {CODES[3].lower()} ", now=NOW, cipher=VAULT)
    assert change.has_entry
    left = {**user, **change.fields}
    for code in (CODES[3], CODES[3].replace("-", "")):
        with pytest.raises(CodeRefused, match="wrong"):
            used(left, code)
    assert recovery_codes_left(used(left, CODES[4])) == RECOVERY_CODES - 2


@pytest.mark.parametrize(
    "change", [use_code, switch_off, partial(renew_recovery_codes, recovery=CODES)]
)
def test_nothing_is_changed_by_what_is_no_code(change):
    for code in ("", " ", "000000", "12345", "١٢٣٤٥٦", "\ud800", "A" * 9999, "-"):
        with pytest.raises(CodeRefused, match="wrong"):
            change(account(), code=code, now=NOW, cipher=VAULT)


def test_new_recovery_codes_replace_all():
    codes, user = new_recovery_codes(), account()
    user |= renew_recovery_codes(user, code=CODES[0], recovery=codes, now=NOW, cipher=VAULT).fields
    for code in CODES:
        with pytest.raises(CodeRefused, match="wrong"):
            used(user, code)
    assert recovery_codes_left(used(user, codes[0])) == RECOVERY_CODES - 1


def test_it_is_switched_off_with_a_code_and_reset_without():
    assert switch_off(account(), code=code_at(0), now=NOW, cipher=VAULT).fields == {FIELD: None}
    assert reset(account()).fields == {FIELD: None}
    for user in ({}, {FIELD: None}):
        with pytest.raises(NoFactor):
            reset(user)


def test_it_is_set_up_only_with_a_right_code_and_never_over_another():
    user, facts = {"PasswordVersion": 6}, {"secret": SECRET, "recovery": CODES}
    prove = partial(set_up, **facts, now=NOW, cipher=VAULT)
    with pytest.raises(CodeRefused, match="wrong"):
        prove(user, code=code_at(10))
    with pytest.raises(HasFactor):
        prove(account(), code=code_at(0))
    user |= prove(user, code=code_at(0)).fields
    # Tokens of the former version are void.
    assert user["PasswordVersion"] == 7
    with pytest.raises(CodeRefused, match="used"):
        used(user, code_at(0))
    stored = str(user[FIELD])
    secrets = [SECRET, *CODES, *(code.replace("-", "") for code in CODES)]
    assert [secret for secret in secrets if secret in stored] == []


def test_a_former_key_still_decrypts_and_use_encrypts_with_the_new_one():
    new_key = "another key of at least 32 letters"
    both, new = Vault([new_key, KEY], NOW.timestamp), Vault([new_key], NOW.timestamp)
    with pytest.raises(CodeRefused, match="recovery code"):
        used(account(), code_at(0), cipher=new)
    user = used(account(), code_at(0), cipher=both)
    assert used(user, code_at(1), NOW + STEP, cipher=new)
    # Recovery codes need no key.
    assert used(account(), CODES[0], cipher=new)


def test_what_is_sealed_opens_for_its_purpose_and_for_its_time():
    now = [NOW.timestamp()]
    vault = Vault([KEY], lambda: now[0])
    sealed = vault.seal("step", "alice", "7")
    assert vault.unseal("step", sealed, 300) == ["alice", "7"]
    for purpose, text in (("other", sealed), ("step", sealed[:-4]), ("step", ""), ("step", "é")):
        with pytest.raises(CodeRefused):
            vault.unseal(purpose, text, 300)
    now[0] += 301
    with pytest.raises(CodeRefused):
        vault.unseal("step", sealed, 300)

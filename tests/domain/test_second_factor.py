"""The second factor: which codes count, and each of them once."""

from datetime import datetime, timedelta, timezone

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

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
STEP = timedelta(seconds=30)
# The key of the examples in RFC 6238.
SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
VAULT = Vault(["one key of at least 32 characters"], NOW.timestamp)
CODES = new_recovery_codes()


def code_at(when, secret=SECRET):
    return pyotp.TOTP(secret).at(when)


def account(**factor):
    """Return an account whose second factor was set up an hour ago."""
    user = {"_id": "alice", FIELD: None, "PasswordVersion": 6}
    change = set_up(
        user,
        **{"secret": SECRET, "code": code_at(NOW - 120 * STEP), "recovery": CODES},
        **{"now": NOW - 120 * STEP, "cipher": VAULT},
    )
    return {**user, FIELD: {**change.fields[FIELD], **factor}}


def used(user, code, now=NOW, cipher=VAULT):
    change = use_code(user, code=code, now=now, cipher=cipher)
    return {**user, **change.fields}


@pytest.mark.parametrize(
    ("at", "code"), [(59, "287082"), (1111111109, "081804"), (20000000000, "353130")]
)
def test_codes_are_those_of_the_rfc(at, code):
    now = datetime.fromtimestamp(at, timezone.utc)
    user = {FIELD: {"Secret": VAULT.seal(FIELD, SECRET), "LastStep": 0, "RecoveryCodes": []}}
    assert used(user, code, now)[FIELD]["LastStep"] == at // 30


@pytest.mark.parametrize(
    ("steps", "is_right"), [(-10, False), (-2, False), (-1, True), (0, True), (1, True), (2, False)]
)
def test_a_clock_may_be_one_step_off_and_at_five_minutes_the_sentence_names_the_clock(
    steps, is_right
):
    code = code_at(NOW + steps * STEP)
    if is_right:
        assert used(account(), code)
    else:
        with pytest.raises(CodeRefused, match="check the clock"):
            used(account(), code)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(-2, 2)), max_size=30))
def test_each_step_is_accepted_once_however_codes_and_times_are_mixed(tries):
    user, accepted = account(), []
    for passed, drift in tries:
        now = NOW + passed * STEP
        try:
            user = used(user, code_at(now + drift * STEP), now)
        except CodeRefused:
            continue
        accepted.append(user[FIELD]["LastStep"])
        assert abs(drift) <= 1
    assert accepted == sorted(set(accepted))


def test_a_used_code_and_the_one_that_set_it_up_are_refused():
    user = used(account(), code_at(NOW))
    for code in (code_at(NOW), code_at(NOW - STEP)):
        with pytest.raises(CodeRefused, match="already used"):
            used(user, code)
    with pytest.raises(CodeRefused, match="used"):
        used(account(), code_at(NOW - 120 * STEP), NOW - 120 * STEP)


def test_a_recovery_code_works_once_in_any_spelling_and_leaves_an_entry():
    user = account()
    assert (len(set(CODES)), recovery_codes_left(user)) == (RECOVERY_CODES, RECOVERY_CODES)
    change = use_code(user, code=f" {CODES[3].lower()} ", now=NOW, cipher=VAULT)
    assert change.has_entry
    left = {**user, **change.fields}
    assert recovery_codes_left(left) == RECOVERY_CODES - 1
    for code in (CODES[3], CODES[3].replace("-", "")):
        with pytest.raises(CodeRefused, match="wrong"):
            used(left, code)
    assert recovery_codes_left(used(left, CODES[4])) == RECOVERY_CODES - 2


@pytest.mark.parametrize("code", ["", " ", "000000", "12345", "١٢٣٤٥٦", "\ud800", "A" * 9999, "-"])
def test_what_is_no_code_is_refused(code):
    with pytest.raises(CodeRefused, match="wrong"):
        used(account(), code)


def test_new_recovery_codes_replace_all_and_need_a_code():
    codes = new_recovery_codes()
    renew = {"recovery": codes, "now": NOW, "cipher": VAULT}
    with pytest.raises(CodeRefused, match="wrong"):
        renew_recovery_codes(account(), code="000000", **renew)
    user = account()
    user |= renew_recovery_codes(user, code=CODES[0], **renew).fields
    assert recovery_codes_left(user) == RECOVERY_CODES
    for code in CODES:
        with pytest.raises(CodeRefused, match="wrong"):
            used(user, code)
    assert used(user, codes[0])


def test_it_is_switched_off_with_a_code_and_reset_without():
    with pytest.raises(CodeRefused, match="wrong"):
        switch_off(account(), code="000000", now=NOW, cipher=VAULT)
    assert switch_off(account(), code=code_at(NOW), now=NOW, cipher=VAULT).fields == {FIELD: None}
    assert reset(account()).fields == {FIELD: None}
    for user in ({}, {FIELD: None}):
        with pytest.raises(NoFactor):
            reset(user)


def test_it_is_set_up_only_with_a_right_code_and_never_over_another():
    facts = {"secret": SECRET, "recovery": CODES, "now": NOW, "cipher": VAULT}
    user = {"PasswordVersion": 6}
    with pytest.raises(CodeRefused, match="wrong"):
        set_up(user, code=code_at(NOW + 10 * STEP), **facts)
    # Tokens of the former version are void.
    assert set_up(user, code=code_at(NOW), **facts).fields["PasswordVersion"] == 7
    with pytest.raises(HasFactor):
        set_up(account(), code=code_at(NOW), **facts)


def test_nothing_that_is_stored_shows_the_secret_or_a_recovery_code():
    stored = str(account()[FIELD])
    assert SECRET not in stored
    assert not [code for code in CODES if code in stored or code.replace("-", "") in stored]


def test_a_former_key_still_decrypts_and_use_encrypts_with_the_new_one():
    keys = ["another key of at least 32 letters", "one key of at least 32 characters"]
    both, new = Vault(keys, NOW.timestamp), Vault(keys[:1], NOW.timestamp)
    with pytest.raises(CodeRefused, match="recovery code"):
        used(account(), code_at(NOW), cipher=new)
    user = used(account(), code_at(NOW), cipher=both)
    assert used(user, code_at(NOW + STEP), NOW + STEP, cipher=new)
    # Recovery codes need no key.
    assert used(account(), CODES[0], cipher=new)


def test_what_is_sealed_opens_for_its_purpose_and_for_its_time():
    now = [NOW.timestamp()]
    vault = Vault(["one key of at least 32 characters"], lambda: now[0])
    sealed = vault.seal("step", "alice", "7")
    assert vault.unseal("step", sealed, 300) == ["alice", "7"]
    for purpose, text in (("other", sealed), ("step", sealed[:-4]), ("step", ""), ("step", "é")):
        with pytest.raises(CodeRefused):
            vault.unseal(purpose, text, 300)
    now[0] += 301
    with pytest.raises(CodeRefused):
        vault.unseal("step", sealed, 300)

"""The second factor of an account: codes of an app (RFC 6238), and recovery codes. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyotp.totp import TOTP
from pyotp.utils import strings_equal

from app.core.changes import Change
from app.core.errors import Conflict, Forbidden, Invalid
from app.core.types import Document
from app.users.domain import new_code, require_not_staff, revoke_tokens, with_email

FIELD = "SecondFactor"
READS = (FIELD, "PasswordVersion")
STEP_SECONDS = 30
# The clock of a phone may be one step behind or ahead.
DRIFT = 1
RECOVERY_CODES = 10
WRONG = (
    "The code is wrong or expired. Type the one that your app shows now. If it is refused again, "
    "check the clock of your phone: set its time automatically."
)
USED = "This code was already used. Wait until your app shows the next one."
# The key that encrypted the secret is neither QM_SECRET_KEY nor one of its fallbacks.
UNREADABLE = (
    "The codes of your app cannot be checked, because the key of this service has changed. Use a "
    "recovery code, or ask an administrator to reset your second factor."
)


class CodeRefused(Invalid):
    """A code that does not prove the second factor."""

    code = "INVALID"


class HasFactor(Conflict):
    sentence = "This account already has a second factor: switch it off first."


class NoFactor(Conflict):
    sentence = "This account has no second factor."


class OwnFactor(Conflict):
    """Whoever steals a session must not get rid of the second factor."""

    sentence = "Nobody can reset their own second factor: switch it off with a code instead."


class OwnSignIn(Forbidden):
    sentence = "Nobody asks for or approves a reset of their own sign-in: ask colleagues."


def has_factor(user: Document) -> bool:
    return user.get(FIELD) is not None


def new_recovery_codes() -> list[str]:
    """Return codes of 4 groups of 4 letters, which are 80 random bits: they need no slow hash."""
    texts = [new_code() + new_code() for _ in range(RECOVERY_CODES)]
    return ["-".join(re.findall("." * 4, text)) for text in texts]


def set_up(
    user: Document,
    *,
    secret: str,
    code: str,
    recovery: Iterable[str],
    now: datetime,
    cipher: Any,
) -> Change:
    """Switch the second factor on, if the code proves that the app has the secret.

    As a new password does, it ends all sign-ins: they began without a code.
    """
    if has_factor(user):
        raise HasFactor
    factor = {
        "Secret": cipher.seal(FIELD, secret),
        "LastStep": _step_of(secret, code, now, 0),
        "RecoveryCodes": [*map(_digest, recovery)],
        "Since": now,
    }
    return Change({FIELD: factor, **revoke_tokens(user).fields}, None)


def use_code(user: Document, *, code: str, now: datetime, cipher: Any) -> Change:
    """Accept a code of the app or a recovery code, each of them once.

    The use of a recovery code has a history entry; that of an app's code would be one a day.
    """
    factor, digest = _factor_of(user), _digest(code)
    if digest in factor["RecoveryCodes"]:
        left = [other for other in factor["RecoveryCodes"] if other != digest]
        return Change({FIELD: {**factor, "RecoveryCodes": left}}, None)
    (secret,) = cipher.unseal(FIELD, factor["Secret"])
    step = _step_of(secret, code, now, factor["LastStep"])
    # Sealing it again encrypts it with the current key.
    used = {**factor, "LastStep": step, "Secret": cipher.seal(FIELD, secret)}
    return Change({FIELD: used}, None, has_entry=False)


def renew_recovery_codes(
    user: Document, *, code: str, recovery: Iterable[str], now: datetime, cipher: Any
) -> Change:
    """Replace all recovery codes; the code proves who asks."""
    used = use_code(user, code=code, now=now, cipher=cipher).fields[FIELD]
    return Change({FIELD: {**used, "RecoveryCodes": [*map(_digest, recovery)]}}, None)


def switch_off(user: Document, *, code: str, now: datetime, cipher: Any) -> Change:
    use_code(user, code=code, now=now, cipher=cipher)
    return Change({FIELD: None}, None)


def reset(user: Document) -> Change:
    """Remove the second factor of somebody without a role of staff who has lost it."""
    require_not_staff(user)
    _factor_of(user)
    return Change({FIELD: None}, None)


def reset_sign_in(user: Document, *, email: str) -> Change:
    """Remove a lost second factor, replace a lost address if there is a new one, end sign-ins."""
    fields = with_email(user, email) if email else {"Reset": None}
    fields |= {FIELD: None} if has_factor(user) else {}
    return Change({**fields, **revoke_tokens(user).fields}, None)


def recovery_codes_left(user: Document) -> int:
    return len(_factor_of(user)["RecoveryCodes"])


def _factor_of(user: Document) -> Document:
    factor: Document | None = user.get(FIELD)
    if factor is None:
        raise NoFactor
    return factor


def _step_of(secret: str, code: str, now: datetime, last: int) -> int:
    """Return the step of a code: a later one than the last that was used."""
    app, current = TOTP(secret, interval=STEP_SECONDS), int(now.timestamp()) // STEP_SECONDS
    near = range(current - DRIFT, current + DRIFT + 1)
    steps = [step for step in near if strings_equal(app.generate_otp(step), _plain(code))]
    if not steps:
        raise CodeRefused(WRONG)
    if steps[-1] <= last:
        raise CodeRefused(USED)
    return steps[-1]


def _plain(code: str) -> str:
    """Return a code as it is compared: people type spaces, hyphens and small letters."""
    return "".join(filter(str.isalnum, code)).upper()


def _digest(recovery_code: str) -> str:
    return hashlib.sha256(_plain(recovery_code).encode("utf-8", "surrogatepass")).hexdigest()

"""Company accounts: their identity, their groups, and the names of accounts for them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from app.core.changes import Change
from app.core.errors import Forbidden, Unavailable
from app.core.naming import compose
from app.core.types import Document, whole
from app.users.domain import is_email, is_username
from app.users.staff.domain import without_code

LONGEST_NAME = 20
# How many names are tried for a new account.
MOST_TRIES = 50
LONGEST_SUBJECT = 255
# The largest difference between the provider's clock and ours.
LEEWAY_SECONDS = 60


STALE = (
    "This sign-in was begun in another browser, took too long, or is already finished. "
    "Please start again."
)
UNVERIFIED = (
    "The answer of your company's sign-in could not be verified. Please start again. If that "
    "does not help, ask the operator of this service: the log has the details."
)
DENIED = "You cancelled the sign-in, or your company's sign-in refused it."
NOT_LINKED = (
    "No account here belongs to your company account. Ask an administrator to link one to the "
    "subject {}."
)
NO_GROUP = (
    "Your company account is in none of the groups that may use this console. Ask an "
    "administrator to add you to one."
)
NO_ADDRESS = (
    "Your company account has no verified email address, which an account here needs. Ask an "
    "administrator of the company accounts."
)
ADDRESS_IN_USE = (
    "An account here already has your email address. If it is yours, ask an administrator to "
    "link it to the subject {}."
)


class ProviderUnavailable(Unavailable):
    sentence = "Your company's sign-in does not answer at the moment. Please try again."
    retry_after = 5


class SignInRefused(Forbidden):
    """A person who comes from the provider, but cannot be signed in."""


def identity(issuer: str, subject: str) -> Document:
    return {"Issuer": issuer, "Subject": subject}


def roles_of_groups(groups: Any, pairs: Sequence[str]) -> list[str]:
    """Return the roles of a person with these groups, by pairs such as group=role."""
    listed = groups if isinstance(groups, list) else [groups]
    member_of = {group for group in listed if isinstance(group, str)}
    parted = (pair.rpartition("=") for pair in pairs)
    return sorted({role.strip() for group, _, role in parted if group.strip() in member_of})


def verified_address(claims: Mapping[str, Any]) -> str:
    """Return the email address of a person; many providers do not tell whether it is verified."""
    email, is_verified = claims.get("email"), claims.get("email_verified", True)
    if not isinstance(email, str) or not is_email(email) or is_verified not in (True, "true"):
        raise SignInRefused(NO_ADDRESS)
    return email


def names_for(claims: Mapping[str, Any]) -> Iterator[str]:
    """Yield valid names for a person's account, the best first."""
    wanted = (claims.get("preferred_username"), claims.get("email"), "staff")
    parts = (compose(text.partition("@")[0]) for text in wanted if isinstance(text, str))
    plain = ("".join(c for c in part if is_username(f"a{c}"))[:LONGEST_NAME] for part in parts)
    name = next(filter(is_username, plain))
    yield name
    for number in range(2, MOST_TRIES):
        yield f"{name[: LONGEST_NAME - len(str(number))]}{number}"


def proof_time(claims: Mapping[str, Any], is_again: bool, now: datetime) -> datetime:
    """Return when a person last proved at the provider who they are.

    If the provider does not say so, only a sign-in for which it had to ask again is a proof. A time
    in the future is none.
    """
    at, latest = whole(claims.get("auth_time")), now.timestamp()
    if at is None:
        seconds = latest if is_again else 0
    else:
        seconds = min(max(0, at), latest) if at <= latest + LEEWAY_SECONDS else 0
    return datetime.fromtimestamp(seconds, timezone.utc)


def set_group_roles(user: Document, *, roles: list[str]) -> Change:
    return Change({"GroupRoles": roles, **without_code(user)}, None)

"""Exceptions that carry data. app/http/errors.py maps each to a status and a body."""

from __future__ import annotations

import re
from typing import Any


class QuartermasterError(Exception):
    """The base of all expected errors; the text is one sentence for a person.

    A class may declare its sentence. The names in braces are the arguments, in this order, and
    become attributes of the error. The code is the name of the class, unless the class declares
    one: NotEnoughItems has NOT_ENOUGH_ITEMS. Programs rely on it, so a renamed class
    keeps its code.
    """

    sentence = "{message}"
    code = "ERROR"

    def __init_subclass__(cls) -> None:
        words = re.findall("[A-Z][a-z]*", cls.__name__)
        cls.code = vars(cls).get("code") or "_".join(words).upper()

    def __init__(self, *values: Any) -> None:
        names = dict.fromkeys(re.findall(r"{(\w+)}", self.sentence))
        data = dict(zip(names, values, strict=True))
        vars(self).update(data)
        super().__init__(self.sentence.format(**data))


class NotFound(QuartermasterError):
    """No such player, user, bag, variable, object or token. Clients match this text."""

    def __init__(self, kind: str, key: object, message: str | None = None) -> None:
        # A lookup key without an id is a name; every other key is an id.
        by = "id" if getattr(key, "id", key) else "name"
        super().__init__(message or f"No {kind} with {by} '{key}'.")
        self.kind = kind
        self.key = key


class NotOwned(NotFound):
    """Something of an account that no longer exists, or that belongs to another account."""

    code = "NOT_FOUND"

    def __init__(self, kind: str, owner: str) -> None:
        super().__init__(kind, owner, f"No {kind} with that id belongs to '{owner}'.")


class Conflict(QuartermasterError):
    """The stored state does not allow the request."""


class KeyReused(Conflict):
    sentence = "The Idempotency-Key '{key}' was used before with another request."


class AlreadyUndone(Conflict):
    sentence = "The change {entry_id} was already undone by {by}."
    by: str


class Damaged(Conflict):
    """The stored document does not have the shape that a change needs."""

    sentence = (
        "What is stored of this {kind} does not allow the change; the operator can ask "
        "quartermaster db check what is wrong with it."
    )


class TooLarge(Conflict):
    sentence = "What is stored of this {kind} would become too large: 16 MB at most."


class NameTaken(Conflict):
    sentence = "Account already exists with username '{name}'."


class EmailTaken(Conflict):
    sentence = "Account already with email '{email}'."


class Invalid(QuartermasterError):
    """A request with invalid fields, or one that cannot be parsed at all."""

    def __init__(self, message: str, fields: dict[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.fields = fields or {}


class InvalidField(Invalid):
    """A request with one invalid field; the fault is a sentence without its subject."""

    code = "INVALID"

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"The field '{name}' {fault[:1].lower()}{fault[1:]}", {name: [fault]})


class InvalidCursor(InvalidField):
    """The cursor is not from this list with these filters: begin again without it."""

    def __init__(self, fault: str) -> None:
        super().__init__("after", fault)


class Unauthorized(QuartermasterError):
    sentence = "Authorization has been denied for this request."


class Forbidden(QuartermasterError):
    """The caller is authenticated, but not allowed to do this."""


class RoleMissing(Forbidden):
    sentence = "This request needs the role '{role}'."


class PermissionMissing(Forbidden):
    sentence = (
        "This needs the permission '{permission}', which none of your roles has. Ask somebody who "
        "manages staff."
    )
    permission: str


class ScopeMissing(Forbidden):
    sentence = "This request needs a key with the scope '{scope}'."


class KeyNotAllowed(Forbidden):
    sentence = "This request is not for keys: sign in with a password."


class InvalidCredentials(Forbidden):
    sentence = "Invalid credentials."


class RateLimited(QuartermasterError):
    """A rate limit is exceeded; the request was not processed."""

    def __init__(self, limit: str, retry_after: int, of: str = "failed attempts") -> None:
        super().__init__(f"Too many {of}; please try again in {retry_after} seconds.")
        self.limit = limit
        self.retry_after = retry_after


class Unavailable(QuartermasterError):
    """A dependency, such as the database, is unavailable; it is safe to retry later."""

    retry_after = 2

    def __init__(self, *values: Any, retry_after: int | None = None) -> None:
        super().__init__(*values)
        self.retry_after = retry_after or self.retry_after


class OutcomeUnknown(Unavailable):
    # Without a key, a retry may apply the change twice.
    sentence = (
        "The database did not confirm the change, which may have been made. Look before you "
        "repeat it; with an Idempotency-Key it could be repeated safely."
    )


class Busy(Unavailable):
    """Too many concurrent changes to the same document; nothing was written."""

    code = "TOO_MANY_CHANGES"
    sentence = "Too many changes to this {kind} at once; please try again."
    retry_after = 1

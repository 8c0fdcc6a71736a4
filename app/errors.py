"""Exceptions that carry data. app/http/errors.py decides the status and the body of each."""

from __future__ import annotations


class QuartermasterError(Exception):
    """Everything that this program raises on purpose; the text is one sentence for a person."""


class NotFound(QuartermasterError):
    """No such player, user, bag, variable, object or token. Clients match this text."""

    def __init__(self, kind: str, key: object, message: str | None = None) -> None:
        # A lookup key without an id is a name; every other key is an id.
        by = "id" if getattr(key, "id", key) else "name"
        super().__init__(message or f"No {kind} with {by} '{key}'.")
        self.kind = kind
        self.key = key


class Conflict(QuartermasterError):
    """The stored state does not allow what was asked."""


class KeyReused(Conflict):
    """An Idempotency-Key came back with another request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"The Idempotency-Key '{key}' was used before with another request.")
        self.key = key


class AlreadyUndone(Conflict):
    """The change of an entry was undone before."""

    def __init__(self, entry_id: str, by: str) -> None:
        super().__init__(f"The change {entry_id} was undone already, by {by}.")
        self.entry_id, self.by = entry_id, by


class Damaged(Conflict):
    """The stored document has not the shape that a change needs."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"What is stored of this {kind} does not allow the change; the operator can ask "
            "quartermaster db check what is wrong with it."
        )


class TooLarge(Conflict):
    """A document would become larger than MongoDB stores."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"What is stored of this {kind} would become too large: 16 MB at most.")


class NameTaken(Conflict):
    """Another account has this username."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Account already exists with username '{name}'.")
        self.name = name


class EmailTaken(Conflict):
    """Another account has this email address."""

    def __init__(self, email: str) -> None:
        super().__init__(f"Account already with email '{email}'.")
        self.email = email


class Invalid(QuartermasterError):
    """A request whose fields are at fault, or that cannot be understood at all."""

    def __init__(self, message: str, fields: dict[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.fields = fields or {}


class InvalidCursor(Invalid):
    """A cursor that this list cannot continue from; why is a predicate."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The field 'after' {why[:1].lower()}{why[1:]}", {"after": [why]})


class Unauthorized(QuartermasterError):
    """The caller is not authenticated."""

    def __init__(self) -> None:
        super().__init__("Authorization has been denied for this request.")


class Forbidden(QuartermasterError):
    """The caller is authenticated, and not allowed to do this."""


class RoleMissing(Forbidden):
    """The caller's account lacks a role."""

    def __init__(self, role: str) -> None:
        super().__init__(f"This request needs the role '{role}'.")
        self.role = role


class ScopeMissing(Forbidden):
    """The caller's key lacks a scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"This request needs a key with the scope '{scope}'.")
        self.scope = scope


class KeyNotAllowed(Forbidden):
    """A request that is for people, who sign in, and not for keys."""

    def __init__(self) -> None:
        super().__init__("This request is not for keys: sign in with a password.")


class InvalidCredentials(Forbidden):
    """The current password, or the code sent instead of it, is wrong."""

    def __init__(self) -> None:
        super().__init__("Invalid credentials.")


class RateLimited(QuartermasterError):
    """A limit is used up; the request was not examined."""

    def __init__(self, limit: str, retry_after: int, of: str = "failed attempts") -> None:
        super().__init__(f"Too many {of}; please try again in {retry_after} seconds.")
        self.limit = limit
        self.retry_after = retry_after


class Unavailable(QuartermasterError):
    """A dependency, such as the database, is unavailable; a retry later is safe."""

    def __init__(self, message: str, retry_after: int = 2) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeUnknown(Unavailable):
    """A change was sent and not confirmed, and without a key a retry may apply it twice."""

    def __init__(self) -> None:
        super().__init__(
            "The database did not confirm the change, which may have been made. "
            "Look before you repeat it; with an Idempotency-Key it could be repeated safely."
        )


class Busy(Unavailable):
    """Too many concurrent changes of the same document; nothing was written."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"Too many changes to this {kind} at once; please try again.", 1)

"""What a request intends to change: who asks, why, and with which Idempotency-Key."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
from flask import Response, current_app

from app.changes import Applied, Intent, Origin
from app.errors import Invalid
from app.http.context import current_environ
from app.http.fields import NO_CONTROLS
from app.http.json import json_response
from app.http.masking import masked
from app.http.tracing import CALLER, request_id
from app.naming import is_visible
from app.operations import Operation
from app.types import Document

KEY_HEADER = "Idempotency-Key"
LONGEST_KEY = 255
REASON_HEADER = "X-Reason"
LONGEST_REASON = 500
HISTORY_HEADER = "X-History-Id"
_NEXT = "%[89ABab][0-9A-Fa-f]"
# Percent-encoded UTF-8 without control characters: the sequences of 1 to 4 bytes that are letters.
_LETTER = "|".join(
    (
        "[ -$&-~]",
        "%[2-6][0-9A-Fa-f]",
        "%7[0-9A-Ea-e]",
        "%[Cc]2%[ABab][0-9A-Fa-f]",
        f"%([Cc][3-9A-Fa-f]|[Dd][0-9A-Fa-f]){_NEXT}",
        f"%[Ee]0%[ABab][0-9A-Fa-f]{_NEXT}",
        f"%[Ee][1-9A-CEFa-cef]{_NEXT}{_NEXT}",
        f"%[Ee][Dd]%[89][0-9A-Fa-f]{_NEXT}",
        f"%[Ff]0%[9ABab][0-9A-Fa-f]{_NEXT}{_NEXT}",
        f"%[Ff][1-3]{_NEXT}{_NEXT}{_NEXT}",
        f"%[Ff]4%8[0-9A-Fa-f]{_NEXT}{_NEXT}",
    )
)
REASON_PATTERN = f"^({_LETTER}){{0,{LONGEST_REASON}}}$"
_REASON = re.compile(f"(?:{_LETTER}){{0,{LONGEST_REASON}}}", re.ASCII)
# The key of a Statement in the WSGI environment of a request.
_STATEMENT = "quartermaster.statement"


class Statement(NamedTuple):
    """What the form of a page says about its change, where a program says it by headers."""

    key: str
    reason: str


def state(key: str, reason: str) -> None:
    """Let a form, instead of headers, give the Idempotency-Key and the reason of this request."""
    current_environ()[_STATEMENT] = Statement(key, reason)


def intent(operation: Operation, **arguments: Any) -> Intent:
    """Return what a request intends whose endpoint takes no Idempotency-Key; forms have one."""
    return intent_because(operation, None, **arguments)


def intent_because(operation: Operation, why: str | None, **arguments: Any) -> Intent:
    """Return the same, where the body may hold the reason, if no header does."""
    meant = Intent(operation.name, origin(otherwise=why), arguments)
    if statement := _statement():
        key = _checked_key(statement.key)
        return meant._replace(key=key, fingerprint=_fingerprint(arguments))
    return meant


def reading_intent(operation: Operation, via: str = "api") -> Intent:
    """Return what a request intends that reads what history tells it has read; it changes nothing.

    So it needs no reason, also where changes do.
    """
    return Intent(operation.name, origin(is_change=False)._replace(via=via))


def keyed_intent(
    operation: Operation,
    arguments: dict[str, Any],
    undoes: Document | None = None,
    untold: tuple[str, ...] = (),
) -> Intent:
    """Return what a request intends, with its Idempotency-Key if it has one.

    History tells the arguments, but for those that are named as untold.
    """
    told = {name: value for name, value in arguments.items() if name not in untold}
    meant = Intent(operation.name, origin(), operation.history_arguments(told), undoes=undoes)
    return _with_key(meant, arguments)


def action_intent(kind: str, arguments: dict[str, Any]) -> Intent:
    """Return the same of a request that asks the running game for an action."""
    return _with_key(Intent(kind, origin(), arguments), arguments)


def _with_key(meant: Intent, arguments: dict[str, Any]) -> Intent:
    key = sent_key()
    return meant if key is None else meant._replace(key=key, fingerprint=_fingerprint(arguments))


def sent_key() -> str | None:
    """Return the Idempotency-Key of this request, if it has one."""
    statement = _statement()
    key = statement.key if statement else current_environ().get("HTTP_IDEMPOTENCY_KEY")
    return None if key is None else _checked_key(key)


def previewed_intent(
    operation: Operation, arguments: dict[str, Any], undoes: Document | None = None
) -> Intent:
    """Return what a request would intend that only asks what would change."""
    told = operation.history_arguments(arguments)
    return Intent(operation.name, origin(is_change=False), told, undoes=undoes)


def origin(is_change: bool = True, otherwise: str | None = None) -> Origin:
    """Return who sent this request, through which door, and why."""
    caller = current_environ()[CALLER]
    via = "console" if _statement() else "api"
    why = reason(is_change, otherwise)
    key = caller.key.name if caller.key else None
    return Origin(caller.id, caller.name, via, request_id(), why, key)


def reason(is_change: bool = True, otherwise: str | None = None) -> str | None:
    """Return the reason of this request's change; None if there is none."""
    statement = _statement()
    text = _typed_reason(statement.reason) if statement else _sent_reason()
    text = text.strip() or (otherwise or "").strip()
    if not is_visible(text):
        text = ""
    if not text and is_change and current_app.config["REASON_REQUIRED"]:
        if statement:
            raise Invalid("Say why this is changed.", {"reason": ["Is required."]})
        raise Invalid(f"The header {REASON_HEADER} is required: say why this is changed.")
    # A reason is kept for long and shown to many: a token in it is not.
    return masked(text) or None


def _sent_reason() -> str:
    """Return the reason in the header of this request, percent-decoded."""
    sent = current_environ().get("HTTP_X_REASON", "")
    if not _REASON.fullmatch(sent):
        raise Invalid(
            f"The header {REASON_HEADER} must be percent-encoded UTF-8 without control characters, "
            f"{LONGEST_REASON} characters at most."
        )
    return unquote(sent, errors="strict")


def _typed_reason(text: str) -> str:
    if len(text) > LONGEST_REASON or not NO_CONTROLS.fullmatch(text):
        fault = f"must be at most {LONGEST_REASON} characters on one line."
        raise Invalid(f"The reason {fault}", {"reason": [fault.capitalize()]})
    return text


def _checked_key(key: str) -> str:
    if not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise Invalid(
            f"The header {KEY_HEADER} must be 1 to {LONGEST_KEY} printable ASCII characters."
        )
    return key


def _statement() -> Statement | None:
    return current_environ().get(_STATEMENT)


def answer(applied: Applied) -> Response:
    """Return the response to a change, with what headers tell of it."""
    return change_response(applied, applied.answer)


def change_response(applied: Applied, body: Any, status: int = 200) -> Response:
    """Return the response to a change that is answered by something else than its rule says."""
    return json_response(body, status, change_headers(applied))


def change_headers(applied: Applied) -> dict[str, str]:
    """Return the headers that name the entry of a change, and tell of what is odd about it."""
    headers = replayed_headers(applied.replayed) or {}
    entry = applied.entry or {}
    # The record of a key from before there was a history has none, and a game may store any id.
    id_ = str(entry.get("_id", ""))
    if id_ and id_.isascii() and id_.isprintable():
        headers[HISTORY_HEADER] = id_
    if isinstance(entry.get("Warning"), str):
        headers["Warning"] = f'299 quartermaster "{entry["Warning"]}"'
    return headers


def replayed_headers(replayed: bool) -> dict[str, str] | None:
    """Return the headers that mark an answer which was given before."""
    return {"Idempotency-Replayed": "true"} if replayed else None


def _fingerprint(arguments: Any) -> str:
    """Return a hash that is equal for equal arguments, in whatever order they were sent."""
    return hashlib.sha256(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)).hexdigest()

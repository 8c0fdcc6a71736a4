"""The intent of a request: who changes what, why, and with which Idempotency-Key."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
from flask import Response, current_app

from app.core.changes import Applied, Intent, Origin
from app.core.errors import Invalid
from app.core.naming import is_visible
from app.core.operations import Operation
from app.core.types import Document
from app.http.context import current_environ
from app.http.fields import NO_CONTROLS
from app.http.json import json_response
from app.http.masking import masked
from app.http.tracing import CALLER, request_id

LONGEST_KEY = 255
# Keys of rows of batches and of approved requests begin so. With the same key, somebody could keep
# a colleague's row or request from being carried out.
OWN_KEYS = ("batch ", "approval ")
LONGEST_REASON = 500
_NEXT = "%[89ABab][0-9A-Fa-f]"
# Percent-encoded UTF-8 without control characters: the 1- to 4-byte sequences of one character.
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
# The key of a FormHeaders in the WSGI environment of a request.
_FORM_HEADERS = "quartermaster.form_headers"


class FormHeaders(NamedTuple):
    """The Idempotency-Key and the reason from a console form; API clients send headers instead."""

    key: str
    reason: str


def set_form_headers(key: str, reason: str) -> None:
    """Set the Idempotency-Key and the reason of this request from a form instead of headers."""
    current_environ()[_FORM_HEADERS] = FormHeaders(key, reason)


def _form_headers() -> FormHeaders | None:
    return current_environ().get(_FORM_HEADERS)


def intent(
    operation: Operation, arguments: Document | None = None, undoes: Document | None = None
) -> Intent:
    """Return the intent of a request, with its Idempotency-Key if the operation takes one.

    Forms always send one. The argument reason is the reason if there is no header.
    """
    sent = arguments or {}
    recorded = operation.history_arguments(sent)
    meant = Intent(operation.name, origin(otherwise=sent.get("reason")), recorded, undoes=undoes)
    if operation.takes_key:
        return _with_key(meant, sent)
    # Without secrets, which history does not record: an entry has the fingerprint of the arguments.
    return _with_key(meant, recorded) if _form_headers() else meant


def reading_intent(operation: Operation, via: str = "api") -> Intent:
    """Return the intent of a request that only reads, but adds a history entry.

    It changes nothing, so it needs no reason even if changes do.
    """
    return Intent(operation.name, origin(is_change=False)._replace(via=via))


def action_intent(kind: str, arguments: dict[str, Any]) -> Intent:
    """Return the intent of a request for an action of the running game."""
    return _with_key(Intent(kind, origin(), arguments), arguments)


def previewed_intent(
    operation: Operation, arguments: dict[str, Any], undoes: Document | None = None
) -> Intent:
    """Return the intent of a request for a preview."""
    recorded = operation.history_arguments(arguments)
    return Intent(operation.name, origin(is_change=False), recorded, undoes=undoes)


def _with_key(meant: Intent, arguments: dict[str, Any]) -> Intent:
    key = sent_key()
    if key is None:
        return meant
    # Sorted keys: the hash does not depend on the order of the arguments.
    text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    return meant._replace(key=key, fingerprint=hashlib.sha256(text).hexdigest())


def sent_key() -> str | None:
    form = _form_headers()
    key = form.key if form else current_environ().get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return key
    if not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise Invalid(
            f"The header Idempotency-Key must be 1 to {LONGEST_KEY} printable ASCII characters."
        )
    if key.startswith(OWN_KEYS):
        raise Invalid("An Idempotency-Key must not begin with 'batch ' or 'approval '.")
    return key


def origin(is_change: bool = True, otherwise: str | None = None) -> Origin:
    """Return who sent this request, through which interface, and why."""
    environ = current_environ()
    caller, form = environ[CALLER], environ.get(_FORM_HEADERS)
    key = caller.key.name if caller.key else None
    sent = form.reason if form else environ.get("HTTP_X_REASON", "")
    if form and (len(sent) > LONGEST_REASON or not NO_CONTROLS.fullmatch(sent)):
        fault = f"must be at most {LONGEST_REASON} characters on one line."
        raise Invalid(f"The reason {fault}", {"reason": [fault.capitalize()]})
    if not form and not _REASON.fullmatch(sent):
        raise Invalid(
            "The header X-Reason must be percent-encoded UTF-8 without control characters, "
            f"{LONGEST_REASON} characters at most."
        )
    text = sent if form else unquote(sent, errors="strict")
    why = text.strip() or (otherwise or "").strip()
    if is_change and not is_visible(why) and current_app.config["REASON_REQUIRED"]:
        if form:
            raise Invalid("Give the reason for the change.", {"reason": ["Is required."]})
        raise Invalid("The header X-Reason is required: give the reason for the change.")
    # Reasons are stored for long and shown to many people, so a token in one is masked.
    reason = masked(why) if is_visible(why) else None
    return Origin(caller.id, caller.name, "console" if form else "api", request_id(), reason, key)


def answer(applied: Applied) -> Response:
    """Return the response to a change: the answer of its rule, with headers about the change."""
    return change_response(applied, applied.answer)


def change_response(applied: Applied, body: Any, status: int = 200) -> Response:
    """Return the response to a change whose body differs from the answer of its rule."""
    return json_response(body, status, change_headers(applied))


def change_headers(applied: Applied) -> dict[str, str]:
    """Return the headers with the history entry of a change and its warning, if any."""
    headers = replayed_headers(applied.replayed)
    entry = applied.entry or {}
    # A game may store any id.
    id_ = str(entry.get("_id", ""))
    if id_ and id_.isascii() and id_.isprintable():
        headers["X-History-Id"] = id_
    if isinstance(entry.get("Warning"), str):
        headers["Warning"] = f'299 quartermaster "{entry["Warning"]}"'
    return headers


def replayed_headers(replayed: bool) -> dict[str, str]:
    """Return the header that marks a replayed answer."""
    return {"Idempotency-Replayed": "true"} if replayed else {}

"""The intent of a request: who changes what, why, and with which Idempotency-Key."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import quote, unquote

import orjson
from flask import Response, current_app

from app.core.changes import Applied, Intent, Origin
from app.core.errors import Invalid
from app.core.naming import is_visible
from app.core.operations import Operation
from app.core.types import Document
from app.http.context import current_environ
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

# The key in the WSGI environment of a request: where it comes from, unless from the API.
_VIA = "quartermaster.via"


def set_form_headers(key: str, reason: str) -> None:
    """Give the request of a form of the console the headers that API clients send."""
    current_environ().update(
        {_VIA: "console", "HTTP_IDEMPOTENCY_KEY": key, "HTTP_X_REASON": quote(reason)}
    )


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
        return with_key(meant, sent_key(), sent)
    # Without secrets, which history does not record: an entry has the fingerprint of the arguments.
    return with_key(meant, sent_key(), recorded) if _VIA in current_environ() else meant


def reading_intent(operation: Operation, via: str = "api") -> Intent:
    """Return the intent of a request that only reads, but adds a history entry.

    It changes nothing, so it needs no reason even if changes do.
    """
    return Intent(operation.name, origin(is_change=False)._replace(via=via))


def action_intent(kind: str, arguments: dict[str, Any]) -> Intent:
    """Return the intent of a request for an action of the running game."""
    return with_key(Intent(kind, origin(), arguments), sent_key(), arguments)


def previewed_intent(operation: Operation, arguments: dict[str, Any]) -> Intent:
    """Return the intent of a request for a preview."""
    recorded = operation.history_arguments(arguments)
    return Intent(operation.name, origin(is_change=False), recorded, is_preview=True)


def with_key(meant: Intent, key: str | None, arguments: dict[str, Any]) -> Intent:
    if key is None:
        return meant
    # Sorted keys: the hash does not depend on the order of the arguments.
    text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    return meant._replace(key=key, fingerprint=hashlib.sha256(text).hexdigest())


def sent_key() -> str | None:
    key: str | None = current_environ().get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return None
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
    caller, via = environ[CALLER], environ.get(_VIA, "api")
    key = caller.key.name if caller.key else None
    sent = environ.get("HTTP_X_REASON", "")
    if not re.fullmatch(REASON_PATTERN, sent):
        raise Invalid(
            "The header X-Reason must be percent-encoded UTF-8 without control characters, "
            f"{LONGEST_REASON} characters at most."
        )
    why = unquote(sent, errors="strict").strip() or (otherwise or "").strip()
    if is_change and not is_visible(why) and current_app.config["REASON_REQUIRED"]:
        if via == "console":
            raise Invalid("Give the reason for the change.", {"reason": ["Is required."]})
        raise Invalid("The header X-Reason is required: give the reason for the change.")
    # Reasons are stored for long and shown to many people, so a token in one is masked.
    reason = masked(why) if is_visible(why) else None
    return Origin(caller.id, caller.name, via, request_id(), reason, key)


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
    if entry.get("_id"):
        headers["X-History-Id"] = str(entry["_id"])
    if entry.get("Warning"):
        headers["Warning"] = f'299 quartermaster "{entry["Warning"]}"'
    return headers


def replayed_headers(replayed: bool) -> dict[str, str]:
    """Return the header that marks a replayed answer."""
    return {"Idempotency-Replayed": "true"} if replayed else {}

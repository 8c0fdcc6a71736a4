"""What a request intends to change: who asks, why, and with which Idempotency-Key."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import unquote

import orjson
from flask import Response, current_app

from app.changes import Applied, Intent, Origin
from app.errors import Invalid
from app.http.context import current_environ
from app.http.json import json_response
from app.http.masking import masked
from app.http.tracing import CALLER, request_id
from app.keys import is_visible
from app.types import Document

KEY_HEADER = "Idempotency-Key"
LONGEST_KEY = 255
REASON_HEADER = "X-Reason"
LONGEST_REASON = 500
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
# History tells arguments under the names of its other fields.
ARGUMENT_NAMES = {
    "itemid": "ItemId",
    "quantity": "Quantity",
    "bankoverflow": "BankOverflow",
    "spellid": "SpellId",
    "variable_id": "VariableId",
    "value": "Value",
}


def intent(operation: str, **arguments: Any) -> Intent:
    """Return what a request intends that takes no Idempotency-Key."""
    return Intent(operation, origin(), arguments)


def intent_because(operation: str, why: str | None, **arguments: Any) -> Intent:
    """Return what a request intends whose body may hold the reason, if no header does."""
    return Intent(operation, origin(otherwise=why), arguments)


def keyed_intent(
    operation: str, arguments: dict[str, Any], undoes: Document | None = None
) -> Intent:
    """Return what a request intends, with its Idempotency-Key if it has one."""
    told = {ARGUMENT_NAMES.get(name, name): value for name, value in arguments.items()}
    key = current_environ.get().get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return Intent(operation, origin(), told, undoes=undoes)
    if not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise Invalid(
            f"The header {KEY_HEADER} must be 1 to {LONGEST_KEY} printable ASCII characters."
        )
    return Intent(operation, origin(), told, key, _fingerprint(arguments), undoes)


def previewed_intent(operation: str, undoes: Document, **arguments: Any) -> Intent:
    """Return what a request would intend that only asks what would change."""
    return Intent(operation, origin(is_change=False), arguments, undoes=undoes)


def origin(is_change: bool = True, otherwise: str | None = None) -> Origin:
    """Return who sent this request, and why."""
    caller = current_environ.get()[CALLER]
    return Origin(caller.id, caller.name, "api", request_id(), reason(is_change, otherwise))


def reason(is_change: bool = True, otherwise: str | None = None) -> str | None:
    """Return the reason of this request's change, percent-decoded; None if there is none."""
    sent = current_environ.get().get("HTTP_X_REASON", "")
    if not _REASON.fullmatch(sent):
        raise Invalid(
            f"The header {REASON_HEADER} must be percent-encoded UTF-8 without control characters, "
            f"{LONGEST_REASON} characters at most."
        )
    text = unquote(sent, errors="strict").strip() or (otherwise or "").strip()
    if not is_visible(text):
        text = ""
    if not text and is_change and current_app.config["REASON_REQUIRED"]:
        raise Invalid(f"The header {REASON_HEADER} is required: say why this is changed.")
    # A reason is kept for long and shown to many: a token in it is not.
    return masked(text) or None


def answer(applied: Applied) -> Response:
    """Return the response to a change; a header marks one that was replayed."""
    headers = {"Idempotency-Replayed": "true"} if applied.replayed else None
    return json_response(applied.answer, headers=headers)


def _fingerprint(arguments: Any) -> str:
    """Return a hash that is equal for equal arguments, in whatever order they were sent."""
    return hashlib.sha256(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)).hexdigest()

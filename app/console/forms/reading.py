"""Reads the form in a request: its fields, and what of them an error page shows or sends again."""

from __future__ import annotations

from flask import request
from werkzeug.exceptions import LengthRequired, UnsupportedMediaType

from app.http.context import current_environ
from app.http.parser import FORM, read_form
from app.http.uploads import is_form_with_file, read_form_with_file
from app.naming import parse_guid

_POSTED = "quartermaster.posted"
# The id of the account whose session a form with a file comes from.
SENDER = "quartermaster.sender"
# The fields of every form that are not typed.
HIDDEN = ("token", "key", "seen", "back", "preview", "choose")
SECRET = ("password", "new", "again")


def posted() -> dict[str, str]:
    """Return the fields of the form in this request; the first call reads its body.

    A view calls it when it knows the caller; only the sign-in calls it before. No error page does.
    """
    environ = current_environ()
    if _POSTED not in environ:
        # A browser sends the newlines of a text area as CRLF.
        environ[_POSTED] = {k: v.replace("\r\n", "\n") for k, v in _read().items()}
    fields: dict[str, str] = environ[_POSTED]
    return fields


def _read() -> dict[str, str]:
    if is_form_with_file():
        return read_form_with_file(current_environ()[SENDER])
    if request.mimetype != FORM:
        raise UnsupportedMediaType("A page of the console sends forms alone.")
    if request.content_length is None:
        # A thread would wait for the chunks, and no browser sends a form in chunks.
        raise LengthRequired
    return read_form()


def typed() -> dict[str, str]:
    """Return what somebody has typed into the form that was read, without passwords."""
    fields = _read_fields()
    return {k: text for k, text in fields.items() if text and k not in (*HIDDEN, *SECRET)}


def resent() -> dict[str, str]:
    """Return the fields that send the same change again, by its Idempotency-Key.

    Empty where the form has no key, or holds a password or a file: no page repeats those.
    """
    fields = {} if is_form_with_file() else _read_fields()
    if not parse_guid(fields.get("key", "")) or set(fields) & set(SECRET):
        return {}
    return {name: value for name, value in fields.items() if name != "token"}


def _read_fields() -> dict[str, str]:
    """Return the fields of the form, if this request has read it; the body is not touched."""
    fields: dict[str, str] = current_environ().get(_POSTED, {})
    return fields

"""Reads the form in a request, and selects the fields that an error page shows or resends."""

from __future__ import annotations

from flask import request
from werkzeug.exceptions import LengthRequired, UnsupportedMediaType

from app.auth import guard
from app.http.context import current_environ
from app.http.parser import FORM, read_form
from app.http.uploads import is_form_with_file, read_form_with_file

_POSTED = "quartermaster.posted"
# The hidden fields of every form.
HIDDEN = ("token", "key", "seen", "back", "preview", "choose", "ask")
SECRET = ("password", "new", "again", "code", "state", "own-password", "own-code")


def posted() -> dict[str, str]:
    """Return the fields of the form in this request; the first call reads its body.

    A view calls it after authentication; only the sign-in and the page of
    an invitation call it before. Error pages never do.
    """
    environ = current_environ()
    if _POSTED not in environ:
        # A browser sends the newlines of a text area as CRLF.
        environ[_POSTED] = {k: v.replace("\r\n", "\n") for k, v in _read().items()}
    fields: dict[str, str] = environ[_POSTED]
    return fields


def _read() -> dict[str, str]:
    if is_form_with_file():
        return read_form_with_file(guard.caller().id)
    if request.mimetype != FORM:
        raise UnsupportedMediaType("The console accepts only forms.")
    if request.content_length is None:
        # A thread would wait for the chunks, and no browser sends forms in chunks.
        raise LengthRequired
    return read_form()


def typed() -> dict[str, str]:
    """Return the typed fields of the form that was read, without passwords."""
    fields: dict[str, str] = current_environ().get(_POSTED, {})
    return {k: text for k, text in fields.items() if text and k not in (*HIDDEN, *SECRET)}

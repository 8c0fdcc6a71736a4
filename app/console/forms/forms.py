"""Forms: what was typed, what is wrong with it, and how one is carried out."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flask import Response, after_this_request, request
from werkzeug.exceptions import LengthRequired, UnsupportedMediaType

from app.api_keys.domain import KeyNameTaken
from app.errors import (
    Conflict,
    EmailTaken,
    Forbidden,
    Invalid,
    KeyReused,
    NotFound,
    QuartermasterError,
    RateLimited,
    Unavailable,
)
from app.http import intents
from app.http.api import Schema
from app.http.context import current, current_environ
from app.http.errors import headers_of, note, status_of
from app.http.parser import FORM, load, read_form, respelled
from app.http.uploads import MULTIPART, STREAMED_PATHS, FormUpload
from app.items.domain import NoRoom, NotEnoughItems
from app.naming import SEARCH_LENGTH, name_key, parse_guid
from app.objects.store import Objects
from app.players.domain import PlayerNameTaken
from app.spells.domain import NoSpellSlot, SpellKnown
from app.types import Document, decimal
from app.variables.server.domain import OtherType

_POSTED = "quartermaster.posted"
_UPLOAD = "quartermaster.upload"
# The id of the account whose session a form with a file comes from.
SENDER = "quartermaster.sender"
# What a page has seen of a history that has no entries.
NOTHING_SEEN = "nothing"
# The fields of every form that are not typed.
HIDDEN = ("token", "key", "seen", "back", "preview", "choose")
SECRET = ("password", "new", "again")
SETS_A_SECRET = ("email", "password")
MOST_CHOICES = 12
# Which field a refusal is about, where it is not the whole form.
FIELDS: dict[type, str] = {
    NotEnoughItems: "quantity",
    NoRoom: "quantity",
    SpellKnown: "spellid",
    NoSpellSlot: "spellid",
    EmailTaken: "new",
    OtherType: "value",
    KeyNameTaken: "Name",
    PlayerNameTaken: "Name",
    NotFound: "player",
}
SENT_BEFORE = (
    "This form was sent before, with other values, and those were taken. If you mean a further "
    "change, send it again."
)
# What pages call the fields of the API.
LABELS = {
    "itemid": "The item",
    "spellid": "The spell",
    "quantity": "The quantity",
    "duration": "The number of days",
    "variable": "The variable",
    "variableid": "The variable",
    "value": "The value",
    "Text": "The note",
    "new": "What is new",
    "again": "What is typed again",
    "Name": "The name",
    "Scopes": "The list of scopes",
    "Days": "The number of days",
    "OverlapHours": "The number of hours",
    "Addresses": "The list of addresses",
    "LargestQuantity": "The quantity at once",
    "ItemsPerDay": "The number of items a day",
    "Items": "The list of items",
    "Confirm": "The name that is typed to confirm",
    "Message": "The message",
    "mapid": "The map",
    "x": "The place on the map",
    "y": "The place on the map",
    "player": "The player",
    "colour": "The colour",
    "operation": "What is done",
    "players": "The list of players",
    "Item": "The item, spell or variable",
    "Operation": "What was done",
    "From": "The time",
    "To": "The time",
    "By": "The name of who has made them",
    "Key": "The key",
}
_FIELD = re.compile(r"[Tt]he field '(\w+)'")
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What is shown beside a form. Everything else is an error of the page.
REFUSALS = (Invalid, Conflict, NotFound, Forbidden, RateLimited, Unavailable)

objects = current(Objects)


class Choice(NamedTuple):
    """An object of the catalogue that may have been meant."""

    id: str
    name: str


class Ambiguous(Invalid):
    """A name that no object or several objects of the catalogue have."""

    def __init__(
        self, field: str, fault: str, choices: list[Choice], is_shared: bool = False
    ) -> None:
        super().__init__(fault, {field: [fault]})
        self.choices = choices
        self.is_shared = is_shared


def posted() -> dict[str, str]:
    """Return the fields of the form in this request; the first call reads its body.

    A view calls it when it knows the caller, but for the sign-in. No page of an error does.
    """
    environ = current_environ.get()
    if _POSTED not in environ:
        upload = posted_upload()
        if upload is None and request.mimetype != FORM:
            raise UnsupportedMediaType("A page of the console sends forms alone.")
        if upload is None and request.content_length is None:
            # A thread would wait for the chunks, and no browser sends a form in chunks.
            raise LengthRequired
        read = upload.fields if upload else read_form()
        # A browser sends the newlines of a text area as CRLF.
        environ[_POSTED] = {k: v.replace("\r\n", "\n") for k, v in read.items()}
    fields: dict[str, str] = environ[_POSTED]
    return fields


def posted_upload() -> FormUpload | None:
    """Return the form in this request, if it is one with a file, and one may be sent there."""
    is_upload = request.mimetype == MULTIPART and request.path.rstrip("/") in STREAMED_PATHS
    environ = current_environ.get()
    if is_upload and _UPLOAD not in environ:
        upload = environ[_UPLOAD] = FormUpload(environ[SENDER])

        @after_this_request
        def close(response: Response) -> Response:
            """Read no more of a form that was refused before its file was read."""
            upload.close()
            return response

    found: FormUpload | None = environ.get(_UPLOAD)
    return found


def typed() -> dict[str, str]:
    """Return what somebody has typed into the form that was read, but for passwords."""
    fields = _read_fields()
    return {k: text for k, text in fields.items() if text and k not in (*HIDDEN, *SECRET)}


def resent() -> dict[str, str]:
    """Return what sends the form that was read once more: the same change, by its Idempotency-Key.

    Nothing where there is none, or where the form holds a password or a file: no page repeats them.
    """
    fields = {} if _UPLOAD in current_environ.get() else _read_fields()
    if not parse_guid(fields.get("key", "")) or set(fields) & set(SECRET):
        return {}
    return {name: value for name, value in fields.items() if name != "token"}


def _read_fields() -> dict[str, str]:
    """Return the fields of the form, if this request has read it; the body is not touched."""
    fields: dict[str, str] = current_environ.get().get(_POSTED, {})
    return fields


class Form:
    """A form of a page: as it is first shown, or as it was posted and refused."""

    def __init__(self, name: str, fields: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.fields = dict(fields or {})
        self.error: QuartermasterError | None = None
        # The values of what was typed, as far as they are valid.
        self.args: dict[str, Any] = {}
        self.key = str(uuid.uuid4())

    @classmethod
    def posted(cls, name: str) -> Form:
        """Return the posted form, whose key and reason count for the changes of this request."""
        form = cls(name, posted())
        key = parse_guid(form.fields.get("key", ""))
        if key is None:
            raise Invalid("The form is not complete; open the page again.")
        form.key = key
        intents.state(key, form.fields.get("reason", ""))
        return form

    @property
    def is_preview(self) -> bool:
        return bool(self.fields.get("preview"))

    @property
    def seen(self) -> str:
        """The newest entry of history that its page has shown."""
        return self.fields.get("seen", "")

    def value(self, field: str, default: Any = "") -> str:
        return self.fields.get(field, str(default))

    def is_checked(self, field: str, default: bool = False) -> bool:
        return bool(self.fields.get(field)) if self.fields else default

    def fault(self, field: str) -> str:
        """Return what is wrong with a field; empty if nothing is."""
        if isinstance(self.error, Invalid):
            return self.error.fields.get(field, [""])[0]
        return self.text if FIELDS.get(type(self.error)) == field else ""

    @property
    def text(self) -> str:
        """Why it was refused, with the names of what the sentence has ids of."""
        if isinstance(self.error, KeyReused):
            return SENT_BEFORE
        text = _FIELD.sub(lambda match: LABELS.get(match[1], match[0]), str(self.error or ""))
        named = objects.names_of(ids) if (ids := _GUID.findall(text)) else {}
        return _GUID.sub(lambda match: str(named.get(match[0]) or match[0]), text)

    @property
    def choices(self) -> list[Choice]:
        return self.error.choices if isinstance(self.error, Ambiguous) else []

    def load(self, schema: Schema, **objects_of: str) -> Any:
        """Return the typed values by the schema of the API.

        A field of objects_of holds the id or the name of an object of that type.
        """
        values: dict[str, Any] = {name: text for name, text in self.fields.items() if text}
        for field, type_ in objects_of.items():
            if field in values:
                values[field] = resolve(field, type_, self.fields.get("choose") or values[field])
        return load(schema, respelled(schema, values))

    def refused(self, error: QuartermasterError) -> None:
        """Keep why it was refused. Where nobody knows, the next attempt is the same change.

        Otherwise it is another one, with a key of its own. So is one that sets a secret: history
        must not hold by what to tell two of them apart, and to set it twice does no harm.
        """
        self.error = error
        if not isinstance(error, Unavailable) or self.name in SETS_A_SECRET:
            self.key = str(uuid.uuid4())


def form_status(form: Form | None) -> int:
    """Return the status of a page with a form; a preview is answered, whatever it says."""
    if form is None or form.error is None or form.is_preview:
        return 200
    return status_of(form.error)


def attempt(form: Form, act: Callable[[], Any]) -> Any:
    """Carry out a form; return None and keep the error in it where that is refused."""
    try:
        return act()
    except REFUSALS as error:
        form.refused(error)
        note_refusal(error)
        return None


def note_refusal(error: QuartermasterError) -> None:
    """Log or count a refusal that a page tells, and let the page say when to try again."""
    note(error)

    @after_this_request
    def add_headers(response: Response) -> Response:
        response.headers.update(headers_of(error))
        return response


def plain(text: str) -> str:
    """Return a text that somebody looks for, without blanks around it and control characters."""
    return "".join(filter(str.isprintable, text)).strip()


def resolve(field: str, type_: str, typed_text: str) -> str:
    """Return the id of an object by its id or name, or raise Ambiguous with those it may be."""
    text = plain(typed_text)
    if guid := parse_guid(text):
        return guid
    named = objects.named(type_, text, MOST_CHOICES)
    if len(named) == 1:
        return next(iter(named))
    if named:
        choices = [Choice(id_, f"{name} ({id_[:8]}…)") for id_, name in named.items()]
        fault = f"There are several of that name: choose one {type_}."
        raise Ambiguous(field, fault, choices, is_shared=True)
    choices = [Choice(*found) for found in suggestions(type_, text).items()]
    if choices:
        raise Ambiguous(field, "Nothing has exactly that name: did you mean one of these?", choices)
    raise Ambiguous(field, "Nothing in the catalogue has that name.", [])


def suggestions(type_: str, text: str) -> dict[str, str]:
    """Return the names of some objects whose name holds a text, by id."""
    key = name_key(plain(text))
    if len(key) < SEARCH_LENGTH:
        return {}
    return objects.search_names(type_, key, MOST_CHOICES)


def newest(entries: Sequence[Document]) -> str:
    """Return what a form remembers of the history that its page has shown."""
    return entries[0]["Id"] if entries else NOTHING_SEEN


def newer_than(seen: str, entries: Iterable[Document]) -> list[Document]:
    """Return the entries that have come since a page was shown; none if that is unknown.

    By the version of the document that each has made: the entry that the page has shown need not
    be among these, which are the last ones, or those of one variable.
    """
    shown = _version(seen) if seen else math.inf
    return [entry for entry in entries if _version(entry["Id"]) > shown]


def _version(entry_id: str) -> float:
    """Return the version in the id of an entry; less than any if there is none."""
    _, _, version = [*entry_id.split(":"), "", ""][:3]
    number = decimal(version)
    return -math.inf if number is None else number


class ChangedMeanwhile(Conflict):
    """Somebody else has changed what a form is about to set, since its page was shown."""

    sentence = (
        "Somebody has made a change since you opened this page. Look at it, and send the "
        "form again if you still mean it."
    )


def require_unchanged(form: Form, entries: Sequence[Document], caller_id: str) -> None:
    """Refuse to replace what somebody else has set meanwhile; the next attempt has seen it.

    One's own changes do not count: the form may have been sent twice.
    """
    newer = newer_than(form.seen, entries)
    if any(entry["By"]["UserId"] != caller_id for entry in newer):
        raise ChangedMeanwhile

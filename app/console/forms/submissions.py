"""A form on a page: empty, or with the posted values after a refusal; and as a curl command."""

from __future__ import annotations

import json
import re
import shlex
import uuid
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from flask import Response, after_this_request, current_app, g, request
from werkzeug.exceptions import LengthRequired, UnsupportedMediaType

from app.approvals.kinds import kinds
from app.auth import guard
from app.auth.spending import NeedsApproval, OverLimit
from app.catalogue.store import objects
from app.console.forms.declared import AS_TYPED, CHECKED, Field, Form, Target
from app.console.frame.times import parsed, utc_field
from app.console.history.sentences import GUID, with_names
from app.core.errors import Invalid, KeyReused, QuartermasterError, Unavailable
from app.core.naming import SEARCH_LENGTH, name_key, parse_guid
from app.core.types import Document
from app.http import intents
from app.http.api import Schema
from app.http.errors import headers_of, note, status_of
from app.http.lenient import fields_by_name, respell
from app.http.parser import FORM, load, read_form
from app.http.uploads import is_form_with_file, read_form_with_file

# Fields that no error page shows: the hidden ones of every form, and secrets.
NOT_SHOWN = (
    *("token", "key", "seen", "back", "preview", "choose", "ask"),
    *("password", "new", "again", "code", "state", "own-password", "own-code"),
)
MOST_CHOICES = 12


class Ambiguous(Invalid):
    """A name that matches no object, or several objects, of the catalogue."""

    def __init__(
        self, field: str, fault: str, choices: dict[str, str], is_shared: bool = False
    ) -> None:
        super().__init__(fault, {field: [fault]})
        self.choices = choices
        self.is_shared = is_shared


def plain(text: str) -> str:
    """Return a text without control characters and surrounding blanks."""
    return "".join(filter(str.isprintable, text)).strip()


def query_text(name: str) -> str:
    """Return a value in the query of this page."""
    return plain(request.args.get(name, ""))


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def resolve(field: str, type_: str, typed_text: str) -> str:
    """Return the id of an object by its id or name, or raise Ambiguous with the candidates."""
    text = plain(typed_text)
    if guid := parse_guid(text):
        return guid
    named = objects.find_by_name(type_, text, MOST_CHOICES)
    if len(named) == 1:
        return next(iter(named))
    if named:
        choices = {id_: f"{name} ({id_[:8]}…)" for id_, name in named.items()}
        fault = f"Several objects have that name: choose one {type_}."
        raise Ambiguous(field, fault, choices, is_shared=True)
    choices = suggestions(type_, text)
    fault = "No object in the catalogue has that name."
    if choices:
        fault = "No object has exactly that name. Did you mean one of these?"
    raise Ambiguous(field, fault, choices)


def suggestions(type_: str, text: str) -> dict[str, str]:
    """Return the names of some objects whose name contains a text, by id."""
    key = name_key(plain(text))
    if len(key) < SEARCH_LENGTH:
        return {}
    return objects.names(type_, key, MOST_CHOICES)


def curl(method: str, url: str, headers: Mapping[str, str], data: str = "") -> str:
    """Return a shell command, one option per line; data is its option for what it sends."""
    parts = ["curl" if method == "GET" else f"curl -X {method}"]
    parts.append('-H "Authorization: Bearer $TOKEN"')
    parts += [f"-H {shlex.quote(f'{name}: {text}')}" for name, text in headers.items()]
    return " \\\n  ".join([*parts, *filter(None, [data]), shlex.quote(url)])


def posted() -> dict[str, str]:
    """Return the fields of the form in this request; the first call reads its body.

    A view calls it after authentication; only the sign-in and the page of
    an invitation call it before. Error pages never do.
    """
    if "posted" not in g:
        if is_form_with_file():
            read = read_form_with_file(guard.caller().id)
        elif request.mimetype != FORM:
            raise UnsupportedMediaType("The console accepts only forms.")
        elif request.content_length is None:
            # A thread would wait for the chunks, and no browser sends forms in chunks.
            raise LengthRequired
        else:
            read = read_form()
        # A browser sends the newlines of a text area as CRLF.
        g.posted = {k: v.replace("\r\n", "\n") for k, v in read.items()}
    fields: dict[str, str] = g.posted
    return fields


def typed() -> dict[str, str]:
    """Return the typed fields of the form that was read, without passwords."""
    fields = g.get("posted", {}).items()
    return {k: text for k, text in fields if text and k not in NOT_SHOWN}


SENT_BEFORE = (
    "This form was already sent with other values, and that change was made. To make another "
    "change, send it again."
)
NO_PREVIEW = "Preview shows which slots would change."
_FIELD = re.compile(r"[Tt]he field '(?:\w+\.)?(\w+)'")
_VARIABLE = re.compile(r"<(?:\w+:)?(\w+)>")


class Submission:
    """A form with the typed values."""

    def __init__(self, form: Form, fields: Mapping[str, str] | None = None, row: str = "") -> None:
        self.form = form
        self.name = f"{form.name}-{row}" if row else form.name
        self.fields = dict(fields or {})
        self.is_preview = bool(form.preview and self.value("preview"))
        # Whether it asks a colleague to approve the change, instead of making it.
        self.asks = bool(self.value("ask"))
        self.error: QuartermasterError | None = None
        # The typed values as the API takes them, and after validation.
        self.values: Document = {}
        self.args: Document = {}
        self.key = str(uuid.uuid4())
        self.target = Target("")
        # The entry of a previewed change.
        self.preview: Document | None = None

    @classmethod
    def posted(cls, form: Form, named: Mapping[str, str], row: str = "") -> Submission:
        """Return the posted form; its key and reason apply to the changes of this request.

        Its path has named further fields.
        """
        sent = cls(form, {**posted(), **named}, row)
        key = parse_guid(sent.fields.get("key", ""))
        if key is None:
            raise Invalid("The form is incomplete. Reload the page.")
        sent.key = key
        intents.set_form_headers(key, sent.fields.get("reason", ""))
        g.submitted = sent
        return sent

    @property
    def can_ask(self) -> bool:
        """Whether its page offers to ask a colleague."""
        is_over = isinstance(self.error, OverLimit | NeedsApproval)
        may_ask = (is_over or self.asks) and self.form.asks in kinds()
        return may_ask and bool(guard.caller().rights.roles)

    @property
    def newer(self) -> list[Document]:
        """Return the shown entries that are newer than the page of a refused form."""
        return newer_than(self.value("seen"), self.target.entries or ())

    def value(self, field: str, default: Any = "") -> str:
        return self.fields.get(field, str(default))

    def shown_value(self, field: Field) -> str:
        """Return the value that a page puts into a field; a password or a code is left empty."""
        if field.type == "password" or field.html.get("autocomplete") == "one-time-code":
            return ""
        # What a person cannot see is that of the page, such as the number of a new plan.
        if field.type == "hidden" and field.name in self.target.values:
            return str(self.target.values[field.name])
        text = self.value(field.name, self.target.values.get(field.name) or field.value)
        if field.type == "radio" and text not in field.options():
            return str(field.value)
        return utc_field(text) if field.type == "datetime-local" else text

    def is_checked(self, field: str) -> bool:
        return bool((self.fields or self.target.values).get(field))

    def counts(self, field: Field) -> bool:
        """Tell whether a field is used with the current choice of the form."""
        return not field.only_with or self.shown_value(self.form.choice) in field.only_with

    def choice_classes(self, field: Field) -> str:
        """Return the CSS classes that hide a field while the choice does not use it."""
        if not field.only_with:
            return ""
        choices = enumerate(self.form.choice.options())
        return " only " + " ".join(f"with-{n}" for n, name in choices if name in field.only_with)

    def fault(self, field: str) -> str:
        """Return the error of a field; empty if there is none, and in a preview."""
        if self.is_preview or not isinstance(self.error, Invalid):
            return ""
        # A field of an object is named by its path.
        faults = self.error.fields.items()
        return next((texts[0] for name, texts in faults if name.rpartition(".")[2] == field), "")

    @property
    def refusal(self) -> str:
        """Return why it was refused; empty for a preview, which shows the reason itself."""
        return "" if self.is_preview else self.text

    @property
    def text(self) -> str:
        """Return why it was refused, with the labels of fields and the names of objects."""
        if isinstance(self.error, KeyReused):
            return SENT_BEFORE
        text = _FIELD.sub(self._noun, str(self.error or ""))
        if isinstance(self.error, OverLimit):
            # The name of the limit is for programs.
            text = text.replace(f" ({self.error.field})", "")
        return with_names(text, objects.names_of(GUID.findall(text)))

    def _noun(self, match: re.Match[str]) -> str:
        field = self.form.by_name.get(match[1])
        return f"The {field.label[:1].lower()}{field.label[1:]}" if field else match[0]

    @property
    def choices(self) -> dict[str, str]:
        """Return the candidates for an ambiguous name, by id."""
        return getattr(self.error, "choices", {})

    @property
    def about(self) -> list[str]:
        about = self.form.about
        return list(about(self.target)) if callable(about) else [about] if about else []

    @property
    def button(self) -> str:
        return self.form.button.replace("{name}", self.target.name)

    @property
    def action(self) -> str:
        """Return the path that the form posts to."""
        below = _VARIABLE.sub("", self.form.path_below).strip("/")
        return f"{self.target.path}/{below}".rstrip("/")

    @property
    def last_fields(self) -> list[Field]:
        """Return the fields for the reason and for the confirmation, if the form needs them."""
        form = self.form
        fields: list[Field] = []
        needs_reason = current_app.config["REASON_REQUIRED"] or self.can_ask
        if form.asks_reason or needs_reason:
            html = {"maxlength": 500}
            fields.append(Field("reason", "Reason", is_required=needs_reason, html=html))
        if form.confirm:
            label = f"Type {self.target.name} to confirm"
            name = Field(form.confirm_field, label, form.confirm, is_required=True, html=AS_TYPED)
            fields.append(name)
        return fields

    @property
    def preview_lines(self) -> list[str]:
        """Return the lines of the preview: what would change, or why it would be refused."""
        if self.preview and self.form.preview:
            return list(self.form.preview(self.preview))
        return [self.text if self.is_preview else NO_PREVIEW]

    def load(self, schema: Schema) -> Any:
        """Validate the typed values by a schema of the API; objects may be given by name."""
        given, declared = self.fields.items(), self.form.by_name
        values: Document = {n: text.strip() for n, text in given if text and n not in declared}
        for group in self.form.groups:
            typed: Document = {}
            for field in filter(self.counts, group.fields):
                value = self._typed(field)
                if value or field.type == "checks":
                    typed[field.name] = self._resolved(field, value) if field.object_type else value
            values |= {group.name: typed} if group.name and typed else typed
        self.values = respell(schema, values)
        return load(schema, self.values)

    def _typed(self, field: Field) -> Any:
        """Return what was typed into a field; check boxes are those of the page at first."""
        if field.type == "checks":
            boxes = (self.fields or self.target.values).items()
            names = [name for name, is_on in boxes if is_on and name.startswith(CHECKED)]
            return [name.removeprefix(CHECKED) for name in names]
        if field.type == "check":
            return self.is_checked(field.name)
        text = self.value(field.name)
        if field.is_list:
            return lines_of(text) if field.type == "area" else text.replace(",", " ").split()
        return text if field.type in ("area", "password") else text.strip()

    def _resolved(self, field: Field, typed: Any) -> Any:
        """Return the ids of the objects that were typed by id or by name."""
        if not field.is_list:
            return resolve(field.name, field.object_type, self.fields.get("choose") or typed)
        found = {}
        for text in typed:
            try:
                found[resolve(field.name, field.object_type, text)] = text
            except Ambiguous as error:
                many = "several objects have" if error.is_shared else "no object has"
                fault = f"In the catalogue, {many} the name {text}: enter the id."
                raise Invalid(fault, {field.name: [fault]}) from None
        return [*found]

    def refuse(self, error: QuartermasterError) -> None:
        """Store why it was refused; log or count that, and add headers such as Retry-After.

        If it is unknown whether it was carried out, the next attempt keeps the Idempotency-Key.
        Otherwise the next attempt is a new change with a new key.
        """
        self.error = error
        if not isinstance(error, Unavailable) or self.form.is_secret:
            self.key = str(uuid.uuid4())
        note(error)

        @after_this_request
        def add_headers(response: Response) -> Response:
            response.headers.update(headers_of(error))
            return response

    @property
    def status(self) -> int:
        """Return the HTTP status of its page; that of a preview is always 200."""
        return 200 if self.error is None or self.is_preview else status_of(self.error)

    @property
    def curl(self) -> str:
        """Return the curl command that does the same; empty if the API has no endpoint for it."""
        form = self.form
        method, _, path = form.endpoint(self).partition(" ")
        if not path:
            return ""
        headers = {"Idempotency-Key": self.key if self.fields else "A-NEW-KEY"}
        if reason := self.value("reason"):
            headers["X-Reason"] = quote(reason)
        body, data = form.body(self) if form.body else self.typed_body(path), ""
        if form.file:
            headers["Content-Type"], name = form.file
            data = f"--data-binary {shlex.quote(f'@{name}')}"
        elif body is not None:
            headers["Content-Type"] = "application/json"
            data = f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"
        url = request.host_url.rstrip("/") + _VARIABLE.sub(self._variable, path)
        return curl(method, url, headers, data)

    def _variable(self, match: re.Match[str]) -> str:
        for field in self.form.by_name.values():
            if field.argument == match[1]:
                return str(self.args.get(field.argument) or field.sample)
        return quote(self.target.id, safe=":")

    def typed_body(self, path: str) -> Document | None:
        """Return the body for the API: what was typed, or samples of what has to be."""
        form, body = self.form, dict(self.values)
        in_path = (*form.path_arguments, *_VARIABLE.findall(path))
        for field in [*form.by_name.values(), *(self.last_fields if form.operation else ())]:
            if field.type == "password" or (field.is_required and field.name not in self.values):
                body[field.name] = field.sample
            if field.type == "checks" and not self.values:
                body[field.name] = self._typed(field)
            if field.argument in in_path:
                body.pop(field.name, None)
        if form.operation:
            known = fields_by_name(form.operation.arguments or Schema()).keys() - {*in_path}
            body = {name: value for name, value in body.items() if name in known}
        return body or None


def submitted() -> Submission | None:
    """Return the form of this request, which its page shows again; None if there is none."""
    sent: Submission | None = g.get("submitted")
    return sent


def newer_than(seen: str, entries: Iterable[Document]) -> list[Document]:
    """Return the entries that are newer than the newest that a page showed; [] if unknown."""
    shown = parsed(seen)
    return [entry for entry in entries if entry["At"] > shown] if shown else []


def forms_on(forms: Iterable[Form], target: Target, row: str = "") -> dict[str, Submission]:
    """Return by name the forms that a page offers, including the submitted one."""
    shown, sent = {}, submitted()
    for form in forms:
        one = Submission(form, row=row)
        if sent and sent.name == one.name:
            one = sent
        one.target = target
        may = guard.caller().may(*form.needs)
        if may and (one.error or form.is_offered(target)):
            shown[form.name] = one
    return shown

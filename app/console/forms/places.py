"""The views of declared forms: they carry out a form and redirect, or show a refused form again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from flask import Response

from app.approvals.access import ask
from app.auth import guard
from app.auth.execution import execute, preview
from app.console.forms.declared import FOLDED, NOT_UNDONE, Form
from app.console.forms.submissions import Submission, newer_than, note_refusal
from app.console.frame.pages import (
    PAGE_SIZE,
    blp,
    done,
    path_to,
    redirect_to_action,
    redirect_with_notice,
    required,
)
from app.console.session.doors import ask_for_proof
from app.core.changes import Applied
from app.core.errors import Conflict, Forbidden, Invalid, NotFound, RateLimited, Unavailable
from app.core.naming import name_key
from app.core.permissions import Need, Permission, SignedIn
from app.core.types import Document
from app.game.actions.asking import Answer
from app.history.access import page as history_page
from app.history.access import undo_arguments
from app.http.parser import load
from app.http.path_converters import path_guid

# Errors that are shown beside the form. Other errors get an error page.
REFUSALS = (Invalid, Conflict, NotFound, Forbidden, RateLimited, Unavailable)
# The path variables that are ids.
GUIDS = ("batch_id", "key_id", "object_id", "request_id", "sign_in_id")


class ChangedMeanwhile(Conflict):
    """Somebody else has changed the value that a form sets, since its page was shown."""

    sentence = (
        "Somebody has made a change since you opened this page. Check it, and send the form again "
        "if you still want to."
    )


class Found(NamedTuple):
    """The target of a form: its id, and the name to type for confirmation."""

    id: str
    name: str = ""


class Place(NamedTuple):
    """One kind of page, such as that of a player, with its tabs and forms."""

    # The URL rule, and the path segments before the id.
    rule: str
    parts: tuple[str, ...]
    # The forms on each tab. The path of the first tab is that of the page.
    tabs: Mapping[str, Iterable[Form]]
    # Shows a tab; called with its name, the submitted form, and the variables of the path.
    show: Callable[..., Response]
    # Finds the target of a form by the variables of the path.
    find: Callable[..., Found] = lambda **_: Found("")
    # The kind of documents in history.
    kind: str = ""
    # The permissions to see it; none: it is about the caller's own account.
    needs: tuple[Permission, ...] = ()
    # The tabs that need further permissions.
    tab_needs: Mapping[str, tuple[Permission, ...]] = {}
    # Whether a separate view shows the pages.
    is_shown_elsewhere: bool = False

    def needs_of(self, tab: str, form: Form | None = None) -> tuple[Need, ...]:
        """Return what a caller needs to see a tab, or to send a form on it."""
        own = form.needs if form else ()
        return (*self.needs, *self.tab_needs.get(tab, ()), *own) or (SignedIn.ANYBODY,)

    def rule_of(self, tab: str) -> str:
        return self.rule if tab == next(iter(self.tabs)) else f"{self.rule}/{tab}"

    def page_path(self, id_: Any, tab: str) -> str:
        return path_to(*self.parts, id_, *([tab] if tab != next(iter(self.tabs)) else []))


def register(place: Place) -> None:
    """Add the views of a place and of its forms."""
    name = "_".join(place.parts)
    for tab, forms in place.tabs.items():
        if not place.is_shown_elsewhere:
            show = required(*place.needs_of(tab))(partial(_show, place, tab))
            blp.add_url_rule(place.rule_of(tab), f"{name}_{tab}", show)
        for form in forms:
            path = form.name if form.path is None else form.path
            rule = "/".join(filter(None, [place.rule, path]))
            view = required(*place.needs_of(tab, form))(partial(_receive, place, tab, form))
            blp.add_url_rule(rule, f"{name}_{form.name}", view, methods=["POST"])


def _show(place: Place, tab: str, **path: Any) -> Response:
    return place.show(tab, None, **_checked(path))


def _checked(path: dict[str, Any]) -> dict[str, Any]:
    return {name: path_guid("id", v) if name in GUIDS else v for name, v in path.items()}


def _receive(place: Place, tab: str, form: Form, **variables: Any) -> Response:
    path = _checked(variables)
    asks = form.is_sensitive
    if (asks(**path) if callable(asks) else asks) and (question := ask_for_proof()):
        return question
    sent = Submission.posted(form, path.get(form.row, ""))
    sent.kind = place.kind
    sent.show = partial(place.show, tab)
    outcome = attempt(sent, lambda: _carry_out(place, sent, path))
    if outcome is None or sent.is_preview:
        sent.preview = outcome
        return sent.show(sent, **path)
    if sent.asks:
        return redirect_with_notice("asked", path_to("approvals", outcome["_id"]))
    if form.lead:
        return form.lead(outcome, sent, **path)
    return _lead(place, form.next_tab or tab, outcome, path)


def attempt(sent: Submission, act: Callable[[], Any]) -> Any:
    """Carry out a form; if it is refused, store the error in it and return None."""
    try:
        return act()
    except REFUSALS as error:
        sent.refuse(error)
        note_refusal(error)
        return None


def _carry_out(place: Place, sent: Submission, path: dict[str, Any]) -> Any:
    form = sent.form
    if form.schema:
        sent.args = sent.load(form.schema)
    # The form itself may have deleted its target: a repeated submission gets the same answer.
    with suppress(NotFound):
        found = place.find(**path)
        if form.confirm and form.confirm_field == "confirm":
            _require_name(place, sent, found.name)
        if form.replaces is not None:
            changed = form.replaces.format(**sent.args, **path)
            _require_unchanged(sent, _changes_of(place, sent, found.id, changed))
    if sent.asks:
        return _ask(sent, path)
    if form.act:
        return form.act(sent, **path)
    make = preview if sent.is_preview else execute
    operation: Any = form.operation
    return make(operation, next(iter(path.values()), None), arguments(sent))


def arguments(sent: Submission) -> Document:
    """Return the arguments of a form's operation: the typed values, or the body made of them."""
    form = sent.form
    if form.body and form.operation and form.operation.arguments:
        args: Document = load(form.operation.arguments, form.body(sent))
        return args
    return sent.args


def _ask(sent: Submission, path: dict[str, Any]) -> Document:
    """Ask a colleague to approve what a form would do; the page of an entry is about its undo."""
    subject = str(next(iter(path.values()), ""))
    body = (sent.form.body(sent) if sent.form.body else None) or {}
    undone = undo_arguments(subject, "Partial" in body)
    args = undone if "entry_id" in path else arguments(sent)
    return ask(sent.form.asks, subject, args)[0]


def _require_name(place: Place, sent: Submission, name: str) -> None:
    """Refuse a form unless the name of its target is typed as confirmation."""
    if name_key(sent.value("confirm").strip()) != name_key(name.strip()):
        is_final = sent.form.confirm == NOT_UNDONE
        verb = f" to {sent.form.title.rstrip(FOLDED).lower()} this {place.kind}"
        fault = f"Type {name} here{': this cannot be undone' if is_final else verb}."
        raise Invalid(fault, {"confirm": [fault]})


def _require_unchanged(sent: Submission, entries: list[Document]) -> None:
    """Refuse to overwrite a change that somebody else made since the page was shown.

    The caller's own changes in the console do not count: the form may have been sent twice. Those
    by a key of the account do: a program made them.
    """
    own = (guard.caller().id, "console")
    for entry in newer_than(sent.value("seen"), entries):
        if (entry["By"]["UserId"], entry["Via"]) != own:
            raise ChangedMeanwhile


def _changes_of(place: Place, sent: Submission, id_: str, changed: str) -> list[Document]:
    """Return the latest entries that changed a part of the form's target; "": any part."""
    fields = sent.form.by_name.values()
    named = [sent.args.get(one.argument) for one in fields if one.object_type]
    filters = {"item": named[0]} if named else {}
    entries = history_page(filters, PAGE_SIZE, (place.kind,), id_).values
    if not changed:
        return list(entries)
    return [entry for entry in entries if any(c["Path"] == changed for c in entry["Changes"])]


def _lead(place: Place, tab: str, outcome: Any, path: dict[str, Any]) -> Response:
    """Redirect from a form to the page that shows its result."""
    if isinstance(outcome, Answer):
        return redirect_to_action(outcome, place.page_path(outcome.action["Subject"]["Id"], tab))
    applied: Applied = outcome
    id_ = applied.entry["Subject"]["Id"] if applied.entry else next(iter(path.values()))
    return done(applied, place.page_path(id_, tab))

"""The views of declared forms: they carry out a form and redirect, or show a refused form again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flask import Response, g

from app.approvals.access import ask
from app.auth import guard
from app.auth.execution import execute, preview
from app.console.forms.declared import FOLDED, NOT_UNDONE, Form, Target
from app.console.forms.submissions import Submission, newer_than
from app.console.frame.pages import PAGE_SIZE, blp, done, path_to, redirect_with_notice, required
from app.console.session.doors import ask_for_proof
from app.core.changes import Applied
from app.core.errors import Conflict, Invalid, NotFound, QuartermasterError
from app.core.naming import Lookup, name_key
from app.core.permissions import Need, Permission, SignedIn
from app.history.access import page as history_page

ANYBODY = (SignedIn.ANYBODY,)


class ChangedMeanwhile(Conflict):
    """Somebody else has changed the value that a form sets, since its page was shown."""

    sentence = (
        "Somebody has made a change since you opened this page. Check it, and send the form again "
        "if you still want to."
    )


@dataclass(frozen=True)
class Place:
    """One kind of page, such as that of a player, with its tabs and forms. It adds their views."""

    # The URL rule.
    rule: str
    # The forms on each tab. The path of the first tab is that of the page.
    tabs: Mapping[str, Iterable[Form]]
    # Shows a tab; called with its name, if there are several, and the variables of the path.
    show: Callable[..., Response]
    # Finds the target of a form by the variables of the path.
    find: Callable[..., Target] = lambda **_: Target("")
    # The permissions to see it; none: it is about the caller's own account.
    needs: tuple[Need, ...] = ()
    # The tabs that need further permissions.
    tab_needs: Mapping[str, tuple[Permission, ...]] = field(default_factory=dict)
    # Whether it is about the caller's own account, which is then the first variable.
    is_own: bool = False

    def __post_init__(self) -> None:
        name = self.rule.strip("/").replace("/", "_")
        for tab, forms in self.tabs.items():
            needs = (*self.needs, *self.tab_needs.get(tab, ()))
            show = partial(self.show, tab) if len(self.tabs) > 1 else self.show
            view = required(*(needs or ANYBODY))(partial(self._call, show))
            blp.add_url_rule("/".join((self.rule, *self.below(tab))), f"{name}_{tab}", view)
            for form in forms:
                receive = partial(self._call, partial(self._receive, tab, show, form))
                view = required(*((*needs, *form.needs) or ANYBODY))(receive)
                rule = f"{self.rule}/{form.path_below}".rstrip("/")
                blp.add_url_rule(rule, f"{name}_{tab}_{form.name}", view, methods=["POST"])

    def below(self, tab: str) -> tuple[str, ...]:
        """Return the segments of a tab below the path of the page."""
        return () if tab == next(iter(self.tabs)) else (tab,)

    def page_path(self, tab: str, *ids: Any) -> str:
        """Return the path of a tab; a page of all leads to that of the one with an id."""
        left = iter(ids)
        parts = [next(left) if "<" in part else part for part in self.rule.split("/")[1:]]
        return path_to(*parts, *left, *self.below(tab))

    def _call(self, view: Callable[..., Response], **path: Any) -> Response:
        own = {"key": Lookup.parse(guard.caller().id)} if self.is_own else {}
        return view(**own, **path)

    def _receive(
        self, tab: str, show: Callable[..., Response], form: Form, **path: Any
    ) -> Response:
        asks = form.is_sensitive
        if (asks(**path) if callable(asks) else asks) and (question := ask_for_proof()):
            return question
        named = {name: path[variable] for name, variable in form.path_arguments.items()}
        sent = Submission.posted(form, named, path.get(form.row, ""))
        try:
            outcome = _carry_out(self, sent, path)
        except QuartermasterError as error:
            sent.refuse(error)
            return show(**path)
        if sent.is_preview:
            sent.preview = outcome
            return show(**path)
        # It was carried out: in the rest of this request, its page shows it empty.
        del g.submitted
        if sent.asks or form.is_request:
            return redirect_with_notice("asked", path_to("approvals", outcome["_id"]))
        if form.shows_outcome:
            return show(made=outcome, **path)
        if form.lead:
            return form.lead(outcome, sent, **path)
        ids = [*path.values()][: self.rule.count("<")]
        if form.notice:
            return redirect_with_notice(form.notice, self.page_path(tab, *ids))
        if isinstance(outcome, Applied) and outcome.entry and not self.is_own:
            # A new name leads to the page of that name, and a new role to its page.
            ids = [outcome.entry["Subject"]["Id"]]
        return done(outcome, self.page_path(tab, *ids))


def _carry_out(place: Place, sent: Submission, path: dict[str, Any]) -> Any:
    """Check a form, and then ask a colleague, make a preview, or do what the form is for."""
    form = sent.form
    operation: Any = form.operation
    if form.schema:
        sent.args = sent.load(form.schema)
    # The form itself may have deleted its target: a repeated submission gets the same answer.
    with suppress(NotFound):
        found = place.find(**path)
        if form.confirm and form.confirm_field == "confirm":
            _require_name(sent, found.name)
        if form.replaces is not None:
            changed = form.replaces.format(**sent.args, **path)
            _require_unchanged(sent, operation.subject, found.id, changed)
    key = next(iter(path.values()), None)
    if sent.asks or form.is_request:
        return ask(form.asks, str(key or ""), sent.args).answer
    if form.act:
        return form.act(*path.values(), *([sent.args] if form.schema else []))
    make = preview if sent.is_preview else execute
    return make(operation, key, sent.args)


def _require_name(sent: Submission, name: str) -> None:
    """Refuse a form unless the name of its target is typed as confirmation."""
    if name_key(sent.value("confirm").strip()) != name_key(name.strip()):
        form, fault = sent.form, f"Type {name} here: this cannot be undone."
        if form.operation and form.confirm != NOT_UNDONE:
            verb = form.title.rstrip(FOLDED).lower()
            fault = f"Type {name} here to {verb} this {form.operation.subject}."
        raise Invalid(fault, {"confirm": [fault]})


def _require_unchanged(sent: Submission, kind: str, id_: str, changed: str) -> None:
    """Refuse to overwrite a change that somebody else made since the page was shown.

    It looks for that part of the target among the latest changes; "": for any part. The caller's
    own changes in the console do not count: the form may have been sent twice. Those by a key of
    the account do: a program made them.
    """
    own = (guard.caller().id, "console")
    entries = history_page({}, PAGE_SIZE, (kind,), id_).values
    for entry in newer_than(sent.value("seen"), entries):
        is_same = not changed or any(one["Path"] == changed for one in entry["Changes"])
        if is_same and (entry["By"]["UserId"], entry["Via"]) != own:
            raise ChangedMeanwhile

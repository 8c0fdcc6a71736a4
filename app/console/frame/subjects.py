"""The tabs of the pages of players and users, and the pages of deleted or erased ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.permissions import Permission
from app.console.forms.declared import Form, Target
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.pages import PAGE_SIZE, path_to, render, see_other
from app.console.history.tables import changes_of, timeline
from app.console.home.recently_viewed import remember
from app.console.session.sessions import SAFE_METHODS
from app.errors import NotFound
from app.types import Document

LAST_CHANGES = 6
# The tabs with the same template for players and users.
SHARED_TABS = ("history", "notes")


def changes_on_tab(kind: str, id_: str, tab: str) -> dict[str, Any]:
    """Return the changes that a tab shows: a page of all, or the latest."""
    if tab == "history" and kind == "player":
        return timeline(id_, PAGE_SIZE, request.args.get("after", ""))
    if tab == "history":
        return changes_of(kind, id_, PAGE_SIZE, request.args.get("after", ""))
    return changes_of(kind, id_, LAST_CHANGES)


def subject_page(
    tab: str, sent: Submission | None, target: Target, declared: Sequence[Form], **shown: Any
) -> Response:
    """Return a tab of the page of a player or a user."""
    part = shown["page"]
    shown.setdefault("forms", forms_on(declared, target, sent))
    titles = list(dict.fromkeys(form.card_title for form in declared))
    folder = "frame" if tab in SHARED_TABS else part
    template = f"{folder}/{tab.replace('-', '_')}.html"
    response = render(template, sent=sent, tab=tab, id=target.id, card_titles=titles, **shown)
    remember(response, part, target.id)
    return response


def gone_page(
    kind: str,
    id_: str | None,
    tab: str,
    sent: Submission | None,
    error: NotFound,
    describe: Callable[[str, list[Document]], Document | None],
) -> Response:
    """Return the page of a deleted player or erased user; raise the error if there was none."""
    if id_ is None or not guard.caller().may(Permission.HISTORY_READ):
        raise error
    changes = changes_of(kind, id_, PAGE_SIZE, request.args.get("after", ""))
    described = describe(id_, changes["entries"])
    if described is None:
        raise error
    part = f"{kind}s"
    if request.method in SAFE_METHODS and tab != "history":
        return see_other(path_to(part, id_, "history"))
    return render(f"{part}/gone.html", sent=sent, page=part, id=id_, **described, **changes)


def offer_no_undo(entries: list[Document], but: Document | None = None) -> None:
    """Remove the offers to undo changes of somebody who no longer exists."""
    for entry in entries:
        entry["CanUndo"] = entry["CanUndo"] and entry is but

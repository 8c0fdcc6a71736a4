"""The pages of those who are gone: deleted players and erased people. Their history stays."""

from __future__ import annotations

from flask import Response, request

from app.console.forms.submissions import Submission
from app.console.frame.pages import PAGE_SIZE, path_to, render, see_other
from app.console.history.tables import changes_part
from app.console.session.sessions import SAFE_METHODS
from app.errors import NotFound
from app.http.context import current
from app.naming import Lookup
from app.players.domain import DELETED_AT
from app.players.store import Players
from app.privacy.domain import served
from app.privacy.store import Erasures
from app.types import Document

erasures = current(Erasures)
players = current(Players)


def deleted_player_page(
    key: Lookup, tab: str, sent: Submission | None, error: NotFound
) -> Response:
    """Return the page of a player who was deleted or erased: its history, which stays."""
    id_ = key.id or players.get_id_ever(key)
    part = changes_part("player", id_, PAGE_SIZE, sent, request.args.get("after", ""))
    if not part["entries"]:
        raise error
    if request.method in SAFE_METHODS and tab != "history":
        return see_other(path_to("players", id_, "history"))
    name = part["entries"][0]["Subject"]["Name"]
    marks = (entry for entry in part["entries"] if DELETED_AT in paths_of(entry))
    deletion = next(marks, None)
    offer_no_undo(part["entries"], but=deletion if name is not None else None)
    return render(
        "players/deleted.html",
        sent=sent,
        page="players",
        id=id_,
        name=name,
        deletion=deletion,
        **part,
    )


def offer_no_undo(entries: list[Document], but: Document | None = None) -> None:
    """Offer no undo of what was done to somebody who is not there."""
    for entry in entries:
        entry["CanUndo"] = entry["CanUndo"] and entry is but


def paths_of(entry: Document) -> set[str]:
    return {change["Path"] for change in entry["Changes"]}


def erased_user_page(
    id_: str | None, tab: str, sent: Submission | None, error: NotFound
) -> Response:
    """Return the page of somebody who was erased, or is being erased: what went, what stayed."""
    if id_ is None:
        raise error
    part = changes_part("user", id_, PAGE_SIZE, sent, request.args.get("after", ""))
    offer_no_undo(part["entries"])
    record = erasures.find(id_, None)
    if record is None and not part["entries"]:
        raise error
    if request.method in SAFE_METHODS and tab != "history":
        return see_other(path_to("users", id_, "history"))
    return render(
        "users/erased.html",
        sent=sent,
        page="users",
        id=id_,
        erasure=record and served(record),
        **part,
    )

"""What can be asked for: how to find, preview and make it. Rooms above add kinds of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from app.approvals.domain import as_planned
from app.auth.callers import Caller
from app.auth.permissions import Permission
from app.auth.spending import Moved
from app.batches import access as batch_access
from app.batches.store import Batches
from app.changes import Applied, Intent
from app.execution import make, preview
from app.history.access import preview_undo, undo_as, visible_entry
from app.history.domain import inverse_of
from app.history.operations import UNDO
from app.history.store import History
from app.http.context import current
from app.http.intents import previewed_intent
from app.http.path_converters import path_guid
from app.naming import Lookup
from app.objects import domain as objects
from app.operations import Operation, all_operations
from app.players import domain as players_domain
from app.players.deletion.store import Deletions
from app.players.operations import DELETE
from app.players.store import Players
from app.types import Document
from app.users import domain as users

batches = current(Batches)
deletions = current(Deletions)
history = current(History)
players = current(Players)

RUN_BATCH = "run-batch"
SUBJECTS = {kind.name: kind for kind in (players_domain.SUBJECT, users.SUBJECT, objects.SUBJECT)}


class Kind(NamedTuple):
    """Something that can be asked for. The functions take the request as it is stored."""

    # The schema of its arguments; None: no arguments.
    arguments: Any
    # Returns the subject by its name or id, or by the arguments; raises NotFound.
    find: Callable[[str, Document], Document]
    # Raises unless a caller may do it, whatever the limits.
    require: Callable[[Caller, Document], None]
    # Returns the changes that it would make, or raises why it is impossible.
    preview: Callable[[Document], list[Document]]
    make: Callable[[Document, Intent], Applied]
    # The items that it moves.
    moves: Callable[[Document], Moved] = lambda _: None
    # Raises unless the limits of the approver allow it, if that is not a matter of moved items.
    require_limits: Callable[[Caller, Document], None] = lambda *_: None
    # What pages call it, if its plan has no changes.
    title: str = ""


def find_player(text: str, _: Document) -> Document:
    identity = players.identity(Lookup.parse(text))
    return {"Kind": "player", "Id": identity.id, "Name": identity.name}


def key_of(request: Document) -> Lookup:
    return Lookup.parse(request["Subject"]["Id"])


def operation_kind(operation: Operation) -> Kind:
    """Return the kind of an operation on a player that moves items."""

    def preview_changes(request: Document) -> list[Document]:
        found = preview(operation, players, key_of(request), request["Arguments"])
        changes: list[Document] = found["Changes"]
        return changes

    def make_change(request: Document, meant: Intent) -> Applied:
        planned = partial(as_planned, kind=players_domain.SUBJECT, plan=request["Plan"])
        return make(operation, players, key_of(request), request["Arguments"], meant, planned)

    moves: Any = operation.moves
    return Kind(
        operation.arguments,
        find_player,
        lambda caller, _: caller.require(*operation.permissions),
        preview_changes,
        make_change,
        lambda request: moves(request["Arguments"]),
    )


def preview_deletion(request: Document) -> list[Document]:
    """Raise if a player cannot be deleted. The change contains the time, so it is not a plan."""
    deletions.preview_delete(key_of(request), previewed_intent(DELETE, {}))
    return []


def find_changed(_: str, args: Document) -> Document:
    """Return the subject of the entry that an undo is about."""
    subject: Document = visible_entry(args["id"])["Subject"]
    return subject


def entry_of(request: Document) -> Document:
    return history.get(request["Arguments"]["id"])


def require_undo(caller: Caller, request: Document) -> None:
    is_own = entry_of(request)["By"]["UserId"] == caller.id
    caller.require(Permission.UNDO_OWN if is_own else Permission.UNDO_ANY)
    if request["Subject"]["Kind"] == "user":
        caller.require(Permission.USERS_READ)


def undo_moves(request: Document) -> Moved:
    entry = entry_of(request)
    moves = inverse_of(entry).moves
    return moves(entry["Changes"]) if callable(moves) else moves


def undo_preview(request: Document) -> list[Document]:
    changes: list[Document] = preview_undo(entry_of(request))["Changes"]
    return changes


def make_undo(request: Document, meant: Intent) -> Applied:
    entry = entry_of(request)
    kind = SUBJECTS[entry["Subject"]["Kind"]]
    planned = partial(as_planned, kind=kind, plan=request["Plan"])
    return undo_as(entry, meant._replace(undoes=entry), planned)


def find_batch(batch_id: str, _: Document) -> Document:
    batch = batch_access.visible_batch(path_guid("id", batch_id))
    return {"Kind": "batch", "Id": batch["_id"], "Name": batch["Name"] or None}


def batch_of(request: Document) -> Document:
    return batches.get(request["Subject"]["Id"])


def approve_batch(request: Document, meant: Intent) -> Applied:
    """Let the person who asked run a batch; running it is up to that person."""
    by, for_id = meant.origin.approved_by, meant.origin.user_id
    batches.approve(request["Subject"]["Id"], by or {}, str(for_id))
    return Applied(None)


KINDS = {
    DELETE.name: Kind(
        None,
        find_player,
        lambda caller, _: caller.require(*DELETE.permissions),
        preview_deletion,
        lambda request, meant: deletions.delete(key_of(request), meant),
        lambda _: str(DELETE.moves),
        title="Delete the character",
    ),
    UNDO.name: Kind(
        UNDO.arguments, find_changed, require_undo, undo_preview, make_undo, undo_moves
    ),
    RUN_BATCH: Kind(
        None,
        find_batch,
        lambda caller, request: batch_access.require_permissions(caller, batch_of(request)),
        lambda _: [],
        approve_batch,
        require_limits=lambda caller, request: batch_access.require_limits(
            caller, batch_of(request)
        ),
        title="Run the batch",
    ),
}


def kinds() -> dict[str, Kind]:
    """Return by name what can be asked for."""
    moving = [o for o in all_operations() if callable(o.moves) and callable(o.prepare)]
    return {**{o.name: operation_kind(o) for o in moving if o.subject == "player"}, **KINDS}

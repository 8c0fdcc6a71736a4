"""Which entries a caller may see, and the ways to list and to undo them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.auth import guard
from app.catalogue.store import ObjectKey, objects
from app.core.changes import KINDS, Applied, Intent
from app.core.naming import Lookup
from app.core.operations import ANY, BatchRow, Moved, Operation, OwnInverse
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.history.domain import inverse_of
from app.history.schemas import UndoRowArgs
from app.history.store import filters_of, history
from app.http.cursors import cursors
from app.players.store import players
from app.players.variables.domain import GLOBAL
from app.storage.changes import Changes
from app.users.store import users


class Undos:
    """The changes by undos, which are of every kind of documents."""

    def find_earlier(self, _: Any, meant: Intent) -> Applied | None:
        """Return the result of the same request from before; None if it is new."""
        store, key = _subject_of(history.get(meant.arguments["Id"]))
        return store.find_earlier(key, meant)


def undo(_: Any, args: Document, meant: Intent) -> Applied:
    """Undo a change, or as much of it as possible; a preview only returns the entry."""
    entry = history.get(args["id"])
    return undo_entry(entry, meant._replace(undoes=entry))


def undo_entry(entry: Document, meant: Intent) -> Applied:
    inverse = inverse_of(entry)
    if isinstance(inverse, OwnInverse):
        return inverse.make(entry, meant)
    store, key = _subject_of(entry)
    return store.change(key, *inverse.prepare(entry["Changes"], meant))


def moved_by_undo(args: Document) -> Moved:
    entry = history.get(args["id"])
    return inverse_of(entry).moves(entry["Changes"])


def require_undoable(_: Any, args: Document) -> None:
    """Raise unless the caller may see and undo an entry."""
    require_own(visible_entry(args["id"]))


UNDO = Operation(
    name="undo",
    subject=ANY,
    needs=(Permission.UNDO_OWN,),
    arguments=UndoRowArgs(),
    store=Undos(),
    run=undo,
    requires=(require_undoable,),
    inverse=None,
    moves=moved_by_undo,
    batch=BatchRow(order="Undo", orders="Undo {changes}"),
    notice="Undid a change of {whom}: {lines}.",
)


# The kinds of subjects whose history needs a permission of its own.
NEEDED = {"user": Permission.USERS_READ, "role": Permission.STAFF_MANAGE}


def visible_entry(entry_id: str) -> Document:
    entry = history.get(entry_id)
    if needed := NEEDED.get(entry["Subject"]["Kind"]):
        guard.caller().require(needed)
    return entry


def require_own(entry: Document) -> None:
    """Raise if the entry is somebody else's, and the caller may only undo own changes."""
    caller = guard.caller()
    if entry["By"]["UserId"] != caller.id:
        caller.require(Permission.UNDO_ANY)


def visible_entries(entry_ids: Sequence[str]) -> dict[str, Document]:
    """Return by id the entries that exist and that the caller may see."""
    found, kinds = history.get_many(entry_ids), visible_kinds()
    return {id_: entry for id_, entry in found.items() if entry["Subject"]["Kind"] in kinds}


def search(args: Document, size: int) -> CursorPage:
    """Return a page of the entries that the caller may see, of one player or user, or of all."""
    if "user" in args:
        require_users()
    query = query_of(args, visible_kinds())
    return history.list(query, size, cursors.read(args.get("after", "")))


def query_of(args: Document, kinds: tuple[str, ...]) -> Document:
    """Return the query for the entries of one player or user, or for all of some kinds."""
    subject = None
    for kind, store in (("user", users), ("player", players)):
        if kind in args:
            # An entry has one subject: none matches both a player and a user.
            kinds = () if subject else (kind,)
            key = Lookup.parse(args[kind])
            # An id need not exist, because history outlives players.
            subject = key.id or store.get_id_by_any_name(key)
    return filters_of(args, kinds, subject)


def page(
    args: Document, size: int, kinds: tuple[str, ...], subject: str | None = None
) -> CursorPage:
    """Return a page of entries about some kinds of documents, or about one document."""
    return history.list(filters_of(args, kinds, subject), size, cursors.read(args.get("after", "")))


def undo_arguments(entry_id: str, is_partial: bool) -> Document:
    return {"id": entry_id, **({"is_partial": True} if is_partial else {})}


def _subject_of(entry: Document) -> tuple[Changes, Lookup | ObjectKey]:
    """Return the subject of an entry: the store that changes it, and its key."""
    kind, id_ = entry["Subject"]["Kind"], entry["Subject"]["Id"]
    if kind == "object":
        return objects, ObjectKey(GLOBAL, id_)
    return users if kind == "user" else players, Lookup.parse(id_)


def with_current_names(records: list[Document]) -> list[Document]:
    """Give the subjects of records their current names; what is gone keeps its former."""
    subjects = [record["Subject"] for record in records if record["Subject"]]
    for kind, store in (("player", players), ("user", users)):
        found = store.get_many([one["Id"] for one in subjects if one["Kind"] == kind], "Name")
        for one in subjects:
            one["Name"] = found.get(one["Id"], one).get("Name") or one["Name"]
    return records


def visible_kinds() -> tuple[str, ...]:
    """Return the kinds of documents whose entries the caller may see."""
    return tuple(kind for kind in KINDS if kind not in hidden_kinds())


def hidden_kinds() -> tuple[str, ...]:
    """Return the kinds of documents about which the caller may see nothing."""
    return tuple(kind for kind, needed in NEEDED.items() if not guard.caller().may(needed))


def sees_users() -> bool:
    """Tell whether the caller may see entries, rows and actions about users."""
    return guard.caller().may(Permission.USERS_READ)


def require_users() -> None:
    """Raise unless the caller may see entries, rows and actions about users."""
    guard.caller().require(Permission.USERS_READ)

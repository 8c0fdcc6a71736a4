"""Which entries a caller may see, and the ways to list and to undo them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from app.auth import guard
from app.auth.roles import Role
from app.auth.scopes import Scope
from app.auth.spending import refuse_budgets, spend
from app.changes import Applied, Intent
from app.errors import NotFound
from app.history.domain import filters_of, is_of_user, undone_by
from app.history.store import EntryPage, History
from app.history.undo import Inverses
from app.http.context import current
from app.http.cursors import Cursors
from app.http.intents import keyed_intent, previewed_intent
from app.items.undo import quantities
from app.naming import Lookup
from app.objects.store import Objects
from app.players.deletion.store import Deletions
from app.players.store import Players
from app.types import Document
from app.users.store import Users
from app.variables.server.domain import TYPE

# Whose history a caller sees with the role api alone.
WITHOUT_USERS = ("player", "bag", "object")

cursors = current(Cursors)
deletions = current(Deletions)
history = current(History)
inverses = current(Inverses)
objects = current(Objects)
players = current(Players)
users = current(Users)


def visible_entry(entry_id: str) -> Document:
    """Return an entry that the caller may see."""
    if is_of_user(entry_id):
        # Before it is looked for: whether it exists is not told either.
        require_users()
    return history.get(entry_id)


def entry_to_undo(entry_id: str) -> Document:
    """Return an entry that the caller may see; that there is none, a majority confirms."""
    try:
        return visible_entry(entry_id)
    except NotFound:
        history.confirm_missing(entry_id)
        raise


def visible_entries(entry_ids: Sequence[str]) -> dict[str, Document]:
    """Return by id those of some entries that exist and that the caller may see."""
    may_see_users = sees_users()
    return history.get_many([id_ for id_ in entry_ids if may_see_users or not is_of_user(id_)])


def search(args: Document, size: int) -> EntryPage:
    """Return a page of all entries that the caller may see, or of those of a player or a user."""
    if "user" in args:
        require_users()
        # No entry is about a player and a user.
        return page(args, size, () if "player" in args else ("user",), _user_id(args["user"]))
    if "player" in args:
        return page(args, size, ("player",), _player_id(args["player"]))
    return page(args, size, visible_kinds())


def page(
    args: Document, size: int, kinds: tuple[str, ...], subject: str | None = None
) -> EntryPage:
    """Return a page of entries about some kinds of documents, or about one document."""
    return history.list(filters_of(args, kinds, subject), size, cursors.read(args.get("after", "")))


def preview_undo(entry: Document) -> Document:
    """Return the entry that undoing a change would have, or raise why it cannot be undone."""
    return preview_undo_as(entry, previewed_intent("undo", entry, Id=entry["_id"]))


def preview_undo_as(entry: Document, meant: Intent) -> Document:
    """Return the same for an intent that is no request of its own, such as a row of a batch."""
    if undone_by(entry) == "deletion":
        history.require_not_undone(entry["_id"])
        preview, _ = _ways_to_move(entry)
        return preview(meant)
    inverse = inverses.of(entry)
    preview, _ = _ways_to(entry["Subject"])
    history.require_not_undone(entry["_id"])
    return preview(*inverse, meant)


def undo(entry: Document) -> Applied:
    """Undo a change."""
    meant = keyed_intent("undo", {"Id": entry["_id"]}, entry)
    if undone_by(entry) == "deletion":
        refuse_budgets("deleting a player, and bringing one back,")
    if undone_by(entry) != "items":
        return undo_as(entry, meant)
    return spend(
        quantities(entry["Changes"]),
        partial(undo_as, entry, meant),
        partial(players.find_earlier, Lookup.parse(entry["Subject"]["Id"]), meant),
    )


def undo_as(entry: Document, meant: Intent) -> Applied:
    """Undo a change for an intent, whatever budget its caller has."""
    if undone_by(entry) == "deletion":
        _, move = _ways_to_move(entry)
        return move(meant)
    inverse = inverses.of(entry)
    _, change = _ways_to(entry["Subject"])
    return change(*inverse, meant)


def _ways_to(subject: Document) -> tuple[Callable[..., Document], Callable[..., Applied]]:
    """Return what previews a change of a document, and what makes it."""
    if subject["Kind"] == "object":
        variable = (TYPE, subject["Id"])
        return partial(objects.preview, *variable), partial(objects.change, *variable)
    store = users if subject["Kind"] == "user" else players
    key = Lookup.parse(subject["Id"])
    return partial(store.preview, key), partial(store.change, key)


def _ways_to_move(entry: Document) -> tuple[Callable[..., Document], Callable[..., Applied]]:
    """Return what previews and what makes the undo of a deletion, or of the undo of one."""
    id_ = entry["Subject"]["Id"]
    if entry["Changes"][0]["After"] is not None:
        return partial(deletions.preview_restore, id_), partial(deletions.restore, id_)
    key = Lookup.parse(id_)
    return partial(deletions.preview_delete, key), partial(deletions.delete, key)


def visible_kinds() -> tuple[str, ...]:
    """Return about which kinds of documents the caller may see entries."""
    return (*WITHOUT_USERS, "user") if sees_users() else WITHOUT_USERS


def sees_users() -> bool:
    """Tell whether the caller may see what is told about users: entries, rows and actions."""
    return guard.caller().may(Role.USERS_QUERY, Scope.USERS_READ)


def require_users() -> None:
    """Raise unless the caller may see what is told about users."""
    caller = guard.caller()
    caller.require(Role.USERS_QUERY)
    caller.require_scope(Scope.USERS_READ)


def _player_id(text: str) -> str:
    """Return the id of a player; an id needs no player, whose history may outlive it."""
    key = Lookup.parse(text)
    return key.id or players.get_id_by_any_name(key)


def _user_id(text: str) -> str:
    key = Lookup.parse(text)
    return key.id or users.get_id_by_any_name(key)

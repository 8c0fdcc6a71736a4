"""Renaming and deleting players, and setting their level and class."""

from __future__ import annotations

from functools import partial

from app.catalogue.store import in_catalogue, objects
from app.core.changes import Applied, Change, Intent
from app.core.naming import Lookup
from app.core.operations import (
    BatchRow,
    Inverse,
    Operation,
    OwnInverse,
    ReadsAndRule,
    UnknownItems,
    no_items,
)
from app.core.permissions import Permission
from app.core.types import Document
from app.http.context import setting
from app.players.domain import (
    DELETED_AT,
    NAME_FIELDS,
    rename,
    require_name,
    restore_fields,
    set_level,
    undo_rename,
)
from app.players.schemas import (
    RenameArgs,
    SetClassArgs,
    SetLevelArgs,
)
from app.players.store import players


def prepare_rename(args: Document) -> ReadsAndRule:
    require_name(args["Name"], setting)
    return NAME_FIELDS, partial(rename, name=args["Name"])


def delete(key: Lookup, _: Document, intent: Intent) -> Applied:
    return players.remove(key, intent)


def preview_delete(key: Lookup, _: Document, intent: Intent) -> list[Document]:
    """Raise if a player cannot be deleted. The change contains the time, so it is not a plan."""
    players.remove(key, intent)
    return []


def undo_deletion(entry: Document, intent: Intent) -> Applied:
    """Restore a player, or delete it again if the entry is the undo of a deletion."""
    id_ = entry["Subject"]["Id"]
    if entry["Changes"][0]["After"] is None:
        return players.remove(Lookup.parse(id_), intent)
    return players.restore(id_, intent)


def set_class(player: Document, *, class_id: str) -> Change:
    """Set the class of a player; the game adapts whatever depends on it."""
    name = objects.names_of([class_id]).get(class_id, "")
    fields = {"ClassId": class_id, "ClassName": name}
    return Change(fields, {"Id": player["_id"], **fields})


RENAME = Operation(
    name="rename",
    subject="player",
    needs=(Permission.PLAYERS_RENAME,),
    arguments=RenameArgs(),
    store=players,
    prepare=prepare_rename,
    # A name is unique: a duplicate key must not fail the other changes of a bulk write.
    inverse=Inverse(fields=("Name",), rule=undo_rename, reads=NAME_FIELDS, in_bulk=False),
    moves=no_items,
    notice="{whom} is called {Name} now.",
)
DELETE = Operation(
    name="delete-player",
    subject="player",
    needs=(Permission.PLAYERS_DELETE,),
    arguments=None,
    title="Delete the character",
    run=delete,
    preview=preview_delete,
    inverse=OwnInverse(
        fields=(DELETED_AT,),
        moves=UnknownItems("deleting a player, and bringing one back,"),
        make=undo_deletion,
    ),
    moves=UnknownItems("deleting a player"),
    notice="Deleted {whom}.",
)
# A change of one player, which moves no items.
player_change = partial(
    Operation,
    subject="player",
    needs=(Permission.PLAYERS_CHANGE,),
    store=players,
    moves=no_items,
)
LEVEL = ("Level", "Exp")
SET_LEVEL = player_change(
    name="set-level",
    arguments=SetLevelArgs(),
    reads=LEVEL,
    rule=set_level,
    inverse=Inverse(fields=LEVEL, rule=restore_fields),
    batch=BatchRow(order="Set the level to {Level}", orders="Set the level of {whom}"),
    notice="{whom} has the level {Level} now.",
)
CLASS = ("ClassId", "ClassName")
SET_CLASS = player_change(
    name="set-class",
    arguments=SetClassArgs(),
    reads=CLASS,
    rule=set_class,
    inverse=Inverse(fields=CLASS, rule=restore_fields),
    in_catalogue=in_catalogue("class", "class_id"),
)

"""Renaming and deleting players, and changing single values of them.

Each has its rule, schemas, operation and route.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from app.auth.execution import change_route
from app.catalogue.domain import NotInCatalogue
from app.catalogue.store import in_catalogue, objects
from app.core.changes import Applied, Change, Intent
from app.core.naming import NAME_LENGTH, Lookup
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
from app.http.api import Blueprint, Schema
from app.http.context import setting
from app.http.examples import CLASS, PLAYER, PLAYER_ID
from app.http.fields import NO_CONTROLS, Guid, Integer, Text
from app.players.domain import (
    DELETED_AT,
    NAME_FIELDS,
    PlayerNameTaken,
    PlayerOnline,
    rename,
    require_name,
    restore_fields,
    undo_rename,
)
from app.players.store import players

blp = Blueprint("Characters", __name__, url_prefix="/api/v1/players", group="Players")


class NamedPlayerSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    Name = Text(example=PLAYER)


class RenameArgs(Schema):
    Name = Text(
        required=True,
        example="Ebrenshar",
        minLength=1,
        maxLength=NAME_LENGTH,
        pattern=f"^{NO_CONTROLS.pattern}$",
        description="2 to 40 characters, all of them visible, without markup; no path or key.",
    )


def prepare_rename(args: Document) -> ReadsAndRule:
    require_name(args["Name"], setting)
    return NAME_FIELDS, partial(rename, name=args["Name"])


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
change_route(
    blp,
    RENAME,
    "/<player:key>/name",
    NamedPlayerSchema,
    PlayerNameTaken(),
    view="rename_player",
    about="""Rename a player

    Names are unique, regardless of case. Undo its history entry to restore the former name,
    unless the player has been renamed since.
    """,
)


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
change_route(
    blp,
    DELETE,
    "/<player:key>",
    NamedPlayerSchema,
    PlayerOnline(PLAYER),
    method="DELETE",
    view="delete_player",
    about="""Delete a player

    With all items, spells and variables. Undo its history entry to restore it, while history is
    kept. A player who is online cannot be deleted: the game would save it again.
    """,
)


def player_change(*, reads: tuple[str, ...], **declared: Any) -> Operation:
    """Declare a change of some fields of one player that moves no items; undo restores them."""
    usual = {
        "needs": (Permission.PLAYERS_CHANGE,),
        "inverse": Inverse(fields=reads, rule=restore_fields),
    }
    return Operation(
        subject="player", store=players, moves=no_items, reads=reads, **{**usual, **declared}
    )


def set_level(player: Document, *, level: int) -> Change:
    """Set the level of a player, and reset the experience to 0."""
    fields = {"Level": level, "Exp": 0}
    return Change(fields, {"Id": player["_id"], **fields})


class SetLevelArgs(Schema):
    level = Integer(0, 2**31 - 1, required=True, example=17)


class LevelSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    Level = Integer(0, example=17)
    Exp = Integer(0, example=0)


SET_LEVEL = player_change(
    name="set-level",
    arguments=SetLevelArgs(),
    reads=("Level", "Exp"),
    rule=set_level,
    batch=BatchRow(order="Set the level to {Level}", orders="Set the level of {whom}"),
    notice="{whom} has the level {Level} now.",
)
change_route(
    blp,
    SET_LEVEL,
    "/<player:key>/level",
    LevelSchema,
    view="set_player_level",
    about="""Set a player's level

    This resets the experience to 0. The game adapts what depends on the level.
    """,
)


def set_class(player: Document, *, class_id: str) -> Change:
    """Set the class of a player; the game adapts whatever depends on it."""
    name = objects.names_of([class_id]).get(class_id, "")
    fields = {"ClassId": class_id, "ClassName": name}
    return Change(fields, {"Id": player["_id"], **fields})


class SetClassArgs(Schema):
    class_id = Guid(
        required=True, data_key="Id", history_name="ClassId", object_type="class", example=CLASS
    )


class ClassSchema(Schema):
    Id = Guid(example=PLAYER_ID)
    ClassId = Guid(example=CLASS)
    ClassName = Text(example="Ranger")


SET_CLASS = player_change(
    name="set-class",
    arguments=SetClassArgs(),
    reads=("ClassId", "ClassName"),
    rule=set_class,
    in_catalogue=in_catalogue("class", "class_id"),
)
change_route(
    blp,
    SET_CLASS,
    "/<player:key>/class",
    ClassSchema,
    NotInCatalogue("class", CLASS),
    view="set_player_class",
    about="""Set a player's class

    With the name that the class has in the catalogue. The game adapts what depends on it.
    """,
)

"""Renaming and deleting players."""

from __future__ import annotations

from functools import partial

from app.auth.permissions import Permission
from app.changes import Applied, Intent
from app.http.context import current, setting
from app.naming import Lookup
from app.operations import BY_CHANGES, Endpoint, Inverse, Operation, OwnInverse, Prepared
from app.players.deletion.store import Deletions
from app.players.domain import (
    DELETED_AT,
    NAME_FIELDS,
    PlayerNameTaken,
    rename,
    require_name,
    undo_rename,
)
from app.players.schemas import NamedPlayerSchema, RenameArgs
from app.types import Document

deletions = current(Deletions)


def prepare_rename(args: Document) -> Prepared:
    lengths = setting("CHARACTER_NAME_SHORTEST"), setting("CHARACTER_NAME_LONGEST")
    require_name(args["Name"], "Name", lengths)
    return Prepared(NAME_FIELDS, partial(rename, name=args["Name"]))


def prepare_undo_rename(changes: list[Document]) -> Prepared:
    return Prepared(NAME_FIELDS, partial(undo_rename, changes=changes))


def undo_deletion(entry: Document, intent: Intent) -> Applied:
    """Restore a player, or delete it again if the entry is the undo of a deletion."""
    id_ = entry["Subject"]["Id"]
    if _is_deletion(entry):
        return deletions.restore(id_, intent)
    return deletions.delete(Lookup.parse(id_), intent)


def preview_undo_deletion(entry: Document, intent: Intent) -> Document:
    id_ = entry["Subject"]["Id"]
    if _is_deletion(entry):
        return deletions.preview_restore(id_, intent)
    return deletions.preview_delete(Lookup.parse(id_), intent)


def _is_deletion(entry: Document) -> bool:
    return entry["Changes"][0]["After"] is not None


RENAME = Operation(
    name="rename",
    subject="player",
    needs=(Permission.PLAYERS_RENAME,),
    arguments=RenameArgs(),
    prepare=prepare_rename,
    # A name is unique: a duplicate key must not fail the other changes of a bulk write.
    inverse=Inverse(fields=("Name",), prepare=prepare_undo_rename, in_bulk=False),
    moves=None,
    batch=None,
    sentence=BY_CHANGES,
    notice="{whom} is called {Name} now.",
    endpoint=Endpoint(
        "rename_player",
        "/<player:key>/name",
        NamedPlayerSchema,
        """Rename a player

        Names are unique, regardless of case. Undo its history entry to restore the former name,
        unless the player has been renamed since.
        """,
        (PlayerNameTaken(),),
    ),
)
DELETE = Operation(
    name="delete-player",
    subject="player",
    needs=(Permission.PLAYERS_DELETE,),
    arguments=None,
    prepare="app/players/deletion, because it writes to two collections",
    inverse=OwnInverse(
        fields=(DELETED_AT,),
        moves="deleting a player, and bringing one back,",
        make=undo_deletion,
        preview=preview_undo_deletion,
    ),
    moves="deleting a player",
    batch=None,
    sentence=BY_CHANGES,
    notice="Deleted {whom}.",
)

"""The roles that every installation has, until somebody changes or removes them. Pure."""

from __future__ import annotations

from app.core.permissions import Permission
from app.core.types import Document

# The role that a rescue gives.
ADMINISTRATOR = "administrator"

_LOOK = ["players.read", "history.read", "health.read"]
_HELP = [*_LOOK, "users.read", "items.move", "players.change", "moderate.mute", "notes.write"]
_HELP += ["moderate.kick", "notes.users", "undo.own", "batches.plan", "users.change"]
_SENIOR = [*_HELP, "players.rename", "moderate.ban", "undo.any", "batches.run", "game.act"]
_SENIOR += ["keys.manage", "approve"]
_MODERATE = [*_LOOK, "users.read", "moderate.kick", "moderate.mute", "moderate.ban"]
_MODERATE += ["notes.write", "notes.users", "undo.own"]
_ECONOMY = [*_LOOK, "items.move", "players.change", "objects.change", "notes.write"]
_ECONOMY += [
    "notes.users",
    "undo.own",
    "undo.any",
    "batches.plan",
    "batches.run",
    "keys.manage",
    "approve",
]
# By name: permissions and limits.
SHIPPED: dict[str, tuple[list[str], dict[str, int]]] = {
    "viewer": (_LOOK, {}),
    "support": (_HELP, {"LargestQuantity": 100, "ItemsPerDay": 1_000, "RowsPerBatch": 100}),
    "senior-support": (
        _SENIOR,
        {"LargestQuantity": 10_000, "ItemsPerDay": 100_000, "RowsPerBatch": 10_000},
    ),
    "moderator": (_MODERATE, {"LargestQuantity": 100, "ItemsPerDay": 1_000}),
    "economy": (_ECONOMY, {}),
    ADMINISTRATOR: ([permission.value for permission in Permission], {}),
}


def shipped_roles() -> dict[str, Document]:
    return {
        name: new_role(name, permissions, limits or None, name == ADMINISTRATOR)
        for name, (permissions, limits) in SHIPPED.items()
    }


def new_role(
    name: str, permissions: list[str], limits: Document | None, needs_second_factor: bool = False
) -> Document:
    return {
        "_id": name,
        "Name": name,
        "Permissions": permissions,
        "Limits": limits,
        "NeedsSecondFactor": needs_second_factor,
        "RemovedAt": None,
        "Version": 0,
    }

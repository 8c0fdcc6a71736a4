"""What can be asked for: operations that move items or need two people, and the run of a batch.

The functions take the request as it is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.auth import execution, guard
from app.auth.callers import Caller
from app.batches import access as batch_access
from app.batches.store import batches
from app.core.changes import Applied, Intent
from app.core.errors import InvalidField
from app.core.naming import Lookup
from app.core.operations import Moved, Operation, all_operations
from app.core.permissions import Permission
from app.core.types import Document
from app.game.actions.asking import find_player
from app.history.access import UNDO, visible_entry
from app.history.store import history
from app.http.intents import previewed_intent
from app.http.path_converters import path_guid
from app.users.second_factor.management import RESET_FACTOR, RESET_SIGN_IN
from app.users.staff.invitations import add_invited, new_invitation
from app.users.staff.operations import INVITE
from app.users.staff.store import roles
from app.users.store import users

# It makes no entry of history, so it is no operation; who asked for it starts it.
RUN_BATCH = "run-batch"


def kinds() -> Mapping[str, Operation | None]:
    """Return by name the operations that can be asked for; None: the run of a batch."""
    found: dict[str, Operation | None] = {RUN_BATCH: None}
    for operation in all_operations():
        is_given = operation.counts_items and (operation.changes_one or operation.run)
        if operation.title or is_given:
            found[operation.name] = operation
    return found


def kind_named(name: str) -> Operation | None:
    known = kinds()
    if name not in known:
        raise InvalidField("Operation", f"Must be one of {', '.join(sorted(known))}.")
    return known[name]


def title_of(name: str) -> str:
    """Return what pages call it; empty if its plan says it."""
    operation = kinds().get(name)
    return operation.title if operation else "Run the batch" if name == RUN_BATCH else ""


def is_sensitive(name: str) -> bool:
    """Tell whether approving it asks for the password again, as the form of the change does."""
    operation = kind_named(name)
    return bool(operation and (operation.approval or operation is RESET_SIGN_IN))


def needs(operation: Operation | None) -> tuple[Permission, ...]:
    """Return the permissions for it. Without them, nothing is looked up."""
    if operation is None:
        return (Permission.BATCHES_RUN,)
    return (RESET_FACTOR if operation is RESET_SIGN_IN else operation).permissions


def find_subject(operation: Operation | None, text: str, args: Document) -> Document:
    """Return the subject by its name or id, or by the arguments; raise NotFound."""
    if operation is None:
        batch = batch_access.visible_batch(path_guid("id", text))
        return {"Kind": "batch", "Id": batch["_id"], "Name": batch["Name"] or None}
    if operation is UNDO:
        subject: Document = visible_entry(args["id"])["Subject"]
        return subject
    if operation.subject == "player":
        return find_player(Lookup.parse(text))
    if operation.subject == "role":
        # A new role does not exist yet.
        named = args.get("Name") or roles.get(text)["_id"]
        return {"Kind": "role", "Id": named, "Name": named}
    if operation is INVITE:  # nor does the account
        return {"Kind": "user", "Id": None, "Name": args["Name"]}
    user = users.get(Lookup.parse(text), "Name")
    return {"Kind": "user", "Id": user["_id"], "Name": user.get("Name")}


def require(caller: Caller, request: Document) -> None:
    """Raise unless a caller may do it, whatever the limits."""
    operation, subject = kind_named(request["Operation"]), request["Subject"]
    caller.require(*needs(operation))
    if operation is None:
        batch_access.require_permissions(caller, batches.get(subject["Id"]))
    elif operation is UNDO:
        if history.get(request["Arguments"]["id"])["By"]["UserId"] != caller.id:
            caller.require(Permission.UNDO_ANY)
        if subject["Kind"] == "user":
            caller.require(Permission.USERS_READ)
    elif operation.own_account and subject["Id"] == caller.id:
        raise operation.own_account


def moves(request: Document) -> Moved:
    """Return the items that it moves."""
    operation = kind_named(request["Operation"])
    return operation.moves(request["Arguments"]) if operation else None


def preview(request: Document) -> list[Document]:
    """Return the changes that it would make, or raise why it is impossible or not allowed."""
    operation, args = kind_named(request["Operation"]), request["Arguments"]
    if operation is None:
        return []
    key = _key_of(request)
    if operation.preview:
        return operation.preview(key, args, previewed_intent(operation, args))
    changes: list[Document] = execution.preview(operation, key, args)["Changes"]
    return changes


def make(request: Document, meant: Intent) -> Applied:
    """Make the change, in the transaction that approves it; the approver is the caller."""
    operation, args = kind_named(request["Operation"]), request["Arguments"]
    if operation is None:
        batch = batches.get(request["Subject"]["Id"])
        batch_access.require_limits(guard.caller(), batch)
        by, for_id = meant.origin.approved_by, meant.origin.user_id
        batches.approve(batch["_id"], by or {}, str(for_id))
        return Applied(None)
    if operation is INVITE:  # the mail has been sent
        return add_invited(args, meant, new_invitation(meant))
    return execution.make(operation, _key_of(request), args, meant)


def _key_of(request: Document) -> Any:
    """Return the key of the subject; None for an account that an invitation will make."""
    kind, id_ = request["Subject"]["Kind"], request["Subject"]["Id"]
    return Lookup.parse(id_) if id_ and kind != "role" else id_

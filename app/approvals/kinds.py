"""What can be asked for, one declaration each. Rooms above add kinds of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from app.auth import guard
from app.auth.callers import Caller, Callers
from app.auth.permissions import LIMIT_NAMES, LIMITED, RIGHTS, Permission
from app.auth.spending import Moved
from app.batches import access as batch_access
from app.batches.store import Batches
from app.changes import Applied, Intent
from app.execution import Store, make, preview
from app.history.access import preview_undo, undo_as, visible_entry
from app.history.domain import inverse_of
from app.history.operations import UNDO
from app.history.store import History
from app.http.context import current
from app.http.intents import previewed_intent
from app.http.path_converters import path_guid
from app.items.operations import TRANSFER, moved, moved_with_bags
from app.items.transfers.store import Transfers
from app.naming import Lookup
from app.operations import Operation, all_operations
from app.players.deletion.store import Deletions
from app.players.operations import DELETE
from app.players.store import Players
from app.second_factor.domain import OwnSignIn
from app.second_factor.management import reset_sign_in
from app.second_factor.operations import RESET_FACTOR, RESET_SIGN_IN
from app.staff.operations import (
    CHANGE_ROLE,
    CREATE_ROLE,
    INVITE,
    REMOVE_ROLE,
    RULE,
    SET_ROLES,
    add_invited,
    mail_invitation,
    require_invitable,
)
from app.staff.store import Roles, Staff
from app.types import Document
from app.users.domain import require_email
from app.users.store import Users

batches = current(Batches)
callers = current(Callers)
deletions = current(Deletions)
history = current(History)
players = current(Players)
roles = current(Roles)
staff = current(Staff)
transfers = current(Transfers)
users = current(Users)

RUN_BATCH = "run-batch"


class Kind(NamedTuple):
    """Something that can be asked for. The functions take the request as it is stored."""

    # The schema of its arguments; None: no arguments.
    arguments: Any
    # Returns the subject by its name or id, or by the arguments; raises NotFound.
    find: Callable[[str, Document], Document]
    # The permissions for it. Without them, nothing is looked up.
    needs: tuple[Permission, ...]
    # Returns the changes that it would make, or raises why it is impossible or not allowed.
    preview: Callable[[Document], list[Document]]
    # Makes the change, in the transaction that approves it. What is long begins after its commit.
    make: Callable[[Document, Intent], Applied]
    # The items that it moves.
    moves: Callable[[Document], Moved] = lambda _: None
    # Raises unless the limits of the approver allow it, if that is not a matter of moved items.
    require_limits: Callable[[Caller, Document], None] = lambda *_: None
    # What pages call it, if its plan does not say it.
    title: str = ""
    # Returns the arguments as they are stored: a name in them may become somebody else's.
    resolve: Callable[[Document], Document] = lambda args: args
    # Whether approving it asks for the password again, as the form of the change does.
    is_sensitive: bool = False
    # Raises unless a caller with the permissions may do it, whatever the limits.
    allow: Callable[[Caller, Document], None] = lambda *_: None
    # Does what must have succeeded before the change is made, such as sending a mail.
    before: Callable[[Document, Intent], None] | None = None

    def require(self, caller: Caller, request: Document) -> None:
        """Raise unless a caller may do it, whatever the limits."""
        caller.require(*self.needs)
        self.allow(caller, request)


def find_player(text: str, _: Document) -> Document:
    identity = players.identity(Lookup.parse(text))
    return {"Kind": "player", "Id": identity.id, "Name": identity.name}


def find_user(text: str, _: Document) -> Document:
    user = users.get(Lookup.parse(text), "Name")
    return {"Kind": "user", "Id": user["_id"], "Name": user.get("Name")}


def find_role(name: str, args: Document) -> Document:
    """Return the role of this name, or the new one that the arguments name."""
    named = args.get("Name") or roles.get(name)["_id"]
    return {"Kind": "role", "Id": named, "Name": named}


def key_of(request: Document) -> Any:
    subject = request["Subject"]
    return subject["Id"] if subject["Kind"] == "role" else Lookup.parse(subject["Id"])


def operation_kind(
    operation: Operation,
    store: Store,
    find: Callable[[str, Document], Document],
    title: str = "",
    also: Callable[[Document], Iterable[Document]] = lambda _: (),
) -> Kind:
    """Return the kind of an operation; also returns what its plan contains beside the changes."""

    def preview_changes(request: Document) -> list[Document]:
        found = preview(operation, store, key_of(request), request["Arguments"])
        return [*found["Changes"], *also(request)]

    def make_change(request: Document, meant: Intent) -> Applied:
        return make(operation, store, key_of(request), request["Arguments"], meant)

    moves: Any = operation.moves
    return Kind(
        operation.arguments,
        find,
        operation.permissions,
        preview_changes,
        make_change,
        lambda request: moves(request["Arguments"]) if moves else None,
        title=title,
        is_sensitive=operation.approval == RULE,
    )


def preview_deletion(request: Document) -> list[Document]:
    """Raise if a player cannot be deleted. The change contains the time, so it is not a plan."""
    deletions.preview_delete(key_of(request), previewed_intent(DELETE, {}))
    return []


def transfer_moves(request: Document) -> Moved:
    by_changes = moved_with_bags(request.get("Plan") or [])
    return by_changes if isinstance(by_changes, str) else moved(request["Arguments"])


def find_changed(_: str, args: Document) -> Document:
    """Return the subject of the entry that an undo is about."""
    subject: Document = visible_entry(args["id"])["Subject"]
    return subject


def entry_of(request: Document) -> Document:
    return history.get(request["Arguments"]["id"])


def allow_undo(caller: Caller, request: Document) -> None:
    if entry_of(request)["By"]["UserId"] != caller.id:
        caller.require(Permission.UNDO_ANY)
    if request["Subject"]["Kind"] == "user":
        caller.require(Permission.USERS_READ)


def undo_moves(request: Document) -> Moved:
    entry = entry_of(request)
    moves = inverse_of(entry).moves
    return moves(entry["Changes"]) if callable(moves) else moves


def make_undo(request: Document, meant: Intent) -> Applied:
    entry = entry_of(request)
    return undo_as(entry, meant._replace(undoes=entry))


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


def rights_changes(before: Document, after: Document) -> Iterable[Document]:
    """Yield how the permissions and the limits of an account would change."""
    old, new = callers.rights(before), callers.rights(after)
    held = [[p.value for p in Permission if p in one.permissions] for one in (old, new)]
    if held[0] != held[1]:
        yield {"Path": "Permissions", "Before": held[0], "After": held[1]}
    for name, limited, *most in zip(LIMIT_NAMES, LIMITED, old.limits, new.limits, strict=True):
        # Without the permission, nothing is allowed.
        was, will_be = (
            most[number] if one.permissions & limited else 0
            for number, one in enumerate((old, new))
        )
        if was != will_be:
            yield {"Path": f"Limits.{name}", "Before": was, "After": will_be}


def changes_by_roles(request: Document) -> Iterable[Document]:
    user = users.get(key_of(request), *RIGHTS)
    return rights_changes(user, {**user, "Roles": request["Arguments"]["Roles"]})


def preview_invitation(request: Document) -> list[Document]:
    """Return what a colleague could do, or raise if nobody can be invited so."""
    args = request["Arguments"]
    account = require_invitable(args)
    users.require_unused(args["Name"], args["Email"])
    return [
        {"Path": "Roles", "Before": [], "After": account["Roles"]},
        *rights_changes({}, account),
    ]


def allow_reset(caller: Caller, request: Document) -> None:
    """Raise unless it is somebody else's sign-in: its holder neither asks nor approves."""
    if request["Subject"]["Id"] == caller.id:
        raise OwnSignIn


def preview_reset(request: Document) -> list[Document]:
    """Raise if the caller may not reset a sign-in; a plan would contain secrets."""
    guard.require_peer(users.get(key_of(request), *RIGHTS))
    if email := request["Arguments"]["Email"]:
        require_email(email, "Email")
    return []


KINDS = {
    DELETE.name: Kind(
        None,
        find_player,
        DELETE.permissions,
        preview_deletion,
        lambda request, meant: deletions.delete(key_of(request), meant),
        lambda _: str(DELETE.moves),
        title="Delete the character",
    ),
    TRANSFER.name: Kind(
        TRANSFER.arguments,
        find_player,
        TRANSFER.permissions,
        lambda request: transfers.preview(key_of(request), request["Arguments"]),
        lambda request, meant: transfers.make(key_of(request), request["Arguments"], meant),
        transfer_moves,
        resolve=lambda args: {**args, "to": players.get_id(Lookup.parse(args["to"]))},
    ),
    UNDO.name: Kind(
        UNDO.arguments,
        find_changed,
        UNDO.permissions,
        lambda request: preview_undo(
            entry_of(request), request["Arguments"].get("is_partial", False)
        )["Changes"],
        make_undo,
        undo_moves,
        allow=allow_undo,
    ),
    RUN_BATCH: Kind(
        None,
        find_batch,
        (Permission.BATCHES_RUN,),
        lambda _: [],
        approve_batch,
        allow=lambda caller, request: batch_access.require_permissions(caller, batch_of(request)),
        require_limits=lambda caller, request: batch_access.require_limits(
            caller, batch_of(request)
        ),
        title="Run the batch",
    ),
    RESET_SIGN_IN.name: Kind(
        RESET_SIGN_IN.arguments,
        find_user,
        RESET_FACTOR.permissions,
        preview_reset,
        lambda request, meant: reset_sign_in(key_of(request), request["Arguments"]["Email"], meant),
        title="Reset the sign-in",
        is_sensitive=True,
        allow=allow_reset,
    ),
    SET_ROLES.name: operation_kind(SET_ROLES, staff, find_user, "Set the roles", changes_by_roles),
    CREATE_ROLE.name: operation_kind(CREATE_ROLE, roles, find_role, "Make the role"),
    CHANGE_ROLE.name: operation_kind(CHANGE_ROLE, roles, find_role, "Change the role"),
    REMOVE_ROLE.name: operation_kind(REMOVE_ROLE, roles, find_role, "Remove the role"),
    INVITE.name: Kind(
        INVITE.arguments,
        # The account does not exist yet.
        lambda _, args: {"Kind": "user", "Id": None, "Name": args["Name"]},
        INVITE.permissions,
        preview_invitation,
        lambda request, meant: add_invited(request["Arguments"], meant),
        title="Invite a colleague",
        is_sensitive=True,
        before=lambda request, meant: mail_invitation(request["Arguments"], meant),
    ),
}


def kinds() -> dict[str, Kind]:
    """Return by name what can be asked for."""
    moving = [o for o in all_operations() if callable(o.moves) and callable(o.prepare)]
    found = {o.name: operation_kind(o, players, find_player) for o in moving}
    return {**found, **KINDS}

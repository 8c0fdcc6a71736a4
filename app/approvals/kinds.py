"""What can be asked for: operations that move items or need two people, and the run of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.auth.callers import Caller
from app.auth.execution import make, preview
from app.batches import access as batch_access
from app.batches.store import Batches
from app.core.changes import Applied, Intent
from app.core.naming import Lookup
from app.core.operations import Moved, Operation, all_operations
from app.core.permissions import Permission
from app.core.types import Document
from app.game.actions.asking import find_player
from app.history.access import preview_undo, undo_as, visible_entry
from app.history.domain import inverse_of
from app.history.operations import UNDO
from app.history.store import History
from app.http.context import current
from app.http.intents import previewed_intent
from app.http.path_converters import path_guid
from app.players.items.operations import TRANSFER, moved_with_bags
from app.players.store import Players
from app.users.second_factor.operations import RESET_FACTOR, RESET_SIGN_IN
from app.users.staff.operations import INVITE, add_invited, mail_invitation
from app.users.staff.store import Roles
from app.users.store import Users

batches = current(Batches)
history = current(History)
players = current(Players)
roles = current(Roles)
users = current(Users)

RUN_BATCH = "run-batch"


def key_of(request: Document) -> Any:
    """Return the key of the subject; None for an account that an invitation will make."""
    kind, id_ = request["Subject"]["Kind"], request["Subject"]["Id"]
    return Lookup.parse(id_) if id_ and kind != "role" else id_


class Kind:
    """An operation that can be asked for. The methods take the request as it is stored."""

    # Does what must have succeeded before the change is made, such as sending a mail.
    before: Callable[[Document, Intent], None] | None = None

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        # The schema of its arguments; None: no arguments.
        self.arguments: Any = operation.arguments
        # What pages call it, if its plan does not say it.
        self.title = operation.title
        # The permissions for it. Without them, nothing is looked up.
        self.needs = operation.permissions
        # Whether approving it asks for the password again, as the form of the change does.
        self.is_sensitive = bool(operation.approval)

    def find(self, text: str, args: Document) -> Document:
        """Return the subject by its name or id, or by the arguments; raise NotFound."""
        if self.operation.subject == "player":
            return find_player(Lookup.parse(text))
        if self.operation.subject == "user":
            user = users.get(Lookup.parse(text), "Name")
            return {"Kind": "user", "Id": user["_id"], "Name": user.get("Name")}
        # A new role does not exist yet.
        named = args.get("Name") or roles.get(text)["_id"]
        return {"Kind": "role", "Id": named, "Name": named}

    def resolve(self, args: Document) -> Document:
        """Return the arguments as they are stored: a name may become somebody else's."""
        return {**args, "to": players.get_id(Lookup.parse(args["to"]))} if "to" in args else args

    def require(self, caller: Caller, request: Document) -> None:
        """Raise unless a caller may do it, whatever the limits."""
        caller.require(*self.needs)
        if self.operation.own_account and request["Subject"]["Id"] == caller.id:
            raise self.operation.own_account

    def require_limits(self, caller: Caller, request: Document) -> None:
        """Raise unless the limits of the approver allow it, but for those of moved items."""

    def moves(self, request: Document) -> Moved:
        """Return the items that it moves."""
        return self.operation.moves(request["Arguments"])

    def preview(self, request: Document) -> list[Document]:
        """Return the changes that it would make, or raise why it is impossible or not allowed."""
        key, args = key_of(request), request["Arguments"]
        if self.operation.preview:
            return self.operation.preview(key, args, previewed_intent(self.operation, args))
        changes: list[Document] = preview(self.operation, key, args)["Changes"]
        return changes

    def make(self, request: Document, meant: Intent) -> Applied:
        """Make the change, in the transaction that approves it."""
        return make(self.operation, key_of(request), request["Arguments"], meant)


class Transfer(Kind):
    def moves(self, request: Document) -> Moved:
        by_changes = moved_with_bags(request.get("Plan") or [])
        return by_changes if isinstance(by_changes, str) else super().moves(request)


class SignInReset(Kind):
    def __init__(self, operation: Operation) -> None:
        super().__init__(operation)
        self.needs, self.is_sensitive = RESET_FACTOR.permissions, True


class Invitation(Kind):
    def find(self, _: str, args: Document) -> Document:
        """Return the account, which does not exist yet."""
        return {"Kind": "user", "Id": None, "Name": args["Name"]}

    def before(self, request: Document, meant: Intent) -> None:
        mail_invitation(request["Arguments"], meant)

    def make(self, request: Document, meant: Intent) -> Applied:
        return add_invited(request["Arguments"], meant)


class Undo(Kind):
    def find(self, _: str, args: Document) -> Document:
        """Return the subject of the entry that the undo is about."""
        subject: Document = visible_entry(args["id"])["Subject"]
        return subject

    def require(self, caller: Caller, request: Document) -> None:
        super().require(caller, request)
        if self._entry_of(request)["By"]["UserId"] != caller.id:
            caller.require(Permission.UNDO_ANY)
        if request["Subject"]["Kind"] == "user":
            caller.require(Permission.USERS_READ)

    def moves(self, request: Document) -> Moved:
        entry = self._entry_of(request)
        return inverse_of(entry).moves(entry["Changes"])

    def preview(self, request: Document) -> list[Document]:
        is_partial = request["Arguments"].get("is_partial", False)
        changes: list[Document] = preview_undo(self._entry_of(request), is_partial)["Changes"]
        return changes

    def make(self, request: Document, meant: Intent) -> Applied:
        entry = self._entry_of(request)
        return undo_as(entry, meant._replace(undoes=entry))

    def _entry_of(self, request: Document) -> Document:
        return history.get(request["Arguments"]["id"])


class BatchRun(Kind):
    """The run of a batch, which is up to the person who asked."""

    def __init__(self) -> None:
        self.arguments, self.is_sensitive = None, False
        self.title, self.needs = "Run the batch", (Permission.BATCHES_RUN,)

    def find(self, text: str, _: Document) -> Document:
        batch = batch_access.visible_batch(path_guid("id", text))
        return {"Kind": "batch", "Id": batch["_id"], "Name": batch["Name"] or None}

    def require(self, caller: Caller, request: Document) -> None:
        batch_access.require_permissions(caller, batches.get(request["Subject"]["Id"]))

    def require_limits(self, caller: Caller, request: Document) -> None:
        batch_access.require_limits(caller, batches.get(request["Subject"]["Id"]))

    def moves(self, _: Document) -> Moved:
        return None

    def preview(self, _: Document) -> list[Document]:
        return []

    def make(self, request: Document, meant: Intent) -> Applied:
        by, for_id = meant.origin.approved_by, meant.origin.user_id
        batches.approve(request["Subject"]["Id"], by or {}, str(for_id))
        return Applied(None)


OWN_KINDS: dict[str, type[Kind]] = {
    TRANSFER.name: Transfer,
    UNDO.name: Undo,
    RESET_SIGN_IN.name: SignInReset,
    INVITE.name: Invitation,
}


def kinds() -> dict[str, Kind]:
    """Return by name what can be asked for."""
    found: dict[str, Kind] = {RUN_BATCH: BatchRun()}
    for operation in all_operations():
        is_given = operation.counts_items and (operation.prepare or operation.run)
        if operation.title or is_given or operation is UNDO:
            found[operation.name] = OWN_KINDS.get(operation.name, Kind)(operation)
    return found

"""Asking for approval, and deciding on what colleagues ask for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from app.approvals import kinds
from app.approvals.domain import (
    AlreadyDecided,
    AskerMayNot,
    AskerNeedsRole,
    NotYours,
    OwnRequest,
    PlanChanged,
    idempotency_key,
    public_approval,
)
from app.approvals.mails import tell_approvers, tell_asker
from app.approvals.store import ApprovalFilters, approvals
from app.auth import guard
from app.auth.callers import Caller, CallerGone, callers
from app.auth.spending import OverLimit, OverOwnLimit, spend
from app.core.changes import Applied, Intent, Origin
from app.core.errors import Forbidden, Invalid, NotFound, PermissionMissing
from app.core.naming import Lookup
from app.core.paging import CursorPage
from app.core.permissions import Permission
from app.core.types import Document
from app.history.access import hidden_kinds, with_current_names
from app.http.cursors import cursors
from app.http.intents import origin, sent_key
from app.http.tracing import request_id
from app.players.store import players
from app.storage.transactions import after_commit
from app.users.staff.invitations import mail_invitation, new_invitation
from app.users.staff.operations import INVITE


def ask(name: str, subject: str, args: Document, why: str = "") -> Applied:
    """Store a request of the caller, with its plan; the answer is the stored request."""
    operation, by = kinds.kind_named(name), origin(otherwise=why)
    if not by.reason:
        raise Invalid("Say why you ask.", {"reason": ["Say why you ask."]})
    guard.caller().require(*kinds.needs(operation))
    require_role(guard.caller())
    key, author = sent_key(), {"UserId": by.user_id, "Name": by.name}

    def store() -> Applied:
        # A name may become somebody else's.
        to = {"to": players.get_id(Lookup.parse(args["to"]))} if "to" in args else {}
        request: Document = {"Operation": name, "Arguments": {**args, **to}, "By": author}
        if earlier := approvals.find_earlier(request, key):
            return Applied(earlier, replayed=True)
        request["Subject"] = kinds.find_subject(operation, subject, args)
        request |= {"Via": by.via, "Reason": by.reason}
        kinds.require(guard.caller(), request)
        stored = approvals.add({**request, "Plan": kinds.preview(request)}, key)
        after_commit(partial(tell_approvers, stored))
        return Applied(stored)

    return approvals.in_transaction(store, has_key=key is not None)


def require_role(asker: Caller) -> None:
    """Raise unless an account has a role of staff: its sign-in is set by its holder alone."""
    if not asker.rights.roles:
        raise AskerNeedsRole


def public_requests(requests: Iterable[Document]) -> list[Document]:
    """Return public requests, with the names that their subjects have now."""
    return with_current_names([*map(public_approval, requests)])


def list_requests(args: Document, size: int) -> CursorPage:
    """Return a page of the public requests in a state that the caller sees."""
    after = cursors.read(args.get("after", ""))
    page = approvals.list(filters_of(args.get("state")), size, after)
    return page._replace(values=public_requests(page.values))


def filters_of(state: str | None) -> ApprovalFilters:
    """Return which requests the caller sees: their own, and if they may approve those of others."""
    caller = guard.caller()
    hidden = hidden_kinds() if caller.may(Permission.APPROVE) else None
    return ApprovalFilters(state, caller.id, hidden)


def visible_request(id_: str) -> Document:
    request, caller = approvals.get(id_), guard.caller()
    is_hidden = request["Subject"]["Kind"] in hidden_kinds()
    if not _is_by(request, caller) and (is_hidden or not caller.may(Permission.APPROVE)):
        raise NotFound("approval", id_)
    return request


def _is_by(request: Document, caller: Caller) -> bool:
    return bool(request["By"]["UserId"] == caller.id)


def approve(id_: str, args: Document) -> Applied:
    """Approve a request and make its change, if the result would still be what was planned.

    The approver's own limits apply, and the items count to the approver's day.
    """
    request = approvals.in_transaction(partial(_decidable, id_))
    seen = args.get("Plan") or request["PlanNumber"]
    if request["Operation"] == INVITE.name and request["State"] == "waiting":
        _require_asker(request)
        if kinds.preview(request) == request["Plan"]:
            mail_invitation(request["Arguments"], new_invitation(_intent_of(request)))

    def change() -> Applied:
        if applied := approvals.in_transaction(partial(_approve, id_, seen)):
            return applied
        raise PlanChanged

    try:
        return spend(kinds.moves(request), change, partial(_find_approved, id_))
    except OverLimit as error:
        raise OverOwnLimit(error.why, error.field) from None


def _find_approved(id_: str) -> Applied | None:
    return approvals.in_transaction(lambda: _approved_before(_decidable(id_)))


def _approved_before(request: Document) -> Applied | None:
    """Return the result if the caller has approved a request before; None if it waits."""
    if _was_decided(request, "done"):
        entry = {"_id": request["Entry"]} if "Entry" in request else None
        return Applied(request, replayed=True, entry=entry)
    return None


def _approve(id_: str, seen: int) -> Applied | None:
    """Approve a request in a transaction; None if its result would change: it is planned again."""
    request = _decidable(id_)
    if earlier := _approved_before(request):
        return earlier
    _require_asker(request)
    plan = kinds.preview(request)
    if plan != request["Plan"]:
        approvals.plan_again(request, plan)
        return None
    if seen != request["PlanNumber"]:
        raise PlanChanged
    applied = kinds.make(request, _intent_of(request))
    done = approvals.decide(request, "done", _decider(), entry=applied.entry)
    after_commit(partial(tell_asker, done))
    return applied._replace(answer=done)


def _intent_of(request: Document) -> Intent:
    """Return the intent of who asked; the entry also names who approved."""
    by, via, why = request["By"], request["Via"], request["Reason"]
    who = Origin(by["UserId"], by["Name"], via, request_id(), why, None, _decider())
    operation = kinds.kind_named(request["Operation"])
    arguments = request["Arguments"]
    told = operation.history_arguments(arguments) if operation else arguments
    return Intent(request["Operation"], who, told, idempotency_key(request["_id"]), "")


def decline(id_: str, args: Document) -> Document:
    def store() -> Document:
        request = _decidable(id_)
        if _was_decided(request, "declined"):
            return request
        declined = approvals.decide(request, "declined", _decider(), args["Why"])
        after_commit(partial(tell_asker, declined))
        return declined

    return approvals.in_transaction(store)


def withdraw(id_: str) -> Document:
    def store() -> Document:
        request = visible_request(id_)
        if not _is_by(request, guard.caller()):
            raise NotYours
        if _was_decided(request, "withdrawn"):
            return request
        return approvals.decide(request, "withdrawn", request["By"])

    return approvals.in_transaction(store)


def _decider() -> Document:
    return {"UserId": guard.caller().id, "Name": guard.caller().name}


def _was_decided(request: Document, state: str) -> bool:
    """Tell whether the caller has decided so before; raise if it was decided otherwise."""
    by = request.get("DecidedBy") or {}
    if request["State"] == state and by.get("UserId") == guard.caller().id:
        return True
    if request["State"] != "waiting":
        raise AlreadyDecided(request["State"])
    return False


def _decidable(id_: str) -> Document:
    """Return a request on which the caller may decide."""
    request, caller = visible_request(id_), guard.caller()
    if _is_by(request, caller):
        raise OwnRequest
    kinds.require(caller, request)
    return request


def _require_asker(request: Document) -> None:
    """Raise unless the person who asked may still do it, except for limits."""
    try:
        asker = callers.find(request["By"]["UserId"], None)
        require_role(asker)
        kinds.require(asker, request)
        with guard.acting_as(asker):
            kinds.preview(request)
    except PermissionMissing as error:
        raise AskerMayNot(f"they lack the permission '{error.permission}'") from None
    except CallerGone as error:
        raise AskerMayNot(str(error)) from None
    except Forbidden:
        raise AskerMayNot("it needs rights that they do not have") from None

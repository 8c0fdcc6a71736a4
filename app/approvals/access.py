"""Asking for approval, and deciding on what colleagues ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from app.approvals.domain import (
    LISTS,
    AlreadyDecided,
    ApprovalNotFound,
    AskerMayNot,
    NotYours,
    OwnRequest,
    PlanChanged,
    idempotency_key,
    public_approval,
)
from app.approvals.kinds import Kind, kinds
from app.approvals.mails import tell_approvers, tell_asker
from app.approvals.store import ApprovalFilters, Approvals
from app.auth import guard
from app.auth.callers import Caller, CallerGone, Callers
from app.auth.permissions import Permission
from app.auth.spending import OverLimit, OverOwnLimit, spend
from app.changes import Applied, Intent, Origin
from app.errors import (
    Forbidden,
    Invalid,
    InvalidField,
    PermissionMissing,
    QuartermasterError,
    Unavailable,
)
from app.history.access import hidden_kinds, with_current_names
from app.http.context import current
from app.http.intents import origin, sent_key
from app.http.tracing import request_id
from app.operations import find_operation
from app.types import Document

log = logging.getLogger("quartermaster")

approvals = current(Approvals)
callers = current(Callers)


def kind_named(name: str) -> Kind:
    known = kinds()
    if name not in known:
        raise InvalidField("Operation", f"Must be one of {', '.join(sorted(known))}.")
    return known[name]


def ask(name: str, subject: str, args: Document, why: str = "") -> tuple[Document, bool]:
    """Store a request of the caller, with its plan; return whether it was stored before."""
    kind, by = kind_named(name), origin(otherwise=why)
    if not by.reason:
        raise Invalid("Say why you ask.", {"reason": ["Say why you ask."]})
    guard.caller().require(*kind.needs)
    found, stored_args = kind.find(subject, args), kind.resolve(args)
    request: Document = {"Operation": name, "Subject": found, "Arguments": stored_args}
    kind.require(guard.caller(), request)
    plan = kind.preview(request)
    author = {"By": {"UserId": by.user_id, "Name": by.name}, "Via": by.via, "Reason": by.reason}
    stored, is_repeated = approvals.add({**request, **author, "Plan": plan}, sent_key())
    if not is_repeated and not approvals.is_frequent(stored["By"]["UserId"]):
        tell_approvers(stored, kind)
    return stored, is_repeated


def served(requests: Iterable[Document]) -> list[Document]:
    """Return public requests, with the names that their subjects have now."""
    return with_current_names([*map(public_approval, requests)])


def filters_of(state: str | None) -> ApprovalFilters:
    """Return which requests the caller sees: their own, and if they may approve those of others."""
    caller = guard.caller()
    hidden = hidden_kinds() if caller.may(Permission.APPROVE) else None
    return ApprovalFilters(state, caller.id, hidden)


def visible_request(id_: str) -> Document:
    request, caller = approvals.get(id_), guard.caller()
    is_hidden = request["Subject"]["Kind"] in hidden_kinds()
    if not _is_by(request, caller) and (is_hidden or not caller.may(Permission.APPROVE)):
        raise ApprovalNotFound(id_)
    return request


def _is_by(request: Document, caller: Caller) -> bool:
    return bool(request["By"]["UserId"] == caller.id)


def approve(id_: str, plan_number: int | None = None) -> tuple[Document, Applied]:
    """Approve a request and carry it out, if the result would still be what was planned.

    The approver's own limits apply, and the items count to the approver's day.
    """
    request, kind = _decidable(id_)
    if _was_decided(request, "approved"):
        return finish(request)
    if _was_decided(request, "done"):
        entry = {"_id": request["Entry"]} if "Entry" in request else None
        return request, Applied(None, replayed=True, entry=entry)
    if request["State"] not in LISTS["waiting"]:
        raise AlreadyDecided(request["State"])
    _require_asker(request, kind)
    made: list[Document] = []

    def carry_out() -> Applied:
        finished, applied = finish(approvals.decide(request, "approved", _decider(), None))
        made.append(finished)
        return applied

    try:
        kind.require_limits(guard.caller(), request)
        _require_plan(request, kind, plan_number)
        applied = spend(kind.moves(request), carry_out, lambda: None)
    except OverLimit as error:
        raise OverOwnLimit(error.why, error.field) from None
    tell_asker(made[0], kind)
    return made[0], applied


def _require_plan(request: Document, kind: Kind, plan_number: int | None) -> None:
    """Raise PlanChanged unless the approver has seen the plan, and it still holds."""
    plan = kind.preview(request)
    is_same = plan == request["Plan"]
    if not is_same:
        approvals.plan_again(request, plan)
    if not is_same or plan_number not in (None, request["PlanNumber"]):
        raise PlanChanged


def finish(request: Document) -> tuple[Document, Applied]:
    """Carry out an approved request, once; if that is impossible, it waits again."""
    try:
        applied = kind_named(request["Operation"]).make(request, _intent_of(request))
    except Unavailable:
        raise
    except QuartermasterError:
        approvals.reopen(request)
        raise
    return approvals.finish(request, applied.entry), applied


def finish_abandoned(context: Callable[[], AbstractContextManager[object]], id_: str) -> None:
    """Carry out a request whose approver died; if that is impossible, it waits again."""
    with context():
        request = approvals.get(id_)
        try:
            if request["State"] == "approved":
                finish(request)
        except Unavailable:
            raise
        except QuartermasterError as refusal:
            log.warning("The approved request %s waits again: %s", id_, refusal)


def _intent_of(request: Document) -> Intent:
    """Return the intent of who asked; the entry also names who approved."""
    by, via = request["By"], request["Via"]
    approver = request["DecidedBy"]
    who = Origin(by["UserId"], by["Name"], via, request_id(), request["Reason"], None, approver)
    operation = find_operation(request["Operation"], request["Subject"]["Kind"])
    arguments = request["Arguments"]
    told = operation.history_arguments(arguments) if operation else arguments
    return Intent(request["Operation"], who, told, idempotency_key(request["_id"]), "")


def decline(id_: str, why: str) -> Document:
    request, kind = _decidable(id_)
    if _was_decided(request, "declined"):
        return request
    declined = approvals.decide(request, "declined", _decider(), why)
    tell_asker(declined, kind)
    return declined


def withdraw(id_: str) -> Document:
    request = visible_request(id_)
    if not _is_by(request, guard.caller()):
        raise NotYours
    if _was_decided(request, "withdrawn"):
        return request
    return approvals.decide(request, "withdrawn", request["By"], None)


def _decider() -> Document:
    return {"UserId": guard.caller().id, "Name": guard.caller().name}


def _was_decided(request: Document, *states: str) -> bool:
    """Tell whether the caller has decided so before: a repeated request changes nothing."""
    by = request.get("DecidedBy") or {}
    return request["State"] in states and by.get("UserId") == guard.caller().id


def _decidable(id_: str) -> tuple[Document, Kind]:
    """Return a request on which the caller may decide, and its kind."""
    request, caller = visible_request(id_), guard.caller()
    if _is_by(request, caller):
        raise OwnRequest
    kind = kind_named(request["Operation"])
    kind.require(caller, request)
    return request, kind


def _require_asker(request: Document, kind: Kind) -> None:
    """Raise unless the person who asked may still do it, except for limits."""
    try:
        asker = callers.find(request["By"]["UserId"], None)
        kind.require(asker, request)
        with guard.acting_as(asker):
            kind.preview(request)
    except PermissionMissing as error:
        raise AskerMayNot(f"they lack the permission '{error.permission}'") from None
    except CallerGone as error:
        raise AskerMayNot(str(error)) from None
    except Forbidden:
        raise AskerMayNot("it needs rights that they do not have") from None

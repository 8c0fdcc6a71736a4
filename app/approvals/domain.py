"""Requests for approval: their states, and whether a plan still holds. Pure."""

from __future__ import annotations

from datetime import timedelta

from app.core.errors import Conflict, Forbidden
from app.core.types import Document

# After this time, nobody can decide on a request any more.
LIFETIME = timedelta(days=7)
# Of one person.
MOST_WAITING = 20
# The argument of an invitation that is kept only until the request is decided.
ADDRESS = "Email"
STATES = ("waiting", "done", "declined", "withdrawn", "ended")
LISTS = {"waiting": ("waiting",), "decided": ("done", "declined", "withdrawn")}
SERVED = (
    "State",
    "At",
    "EndsAt",
    "Operation",
    "Subject",
    "Arguments",
    "By",
    "Reason",
    "Plan",
    "PlanNumber",
    "DecidedBy",
    "DecidedAt",
    "Why",
    "Entry",
)


class AskerNeedsRole(Forbidden):
    """Others may set how an account without a role signs in, and so ask with it."""

    sentence = (
        "Only accounts with a role of staff ask for approval; Power alone does not count. Ask "
        "somebody who manages staff for a role."
    )


class OwnRequest(Forbidden):
    sentence = "Nobody decides on their own request: ask a colleague."


class NotYours(Forbidden):
    sentence = "Only the person who asked can withdraw a request."


class AlreadyDecided(Conflict):
    sentence = "The request no longer waits: it is {state}."


class TooManyWaiting(Conflict):
    sentence = (
        f"{MOST_WAITING} of your requests wait already. Withdraw one, or wait for a decision."
    )


class PlanChanged(Conflict):
    sentence = (
        "The result would be another by now. It was planned again: look at the new plan, and "
        "approve that."
    )


class AskerMayNot(Conflict):
    sentence = "The person who asked may no longer do this: {why}."


def without_address(request: Document) -> Document:
    """Return a request without the address of somebody to invite, who is not the one who asked."""
    kept = {name: value for name, value in request["Arguments"].items() if name != ADDRESS}
    return {**request, "Arguments": kept}


def is_same(earlier: Document, request: Document) -> bool:
    """Tell whether two requests ask for the same; a decided one has no address any more."""
    if ADDRESS not in earlier["Arguments"]:
        request = without_address(request)
    return all(earlier[name] == request[name] for name in ("Operation", "Arguments"))


def public_approval(request: Document) -> Document:
    return {"Id": request["_id"], **{name: request.get(name) for name in SERVED}}


def idempotency_key(request_id: str) -> str:
    """Return the Idempotency-Key of the change, which prevents that it is made twice."""
    return f"approval {request_id}"

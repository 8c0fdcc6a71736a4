"""Approvals: what exceeds a limit or needs two people is asked for, and a colleague decides."""

from __future__ import annotations

from functools import partial

from flask import Response

from app.approvals import access
from app.approvals.domain import (
    AlreadyDecided,
    AskerMayNot,
    NotYours,
    OwnRequest,
    PlanChanged,
    TooManyWaiting,
)
from app.approvals.kinds import kind_named
from app.approvals.schemas import (
    ApprovalListArgs,
    ApprovalPageSchema,
    ApprovalSchema,
    ApproveArgs,
    AskArgs,
    DeclineArgs,
)
from app.auth.views import read_route
from app.core.errors import NotFound
from app.core.permissions import KeyAccess, Permission, SignedIn
from app.core.types import Document
from app.http.api import Blueprint
from app.http.examples import BATCH, PLAYER
from app.http.intents import change_response
from app.http.lists import cursor_response, page_size
from app.http.parser import load

ABOUT = "Asking colleagues to approve what is over a limit."

blp = Blueprint("Approvals", __name__, url_prefix="/api/v1/approvals", description=ABOUT)


read = partial(read_route, blp)
# A request is made and decided by people, who see what they do.
ASKS = (SignedIn.ANYBODY, KeyAccess.NONE)
DECIDES = (Permission.APPROVE, KeyAccess.NONE)
UNKNOWN = NotFound("approval", BATCH)
DECIDED = (UNKNOWN, OwnRequest(), AlreadyDecided("declined"))


def public_request(request: Document) -> Document:
    return access.public_requests([request])[0]


@read(
    "",
    ApprovalSchema,
    *ASKS,
    args=AskArgs(),
    method="POST",
    refuses=(NotFound("player", PLAYER), TooManyWaiting()),
)
@blp.idempotent
def ask_for_approval(args: Document) -> Response:
    """Ask for approval

    Of something that your limits do not allow, or that needs two people. You need the permission
    for it. The answer contains what would change. The request ends after seven days.
    """
    schema = getattr(kind_named(args["Operation"]), "arguments", None)
    loaded = load(schema, args["Arguments"]) if schema else {}
    asked = access.ask(args["Operation"], args["Subject"], loaded, args["Reason"])
    return change_response(asked, public_request(asked.answer))


@read("", ApprovalPageSchema, *ASKS, args=ApprovalListArgs())
def list_approvals(args: Document) -> Response:
    """List requests for approval

    Newest first. Without the permission `approve`, only your own. Those about users and roles need
    the permissions `users.read` and `staff.manage`.
    """
    return cursor_response(access.list_requests(args, page_size(args)))


@read("/<request_id>", ApprovalSchema, *ASKS, refuses=(UNKNOWN,))
def get_approval(request_id: str) -> Document:
    """Get a request for approval

    Your own, or with the permission `approve` anybody's that you may list.
    """
    return public_request(access.visible_request(request_id))


@read(
    "/<request_id>/approve",
    ApprovalSchema,
    *DECIDES,
    args=ApproveArgs(),
    method="POST",
    refuses=(*DECIDED, PlanChanged(), AskerMayNot("the account is banned")),
)
def approve_request(args: Document, request_id: str) -> Response:
    """Approve a request

    Makes the change in the name of the person who asked; its history entry names both. You also
    need the permission for the change, and your own limits apply. If the result would differ from
    the plan, nothing changes, and the request waits with a new plan. A batch can then be run by the
    person who asked.
    """
    approved = access.approve(request_id, args)
    return change_response(approved, public_request(approved.answer))


@read(
    "/<request_id>/decline",
    ApprovalSchema,
    *DECIDES,
    args=DeclineArgs(),
    method="POST",
    refuses=DECIDED,
)
def decline_request(args: Document, request_id: str) -> Document:
    """Decline a request

    With the reason.
    """
    return public_request(access.decline(request_id, args))


@read(
    "/<request_id>/withdraw",
    ApprovalSchema,
    *ASKS,
    method="POST",
    refuses=(UNKNOWN, NotYours(), AlreadyDecided("done")),
)
def withdraw_request(request_id: str) -> Document:
    """Withdraw your request

    Nobody can approve it any more.
    """
    return public_request(access.withdraw(request_id))

"""Mails to those who may approve a request."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from app.approvals.kinds import Kind
from app.auth.callers import Caller, Callers
from app.auth.permissions import RIGHTS, Permission
from app.errors import Forbidden, Unavailable
from app.http.context import current, setting
from app.naming import email_as_sent
from app.staff.store import WAYS_IN, Staff, has_way_in
from app.types import Document
from app.users.mail import Mailer

log = logging.getLogger("quartermaster")

# A request does not wait for more mails than this.
MOST_MAILS = 10

callers = current(Callers)
mailer = current(Mailer)
staff = current(Staff)


def tell_approvers(request: Document, kind: Kind) -> None:
    """Mail some colleagues who may approve a request. If that fails, they see it in the console."""
    facts = {
        "what": f"{request['Operation']}, {request['Subject']['Name'] or request['Subject']['Id']}",
        "by": request["By"]["Name"],
        "reason": request["Reason"],
        "link": mailer.link(f"approvals/{request['_id']}"),
    }
    subject = f"{setting('GAME_NAME')}: a request waits for your approval"
    try:
        with mailer.slot():
            for user in islice(_approvers(request, kind), MOST_MAILS):
                mailer.send(subject, "approval", user["Name"], user["Email"], **facts)
    except Unavailable as error:
        log.warning("A mail about a request was not sent: %s", error.__cause__ or error)


def _approvers(request: Document, kind: Kind) -> Iterator[Document]:
    """Yield the accounts with an address that may decide on a request."""
    for user in filter(has_way_in, staff.walk("Name", "Email", *RIGHTS, *WAYS_IN)):
        caller = Caller(user["_id"], str(user.get("Name")), callers.rights(user))
        is_other = user["_id"] != request["By"]["UserId"]
        if is_other and caller.may(Permission.APPROVE) and email_as_sent(user.get("Email") or ""):
            with suppress(Forbidden):
                kind.require(caller, request)
                yield user

"""Mails about requests: to those who may approve one, and to who asked when it is decided."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from app.approvals import kinds
from app.auth.callers import Caller, CallerGone, callers
from app.catalogue.store import objects
from app.core.errors import Conflict, Forbidden, NotFound, Unavailable
from app.core.naming import Lookup, email_as_sent
from app.core.penalties import BAN, BAN_STATE, is_in_force
from app.core.permissions import RIGHTS, Permission
from app.core.types import Document
from app.history.access import with_current_names
from app.http.context import setting
from app.users.mail import mailer
from app.users.staff.store import WAYS_IN, has_way_in, staff
from app.users.store import users

log = logging.getLogger("quartermaster")

# A request does not wait for more mails than this.
MOST_MAILS = 10


def tell_approvers(request: Document) -> None:
    """Mail some colleagues who may approve a request. If that fails, they see it in the console."""
    approvers = islice(_approvers(request), MOST_MAILS)
    _send(request, "approval", "a request waits for your approval", approvers)


def tell_asker(request: Document) -> None:
    """Mail the person who asked what a colleague has decided, if the account still has rights."""
    with suppress(CallerGone, NotFound):
        asker = callers.find(request["By"]["UserId"], None)
        user = users.get(Lookup.parse(asker.id), "Name", "Email")
        if asker.rights.permissions and email_as_sent(user.get("Email") or ""):
            _send(request, "decision", "a colleague has decided on your request", [user])


def _send(request: Document, template: str, about: str, people: Iterable[Document]) -> None:
    facts = {
        "what": _text(request),
        "by": request["By"]["Name"],
        "reason": request["Reason"],
        "decided": "declined" if request["State"] == "declined" else "approved",
        "decider": (request.get("DecidedBy") or {}).get("Name"),
        "answer": request.get("Why"),
        # Without the setting, a link has the host that the request names: who asks could forge it.
        "link": mailer.link(f"approvals/{request['_id']}") if setting("PUBLIC_URL") else "",
    }
    subject = f"{setting('GAME_NAME')}: {about}"
    try:
        for user in people:
            mailer.send(subject, template, user, **facts)
    except Unavailable as error:
        log.warning("A mail about a request was not sent: %s", error.__cause__ or error)


def _text(request: Document) -> str:
    """Return what somebody asks for, such as "give 30 Coal: Aladric"."""
    moved, subject = kinds.moves(request), with_current_names([request])[0]["Subject"]
    quantities = moved if isinstance(moved, dict) else {}
    names = objects.names_of(quantities)
    items = ", ".join(f"{n:,} {names.get(id_) or id_}" for id_, n in quantities.items())
    what = kinds.title_of(request["Operation"]) or request["Operation"].replace("-", " ")
    return f"{what} {items}".rstrip() + f": {subject['Name'] or subject['Id']}"


def _approvers(request: Document) -> Iterator[Document]:
    """Yield the accounts with an address that may decide on a request."""
    reads, now = ("Name", "Email", *RIGHTS, *WAYS_IN, *BAN_STATE), users.now()
    for user in filter(has_way_in, staff.walk(*reads)):
        caller = Caller(user["_id"], str(user.get("Name")), callers.rights(user))
        is_other = user["_id"] != request["By"]["UserId"] and not is_in_force(user, BAN, now)
        if is_other and caller.may(Permission.APPROVE) and email_as_sent(user.get("Email") or ""):
            with suppress(Forbidden, Conflict):
                kinds.require(caller, request)
                yield user

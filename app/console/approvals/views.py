"""The pages of approvals: the list of requests, and one request with its plan and forms."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from flask import Response

from app.approvals import access, kinds
from app.approvals.kinds import RUN_BATCH
from app.approvals.schemas import ApproveArgs, DeclineArgs
from app.auth import guard
from app.batches.store import batches
from app.console.batches.views import with_titles
from app.console.forms.declared import Field, Form, Target
from app.console.forms.places import Place
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.lists import ListPage, columns
from app.console.frame.pages import path_to, render, see_other
from app.console.history.sentences import Line, lines_text
from app.console.history.tables import table_entries
from app.core.changes import Applied
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.operations import find_operation
from app.core.permissions import Permission, SignedIn
from app.core.types import Document
from app.players.store import players
from app.privacy.domain import ERASE

TABS = {"waiting": "Waiting", "decided": "Decided"}
ListPage(
    "/approvals",
    (SignedIn.ANYBODY,),
    access.list_requests,
    columns("At State Operation Subject Reason By DecidedBy Why Id", Plan=lines_text),
    (Field("state", "State", type="select", value="waiting", options=lambda: TABS),),
    "approvals/list.html",
    cards=lambda found: [with_words(request) for request in found],
)


def with_words(shown: Document) -> Document:
    """Return a public request with sentences about its plan."""
    operation = find_operation(shown["Operation"], shown["Subject"]["Kind"])
    named = operation.history_arguments(shown["Arguments"]) if operation else {}
    # History does not record all arguments, such as an address, but the approver needs them.
    named |= {name: value for name, value in shown["Arguments"].items() if name[:1].isupper()}
    if receiver := named.get("To"):
        with suppress(NotFound):
            named["To"] = players.identity(Lookup.parse(receiver)).name
    entry = {**shown, "Arguments": named, "Changes": shown["Plan"], "UndoneBy": None}
    (shown,) = table_entries([entry])
    shown["Arguments"] = {**dict(shown["ArgumentTexts"]), **batch_facts(shown)}
    shown["Effects"] = ()
    if title := kinds.title_of(shown["Operation"]):
        shown |= {"Lines": [Line(title)], "Effects": shown["Lines"]}
    return shown


def batch_facts(shown: Document) -> Document:
    """Return what a batch does: its name is the choice of the person who asks."""
    if shown["Operation"] == RUN_BATCH:
        with suppress(NotFound):
            (batch,) = with_titles([{**batches.get(shown["Subject"]["Id"]), "Name": ""}])
            return {"What it does": batch["Title"], "Rows": f"{batch['Rows']:,}"}
    return {}


def approval_page(request_id: str) -> Response:
    shown = with_words(*access.public_requests([access.visible_request(request_id)]))
    path, values = path_to("approvals", request_id), {"Plan": shown["PlanNumber"]}
    target = Target(path, request_id, record=shown, values=values)
    return render("approvals/approval.html", request=shown, forms=forms_on(FORMS, target))


def is_open(target: Target, is_own: bool) -> bool:
    """Tell whether a request waits, and is the caller's own, or somebody else's."""
    by = target.record["By"]["UserId"]
    return target.record["State"] == "waiting" and is_own == (by == guard.caller().id)


def after_approval(approved: Applied, _: Submission, request_id: str) -> Response:
    operation = approved.answer["Operation"]
    mark = "approved" if operation == RUN_BATCH else "made"
    # An erasure deletes what is about the person.
    kept = [] if operation == ERASE else [request_id]
    return see_other(path_to("approvals", *kept, done=mark))


decision = partial(
    Form, None, api=lambda sent: f"POST /api/v1/approvals/<key>/{sent.form.name}", asks_reason=False
)
APPROVE = decision(
    "Approve",
    "Approve",
    (Field("Plan", "", type="hidden", is_required=False),),
    act=access.approve,
    schema=ApproveArgs(),
    about="The change is made at once, if the result is still what you see here. A batch is then "
    "run by the person who asked, as its rows are planned.",
    is_offered=partial(is_open, is_own=False),
    needs=(Permission.APPROVE,),
    is_sensitive=lambda request_id: kinds.is_sensitive(
        access.visible_request(request_id)["Operation"]
    ),
    lead=after_approval,
)
FORMS = (
    APPROVE,
    decision(
        "Decline…",
        "Decline",
        (Field("Why", "Reason", "The person who asked sees it."),),
        act=access.decline,
        schema=DeclineArgs(),
        is_offered=APPROVE.is_offered,
        needs=(Permission.APPROVE,),
        is_danger=True,
        notice="declined",
    ),
    decision(
        "Withdraw",
        "Withdraw",
        act=access.withdraw,
        is_offered=partial(is_open, is_own=True),
        is_quiet=True,
        notice="withdrawn",
    ),
)
Place("/approvals/<request_id>", {"": FORMS}, approval_page)

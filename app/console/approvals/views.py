"""The pages of approvals: the list of requests, and one request with its plan and forms."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from flask import Response

from app.approvals import access, kinds
from app.approvals.kinds import RUN_BATCH
from app.approvals.schemas import ApproveArgs, DeclineArgs
from app.approvals.store import approvals
from app.auth import guard
from app.batches.store import batches
from app.console.batches.views import with_titles
from app.console.forms.declared import Field, Form, Target
from app.console.forms.places import Place
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.lists import ListPage, columns
from app.console.frame.pages import path_to, redirect_with_notice, render
from app.console.history.sentences import Line, lines_text
from app.console.history.tables import table_entries
from app.core.changes import Applied
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.operations import find_operation
from app.core.paging import CursorPage
from app.core.permissions import Permission, SignedIn
from app.core.types import Document
from app.http.cursors import cursors
from app.players.store import players
from app.privacy.domain import ERASE

API = "POST /api/v1/approvals/<key>"
TABS = {"waiting": "Waiting", "decided": "Decided"}


def find_requests(wanted: Document, size: int) -> CursorPage:
    after = cursors.read(wanted.get("after", ""))
    page = approvals.list(access.filters_of(wanted["state"]), size, after)
    return page._replace(values=[*map(with_words, access.public_requests(page.values))])


ListPage(
    "/approvals",
    (SignedIn.ANYBODY,),
    find_requests,
    columns("At State Operation Subject Reason By DecidedBy Why Id", Plan=lines_text),
    (Field("state", "State", type="select", value="waiting", options=lambda: TABS),),
    "approvals/list.html",
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
    (texts,) = table_entries([entry])
    title = kinds.title_of(shown["Operation"])
    return {
        **texts,
        "Arguments": {**dict(texts["ArgumentTexts"]), **batch_facts(shown)},
        "Lines": [Line(title)] if title else texts["Lines"],
        "Effects": texts["Lines"] if title else (),
    }


def batch_facts(shown: Document) -> Document:
    """Return what a batch does: its name is the choice of the person who asks."""
    if shown["Operation"] == RUN_BATCH:
        with suppress(NotFound):
            (batch,) = with_titles([{**batches.get(shown["Subject"]["Id"]), "Name": ""}])
            return {"What it does": batch["Title"], "Rows": f"{batch['Rows']:,}"}
    return {}


def approval_page(request_id: str) -> Response:
    shown = with_words(*access.public_requests([access.visible_request(request_id)]))
    values = {"Plan": shown["PlanNumber"]}
    target = Target(path_to("approvals", request_id), request_id, record=shown, values=values)
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
    return redirect_with_notice(mark, path_to("approvals", *kept))


APPROVE = Form(
    None,
    "Approve",
    "Approve",
    (Field("Plan", "", type="hidden", is_required=False),),
    act=access.approve,
    schema=ApproveArgs(),
    api=f"{API}/approve",
    about="The change is made at once, if the result is still what you see here. A batch is then "
    "run by the person who asked, as its rows are planned.",
    is_offered=partial(is_open, is_own=False),
    needs=(Permission.APPROVE,),
    asks_reason=False,
    is_sensitive=lambda request_id: kinds.is_sensitive(
        access.visible_request(request_id)["Operation"]
    ),
    lead=after_approval,
)
FORMS = (
    APPROVE,
    Form(
        None,
        "Decline…",
        "Decline",
        (Field("Why", "Reason", "The person who asked sees it."),),
        act=access.decline,
        schema=DeclineArgs(),
        api=f"{API}/decline",
        is_offered=APPROVE.is_offered,
        needs=(Permission.APPROVE,),
        asks_reason=False,
        is_danger=True,
        notice="declined",
    ),
    Form(
        None,
        "Withdraw",
        "Withdraw",
        act=access.withdraw,
        api=f"{API}/withdraw",
        is_offered=partial(is_open, is_own=True),
        asks_reason=False,
        is_quiet=True,
        notice="withdrawn",
    ),
)
Place("/approvals/<request_id>", {"": FORMS}, approval_page)

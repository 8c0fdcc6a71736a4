"""The pages of approvals: the list of requests, and one request with its plan and forms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from flask import Response

from app.approvals import access, kinds
from app.approvals.domain import ApprovalNotFound
from app.approvals.kinds import RUN_BATCH
from app.approvals.schemas import ApproveArgs, DeclineArgs
from app.auth import guard
from app.batches.domain import title_of
from app.console.forms.declared import Field, Form, Target
from app.console.forms.places import Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.lists import ListPage, columns
from app.console.frame.pages import path_to, redirect_with_notice, render
from app.console.history.sentences import GUID, Line, argument_texts, lines_text
from app.console.history.tables import table_entries
from app.console.stores import approvals, batches, cursors, objects, players
from app.core.changes import Applied
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.operations import find_operation
from app.core.paging import CursorPage
from app.core.permissions import Permission, SignedIn
from app.core.types import Document

API = "POST /api/v1/approvals/<key>"
TABS = {"waiting": "Waiting", "decided": "Decided"}


def find_requests(wanted: Document, size: int) -> CursorPage:
    after = cursors.read(wanted.get("after", ""))
    page = approvals.list(access.filters_of(wanted["state"]), size, after)
    return page._replace(values=[*map(with_words, access.served(page.values))])


ListPage(
    "/approvals",
    (SignedIn.ANYBODY,),
    find_requests,
    columns(
        "At State Operation Subject Reason By DecidedBy Why Id",
        Plan=lines_text,
    ),
    (Field("state", "State", type="select", value="waiting", options=lambda: TABS),),
    "approvals/list.html",
)


def with_words(shown: Document) -> Document:
    """Return a public request with sentences about its plan."""
    operation = find_operation(shown["Operation"], shown["Subject"]["Kind"])
    told = operation.history_arguments(shown["Arguments"]) if operation else shown["Arguments"]
    entry = {**shown, "Arguments": told, "Changes": shown["Plan"], "UndoneBy": None}
    (texts,) = table_entries([entry])
    title = kinds.title_of(shown["Operation"])
    # History does not record all arguments, such as an address, but the approver needs them.
    own = {name: value for name, value in shown["Arguments"].items() if name[:1].isupper()}
    named = {**told, **own}
    names = objects.names_of(GUID.findall(str(named)))
    if receiver := named.get("To"):
        with suppress(NotFound):
            named["To"] = players.identity(Lookup.parse(receiver)).name
    return {
        **shown,
        "Arguments": {**dict(argument_texts({"Arguments": named}, names)), **batch_facts(shown)},
        "Lines": [Line(title)] if title else texts["Lines"],
        "Effects": texts["Lines"] if title else (),
        "Changes": texts["Changes"],
    }


def batch_facts(shown: Document) -> Document:
    """Return what a batch does: its name is the choice of the person who asks."""
    if shown["Operation"] != RUN_BATCH:
        return {}
    try:
        batch = batches.get(shown["Subject"]["Id"])
    except NotFound:
        return {}
    # One that is being planned has no summary yet.
    kinds_of_rows = batch.get("Summary", ())
    names = objects.names_of([kind["Object"] for kind in kinds_of_rows if kind["Object"]])
    return {"What it does": title_of({**batch, "Name": ""}, names), "Rows": f"{batch['Rows']:,}"}


def about_approval(target: Target) -> list[str]:
    if target.record["Operation"] == RUN_BATCH:
        return ["The person who asked can then run the batch, as its rows are planned."]
    return ["The change is made at once, if the result is still what you see here."]


def approval_page(_: str, sent: Submission | None, request_id: str) -> Response:
    (request,) = access.served([access.visible_request(request_id)])
    shown = with_words(request)
    values = {"Plan": shown["PlanNumber"]}
    target = Target(path_to("approvals", request_id), request_id, record=shown, values=values)
    return render(
        "approvals/approval.html",
        sent=sent,
        request=shown,
        forms=forms_on(FORMS, target, sent),
    )


def is_waiting(target: Target) -> bool:
    return bool(target.record["State"] == "waiting")


def is_of_caller(target: Target) -> bool:
    return bool(target.record["By"]["UserId"] == guard.caller().id)


def after_approval(approved: tuple[Document, Applied], _: Submission, request_id: str) -> Response:
    mark = "approved" if approved[0]["Operation"] == RUN_BATCH else "made"
    try:
        access.visible_request(request_id)
    except ApprovalNotFound:
        # An erasure deletes what is about the person.
        return redirect_with_notice(mark, path_to("approvals"))
    return redirect_with_notice(mark, path_to("approvals", request_id))


def leads_to(mark: str) -> Callable[..., Response]:
    return lambda _, __, request_id: redirect_with_notice(mark, path_to("approvals", request_id))


APPROVE = Form(
    None,
    "Approve",
    "Approve",
    (Field("Plan", "", type="hidden", is_required=False),),
    act=lambda sent, request_id: access.approve(request_id, sent.args.get("Plan")),
    schema=ApproveArgs(),
    api=f"{API}/approve",
    about=about_approval,
    is_offered=lambda target: is_waiting(target) and not is_of_caller(target),
    needs=(Permission.APPROVE,),
    asks_reason=False,
    is_sensitive=lambda request_id: kinds.is_sensitive(
        access.visible_request(request_id)["Operation"]
    ),
    lead=after_approval,
)
DECLINE = Form(
    None,
    "Decline…",
    "Decline",
    (Field("Why", "Reason", "The person who asked sees it."),),
    act=lambda sent, request_id: access.decline(request_id, sent.args["Why"]),
    schema=DeclineArgs(),
    api=f"{API}/decline",
    is_offered=APPROVE.is_offered,
    needs=(Permission.APPROVE,),
    asks_reason=False,
    is_danger=True,
    lead=leads_to("declined"),
)
WITHDRAW = Form(
    None,
    "Withdraw",
    "Withdraw",
    act=lambda _, request_id: access.withdraw(request_id),
    api=f"{API}/withdraw",
    is_offered=lambda target: is_waiting(target) and is_of_caller(target),
    asks_reason=False,
    is_quiet=True,
    lead=leads_to("withdrawn"),
)
FORMS = (APPROVE, DECLINE, WITHDRAW)
register(Place("/approvals/<request_id>", ("approvals",), {"": FORMS}, approval_page))

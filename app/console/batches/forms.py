"""The forms on the page of a batch: run, pause, cancel and undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from flask import Response

from app.approvals.kinds import RUN_BATCH
from app.auth import guard
from app.auth.approval import NeedsApproval
from app.auth.spending import OverLimit
from app.batches import access, planning
from app.batches.domain import OPEN
from app.console.forms.declared import Field, Form, Target
from app.console.forms.submissions import Submission
from app.console.frame.pages import path_to, redirect_with_notice, see_other
from app.core.permissions import Permission
from app.core.texts import count_text
from app.core.types import Document

API = "POST /api/v1/batches/<key>"
PARTIAL = Field("Partial", "Take what is left, if players no longer have everything", type="check")
ENDED_STATES = ("done", "cancelled")
ENDED, ALL_REFUSED = "batch-done", "batch-refused"


def in_state(*states: str) -> Callable[[Target], bool]:
    return lambda target: target.record["State"] in states


def ready(target: Target) -> str:
    return count_text(target.record["Ready"], "row")


def about_run(target: Target) -> Iterable[str]:
    try:
        access.require_run(guard.caller(), access.visible_batch(target.id))
    except (OverLimit, NeedsApproval) as refusal:
        yield str(refusal)
    if target.record["State"] != "planned":
        yield f"{ready(target)} {'is' if target.record['Ready'] == 1 else 'are'} left."
    yield (
        "The service finishes it even if you leave this page. You can pause it at any time, and "
        "undo it when it is done."
    )


def about_cancel(target: Target) -> Iterable[str]:
    left = "The remaining rows" if target.record["State"] == "running" else ready(target)
    yield (
        f"{left} will not be carried out. What was done stays. A cancelled batch cannot be resumed."
    )


def about_undo(target: Target) -> Iterable[str]:
    done = count_text(target.record["Done"], "row")
    yield f"Plans a batch that undoes {done}, the last one first. Nothing changes until you run it."


def about_retry(target: Target) -> Iterable[str]:
    left = count_text(target.record["Refused"] + target.record["Ready"], "row")
    yield f"Plans a batch with the {left} not done. Nothing changes until you run it."


def leads_to(mark: str) -> Callable[..., Response]:
    """Return a function that redirects to the page of a batch with a notice."""

    def lead(batch: Document, _: Submission, batch_id: str) -> Response:
        said = mark
        if batch["State"] == "done":
            said = ENDED if batch["Counts"]["Done"] else ALL_REFUSED
        return redirect_with_notice(said, path_to("batches", batch_id))

    return lead


RUN = Form(
    None,
    "Run…",
    "Run",
    act=lambda _, batch_id: access.start(batch_id),
    api=f"{API}/run",
    # Asks what is to be done, in as many sentences as there are kinds of rows.
    template="batches/run_question.html",
    layout="run",
    about=about_run,
    is_offered=in_state("planned"),
    needs=(Permission.BATCHES_RUN,),
    asks_reason=False,
    asks=RUN_BATCH,
    lead=leads_to("batch-runs"),
)
RESUME = replace(RUN, title="Resume", button="Resume", is_offered=in_state("paused"))
PAUSE = Form(
    None,
    "Pause",
    "Pause",
    act=lambda _, batch_id: access.pause(batch_id),
    api=f"{API}/pause",
    about="The service finishes it even if you leave this page.",
    is_offered=in_state("running"),
    needs=(Permission.BATCHES_RUN,),
    asks_reason=False,
    lead=leads_to("paused"),
)
CANCEL = Form(
    None,
    "Cancel…",
    "Cancel the batch",
    act=lambda _, batch_id: access.cancel(batch_id),
    api=f"{API}/cancel",
    about=about_cancel,
    is_danger=True,
    is_offered=in_state(*OPEN),
    needs=(Permission.BATCHES_RUN,),
    asks_reason=False,
    lead=leads_to("cancelled"),
)
UNDO = Form(
    None,
    "Undo…",
    "Plan the undo",
    name="undo-batch",
    path="undo",
    fields=(PARTIAL,),
    act=lambda sent, batch_id: planning.plan_undo(batch_id, sent.is_checked(PARTIAL.name)),
    api=f"{API}/undo",
    about=about_undo,
    is_offered=lambda target: target.record["Done"] and in_state(*ENDED_STATES)(target),
    needs=(Permission.BATCHES_PLAN, Permission.UNDO_OWN),
    takes_key=True,
    lead=lambda made, *_, **__: see_other(path_to("batches", made.batch["_id"])),
)
RETRY = Form(
    None,
    "Try again",
    "Try the rest again",
    name="retry",
    act=lambda _, batch_id: planning.plan_retry(batch_id),
    api=f"{API}/retry",
    about=about_retry,
    is_quiet=True,
    is_offered=lambda to: to.record["Rows"] > to.record["Done"] and in_state(*ENDED_STATES)(to),
    needs=(Permission.BATCHES_PLAN,),
    asks_reason=False,
    takes_key=True,
    lead=UNDO.lead,
)
FORMS = (RUN, PAUSE, CANCEL, UNDO, RETRY)

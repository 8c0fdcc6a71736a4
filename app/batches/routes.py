"""Batches: plans of many changes, which are looked at before they are carried out."""

from __future__ import annotations

from functools import partial

from flask import Response, request
from werkzeug.exceptions import UnsupportedMediaType

from app.auth import guard
from app.auth.spending import OverBudget
from app.auth.views import read_route
from app.batches import access, planning
from app.batches.domain import (
    AllDone,
    Cancelled,
    NotEnded,
    NothingLeft,
    NothingToUndo,
    NotRunning,
    Paused,
    StillPlanning,
    progress_of,
    public_batch,
)
from app.batches.rows import CSV, csv_body, json_body
from app.batches.running import worker
from app.batches.schemas import (
    BatchArgs,
    BatchPageSchema,
    BatchQueryArgs,
    BatchSchema,
    ProgressSchema,
    RowListArgs,
    RowPageSchema,
)
from app.core.changes import Applied
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.paging import map_page
from app.core.permissions import Permission
from app.core.types import Document
from app.history.schemas import UndoBatchArgs
from app.http.api import Blueprint
from app.http.examples import BATCH
from app.http.intents import change_response
from app.http.lists import CursorListArgs, cursor_response, page_size
from app.http.parser import is_json
from app.http.uploads import upload

ABOUT = "Many changes at once: plan, review, run and undo them."
UNKNOWN = NotFound("batch", BATCH)
OVER_BUDGET = OverBudget("shop", "a batch is not for a key with a budget", "Budget")

blp = Blueprint("Batches", __name__, url_prefix="/api/v1/batches", description=ABOUT)


NO_ROWS = (
    "The request body must be JSON or CSV, with the header Content-Type: application/json or "
    "text/csv."
)

read = partial(read_route, blp)


@read(
    "",
    BatchSchema,
    Permission.BATCHES_PLAN,
    method="POST",
    refuses=(NothingToUndo("no change matches"), OVER_BUDGET),
)
# Only as JSON: with another media type, client generators fail or generate a second body.
@blp.doc(requestBody={"required": True, "content": {"application/json": {"schema": BatchArgs()}}})
@blp.idempotent
@blp.arguments(BatchQueryArgs(), location="query")
def plan_batch(args: Document) -> Response:
    """Plan a batch

    Checks each row as a single call would be checked now, and the rows of one player in order.
    Nothing changes yet. Takes up to 100,000 rows as JSON, or as CSV (`text/csv`) whose first line
    names the columns. `Undo` chooses changes in history to undo instead, and `Players` up to 10,000
    players, who all get the same `Row`.
    """
    with upload(guard.caller().id) as body:
        name = args.get("name", "")
        digest = f"{body.digest} {name}"
        if request.mimetype == CSV:
            return _plan_response(planning.plan(partial(csv_body, body.file), digest, name))
        is_empty = not body.file.read(1)
        body.file.seek(0)
        if not is_empty and not is_json(request.mimetype):
            raise UnsupportedMediaType(NO_ROWS)
        return _plan_response(planning.plan(partial(json_body, body.file), digest))


@read("", BatchPageSchema, Permission.PLAYERS_READ, args=CursorListArgs())
def list_batches(args: Document) -> Response:
    """List batches

    Newest first. Batches about accounts are only for callers who may see accounts. Batches are kept
    as long as history.
    """
    page = access.list_batches(args, page_size(args))
    return cursor_response(map_page(public_batch, page))


@read("/<batch_id>", BatchSchema, Permission.PLAYERS_READ, refuses=(UNKNOWN,))
def get_batch(batch_id: str) -> Document:
    """Get a batch

    With its progress.
    """
    return public_batch(access.visible_batch(batch_id))


@read(
    "/<batch_id>/rows",
    RowPageSchema,
    Permission.PLAYERS_READ,
    args=RowListArgs(),
    refuses=(UNKNOWN, NotFound("player", Lookup.parse("nobody"))),
)
def list_batch_rows(args: Document, batch_id: str) -> Response:
    """List the rows of a batch

    In order, each with its verdict.
    """
    batch = access.visible_batch(batch_id)
    return cursor_response(access.list_rows(batch, args, page_size(args)))


@read(
    "/<batch_id>/advance",
    ProgressSchema,
    Permission.BATCHES_RUN,
    method="POST",
    refuses=(UNKNOWN, StillPlanning(), Cancelled(), Paused(), OVER_BUDGET),
)
@blp.doc(deprecated=True)
def advance_batch(batch_id: str) -> Document:
    """Run a batch and wait (deprecated)

    As `run`, but it does not resume a paused batch, and waits up to two seconds for the end. Use
    `run`, and then get the batch until its `State` is `done`.
    """
    return _progress(worker.wait(access.start(batch_id, resumes=False)))


@read(
    "/<batch_id>/run",
    ProgressSchema,
    Permission.BATCHES_RUN,
    method="POST",
    refuses=(UNKNOWN, StillPlanning(), Cancelled(), OVER_BUDGET),
)
def run_batch(batch_id: str) -> Document:
    """Run a batch

    The service runs it to its end on behalf of the caller, whom the history entries name, even
    after the caller disconnects. No row is carried out twice, even after a crash. If a player has
    changed since the plan, its rows are checked again. A paused batch resumes. The service pauses
    it if the caller loses the needed permission. A batch that is running or done is returned
    unchanged.
    """
    return _progress(access.start(batch_id))


@read(
    "/<batch_id>/pause",
    ProgressSchema,
    Permission.BATCHES_RUN,
    method="POST",
    refuses=(UNKNOWN, StillPlanning(), NotRunning(), Cancelled()),
)
def pause_batch(batch_id: str) -> Document:
    """Pause a batch

    No further rows are carried out until it is run again. A batch that is paused or done is
    returned unchanged.
    """
    return _progress(access.pause(batch_id))


@read(
    "/<batch_id>/cancel",
    ProgressSchema,
    Permission.BATCHES_RUN,
    method="POST",
    refuses=(UNKNOWN, StillPlanning(), AllDone()),
)
def cancel_batch(batch_id: str) -> Document:
    """Cancel a batch

    Completed rows stay, and the remaining rows are not carried out.
    """
    return _progress(access.cancel(batch_id))


@read(
    "/<batch_id>/undo",
    BatchSchema,
    Permission.BATCHES_PLAN,
    Permission.UNDO_OWN,
    args=UndoBatchArgs(),
    method="POST",
    refuses=(UNKNOWN, NotEnded(), NothingToUndo("the batch has changed nothing"), OVER_BUDGET),
)
@blp.idempotent
def undo_batch(args: Document, batch_id: str) -> Response:
    """Plan the batch that undoes another

    It has one row for each completed row, the last one first. Like every plan, it changes nothing
    until it is run. With `Partial`, the `Warning` of a row says which items are missing.
    """
    return _plan_response(planning.plan_undo(batch_id, args["Partial"]))


@read(
    "/<batch_id>/retry",
    BatchSchema,
    Permission.BATCHES_PLAN,
    method="POST",
    refuses=(UNKNOWN, NotEnded(), NothingLeft(), OVER_BUDGET),
)
@blp.idempotent
def retry_batch(batch_id: str) -> Response:
    """Plan a batch with the remaining rows of another

    It has the rows that were refused, or not carried out before the batch was cancelled. Like every
    plan, it changes nothing until it is run. A row whose fields were refused stays refused.
    """
    return _plan_response(planning.plan_retry(batch_id))


def _plan_response(made: Applied) -> Response:
    return change_response(made, public_batch(made.answer))


def _progress(batch: Document) -> Document:
    return {"State": batch["State"], **progress_of(batch)}

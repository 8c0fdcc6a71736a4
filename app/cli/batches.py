"""quartermaster batch: many changes at once, from a file or from history."""

from __future__ import annotations

import hashlib
import io
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from flask.cli import AppGroup

from app.batches.domain import (
    NotRunning,
    follow_up,
    number_of,
    progress_of,
    row_arguments,
)
from app.batches.planning import (
    done_rows,
    make_plan,
    plan_body,
    rows_left,
)
from app.batches.rows import csv_body, json_body
from app.batches.running import PAUSE_SECONDS, worker
from app.batches.schemas import ChosenChangesArgs
from app.batches.store import batches
from app.cli.history import given_options, schema_options
from app.cli.intents import operator, reason_option
from app.core.changes import KINDS, Origin
from app.core.naming import parse_guid, printable
from app.core.progress import progress
from app.core.types import Document

batch = AppGroup("batch", help="Plan, run, retry and undo many changes at once.")

batch_argument = click.argument("which", metavar="FILE|ID")


name_option = click.option("--name", default="", help="The name of the batch.")
file_argument = click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


@batch.command("plan")
@file_argument
@name_option
@reason_option
@click.option("--again", is_flag=True, help="Plan the same file a second time.")
@schema_options(ChosenChangesArgs(), "undo-")
def plan(file: Path | None, name: str, reason: str | None, again: bool, **undo: Any) -> None:
    """Plan a batch from FILE (JSON or CSV), or one that undoes changes in history.

    A time is like 2026-01-31 or 2026-01-31T19:00:00Z, and in UTC unless it names a zone.
    """
    chosen = given_options(undo)
    if bool(file) == bool(chosen):
        raise click.UsageError(
            "Give a FILE, or choose the changes to undo with --undo-... options."
        )
    _show(
        _plan_file(file, name, reason, again)
        if file
        else _plan_body({"Name": name, "Undo": chosen}, reason, {})
    )


@batch.command("run")
@batch_argument
@name_option
@reason_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def run(which: str, name: str, reason: str | None, yes: bool) -> None:
    """Run a batch to its end. A FILE without a plan is planned first.

    Ctrl-C pauses it; the next run continues. If the command is killed, the service continues.
    """
    found = _find(which, partial(_plan_file, name=name, reason=reason, again=False))
    ready = progress_of(found)["Ready"]
    _show(found)
    # A running batch may have to be marked as done although no row is left.
    if not ready and found["State"] != "running":
        return
    if ready and not yes:
        click.confirm(f"Carry out {ready:,} rows?", abort=True, err=True)
    try:
        _run(found["_id"], ready)
    except KeyboardInterrupt:
        # A second Ctrl-C would interrupt the final steps of the command.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with suppress(NotRunning):
            batches.pause(found["_id"])
        click.echo(f"Paused. Resume with quartermaster batch run {found['_id']}.", err=True)
        sys.exit(130)
    _show(batches.get(found["_id"]))


@batch.command("pause")
@batch_argument
def pause(which: str) -> None:
    """Pause a batch until it is run again."""
    _show(batches.pause(_find(which)["_id"]))


@batch.command("show")
@batch_argument
@click.option("--rows", is_flag=True, help="Show all rows, not only refused ones.")
def show(which: str, rows: bool) -> None:
    """Show the progress of a batch, and its refused rows with their reasons."""
    found = _find(which)
    _show(found)
    wanted: Document = {} if rows else {"Verdict": "refused"}
    for row in batches.walk_rows(found["_id"], **wanted):
        arguments = " ".join(f"{name}={value}" for name, value in row_arguments(row).items())
        subject = (row["Subject"] or {}).get("Name") or row["Player"] or "?"
        line = f"{number_of(row)}  {subject}  {row['Operation']} {arguments}  {row['Verdict']}"
        why = row["Why"] or row.get("Warning")
        click.echo(printable(f"{line}  {why}" if why else line))


@batch.command("undo")
@batch_argument
@reason_option
@click.option("--partial", is_flag=True, help="Take or give back items as far as possible.")
def undo(which: str, reason: str | None, partial: bool) -> None:
    """Plan the batch that undoes all changes of another batch."""
    found = batches.require_ended(_find(which)["_id"])
    rows = done_rows(found["_id"], partial)
    _show(make_plan(rows, {**follow_up(found, "Undo", "Undoes"), **_author(reason)}).answer)


@batch.command("retry")
@batch_argument
@reason_option
def retry(which: str, reason: str | None) -> None:
    """Plan a batch with the rows that another batch has not carried out."""
    found = batches.require_ended(_find(which)["_id"])
    rows = rows_left(found["_id"])
    _show(make_plan(rows, {**follow_up(found, "Rest", "Retries"), **_author(reason)}).answer)


def _author(reason: str | None) -> Document:
    return {"Reason": reason, "By": {"UserId": None, "Name": operator()}, "Via": "cli"}


def _plan_body(
    body: Document, reason: str | None, request: Document, *advance: Callable[[int], object]
) -> Document:
    def author_of(given: str | None) -> Document:
        return _author(reason or given)

    return plan_body(body, KINDS, author_of, request, *advance).answer


def _plan_file(path: Path, name: str, reason: str | None, again: bool) -> Document:
    content = path.read_bytes()
    request, file = _request_of(content), io.BytesIO(content)
    body = csv_body(file) if path.suffix.lower() == ".csv" else json_body(file, "The file")
    if again:
        batches.forget_request(request["RequestKey"])
    body["Name"] = name or body.get("Name") or path.name
    # The number of rows is unknown before the end; it is about the number of lines.
    with progress("Planning", content.count(b"\n") + 1) as advance:
        return _plan_body(body, reason, request, advance)


def _request_of(content: bytes) -> Document:
    """Return the fields by which a file finds its batch."""
    return {"RequestKey": f"file {hashlib.sha256(content).hexdigest()}", "Fingerprint": ""}


def _find(which: str, plan: Callable[[Path], Document] | None = None) -> Document:
    """Return the batch with an id, or that of a file; plan makes it if there is none."""
    if id_ := parse_guid(which):
        return batches.get(id_)
    path = Path(which)
    if not path.is_file():
        raise click.ClickException(f"'{printable(which)}' is neither a file nor the id of a batch.")
    if found := batches.find_earlier(_request_of(path.read_bytes())):
        return found
    if plan:
        return plan(path)
    raise click.ClickException("This file has no plan yet: run quartermaster batch plan FILE.")


def _run(batch_id: str, ready: int) -> None:
    origin = Origin(None, operator(), "batch")
    batch = batches.start(batch_id, {"UserId": None, "Name": operator()})
    with progress("Running", ready) as advance:
        while batch["State"] == "running":
            if not worker.carry_out(batch, origin):
                # A worker of the service carries it out.
                time.sleep(PAUSE_SECONDS)
            batch = batches.get(batch_id)
            left = progress_of(batch)["Ready"]
            advance(ready - left)
            ready = left


def _show(found: Document) -> None:
    counts = progress_of(found).items()
    numbers = ", ".join(f"{count:,} {name.lower()}" for name, count in counts)
    name = printable(found["Name"] or "Batch")
    click.echo(f"{name} ({found['_id']}): {found['State']}, {found['Rows']:,} rows: {numbers}.")
    if found["State"] == "paused" and found.get("PausedWhy"):
        click.echo(found["PausedWhy"])

"""The author and the reason of a change at the command line, and how a command reports it."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import click
from flask import current_app

from app.auth import execution
from app.core.changes import Applied, Intent, Origin
from app.core.naming import parse_guid, printable
from app.core.operations import Operation
from app.http.intents import LONGEST_REASON
from app.http.masking import masked
from app.http.parser import load

log = logging.getLogger("quartermaster")

TIME_FORMAT = "such as 2026-01-31 or 2026-01-31T19:00:00Z; in UTC unless it names a zone."


class Time(click.ParamType):
    """A time in ISO 8601; in UTC unless it names a zone."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        try:
            at = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
            return at.astimezone(timezone.utc) if at.tzinfo else at.replace(tzinfo=timezone.utc)
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is not a time like 2026-01-31 or 2026-01-31T19:00:00Z.")


class Guid(click.ParamType):
    """The id of an item, spell or variable."""

    name = "guid"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        return parse_guid(value) or self.fail(f"'{value}' is not a guid.")


def _reason(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value and (len(value) > LONGEST_REASON or not value.isprintable()):
        raise click.BadParameter(f"must be at most {LONGEST_REASON} printable characters.")
    return masked((value or "").strip()) or None


reason_option = click.option("--reason", callback=_reason, help="The reason, for the history.")


def intent(operation: Operation, reason: str | None, **arguments: Any) -> Intent:
    return Intent(operation.name, Origin(None, operator(), "cli", reason=reason), arguments)


def make(operation: Operation, key: Any, reason: str | None, **given: Any) -> Applied:
    """Execute an operation with the arguments of a command."""
    args = load(operation.arguments, given) if operation.arguments else {}
    meant = intent(operation, reason, **operation.history_arguments(args))
    return execution.make(operation, key, args, meant)


def report(output: str, done: str = "") -> None:
    """Print what a command did, and log it, because no request log contains it.

    If the output is a secret, the log has what was done instead.
    """
    log.info("The system user %s at the command line: %s", operator(), done or output)
    click.echo(output)


def operator() -> str:
    """Return the operator's name: QM_OPERATOR, else the system user."""
    return current_app.config["OPERATOR"] or system_user()


def system_user() -> str:
    """Return the name of the real user id; $USER and $LOGNAME can be forged."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # no passwd entry, as in a container
        return str(os.getuid())


def print_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = [columns, *(tuple(map(printable, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())

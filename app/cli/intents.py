"""Changes at the command line: who makes one and why, and quartermaster run."""

from __future__ import annotations

import json
import os
import pwd
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import click
from flask import current_app
from flask.cli import with_appcontext

from app.auth import execution
from app.catalogue.store import ObjectKey
from app.core.changes import Applied, Intent, Origin
from app.core.naming import Lookup, printable
from app.core.operations import Operation, all_operations
from app.core.texts import whole_text
from app.core.types import Document
from app.http.api import Schema
from app.http.intents import LONGEST_REASON, change_headers, with_key
from app.http.json import encode
from app.http.lenient import respell
from app.http.masking import masked
from app.http.parser import load
from app.players.variables.domain import GLOBAL


def _reason(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value and (len(value) > LONGEST_REASON or not value.isprintable()):
        raise click.BadParameter(f"must be at most {LONGEST_REASON} printable characters.")
    return masked((value or "").strip()) or None


reason_option = click.option("--reason", callback=_reason, help="The reason, for the history.")


def intent(operation: Operation, reason: str | None, **arguments: Any) -> Intent:
    return Intent(operation.name, Origin(None, operator(), "cli", reason=reason), arguments)


def make(
    operation: Operation,
    key: Any,
    given: Document,
    reason: str | None,
    idempotency_key: str | None = None,
) -> Applied:
    """Execute an operation with the arguments of a command."""
    args: Document = load(operation.arguments or Schema(), given)
    meant = intent(operation, reason or args.get("reason"), **operation.history_arguments(args))
    # Without secrets, as by a form: history keeps a fingerprint of the arguments.
    meant = with_key(meant, idempotency_key, meant.arguments)
    return execution.make(operation, key, args, meant)


def _executable() -> dict[str, Operation]:
    """Return the operations by name; if several kinds have one of that name, by name and kind."""
    found = [
        one
        for one in all_operations()
        # A note is by an account.
        if one.name != "note" and (one.run or one.changes_one)
    ]
    count = Counter(one.name for one in found)
    return {f"{one.name}-{one.subject}" if count[one.name] > 1 else one.name: one for one in found}


EXECUTABLE = _executable()
# What the key of an operation is, if not the name or the id of a character or an account.
KEYS: dict[str, Callable[[str], Any]] = {"role": str, "object": partial(ObjectKey, GLOBAL)}


def named_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not NAME=VALUE.")
    return name, json.loads(value) if value.startswith(("[", "{")) else value


@click.command()
@click.argument("name", metavar="OPERATION", type=click.Choice([*EXECUTABLE]))
@click.argument("key")
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1, type=named_value)
@click.option("--idempotency-key", help="Repeated with this key, it is not made again.")
@reason_option
@with_appcontext
def run(name: str, key: str, values: tuple[tuple[str, Any], ...], **about: str | None) -> None:
    """Execute OPERATION on KEY, and print the answer as JSON.

    KEY is the name or the id of a character, an account, a role or a global variable; - if the
    arguments name it. The arguments are those of the API; a list or an object is JSON.
    """
    operation, given = EXECUTABLE[name], dict(values)
    given |= respell(operation.arguments or Schema(), given)
    parse = KEYS.get(operation.subject, Lookup.parse)
    applied = make(operation, None if key == "-" else parse(key), given, **about)
    click.echo(encode(applied.answer))
    for header in change_headers(applied).items():
        click.echo(": ".join(header), err=True)


def operator() -> str:
    """Return the operator's name: QM_OPERATOR, else the system user."""
    return current_app.config["OPERATOR"] or system_user()


def system_user() -> str:
    """Return the name of the real user id; $USER and $LOGNAME can be forged."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # no passwd entry, as in a container
        return str(os.getuid())


def print_table(columns: tuple[str, ...], rows: Iterable[Iterable[str]]) -> None:
    table = [columns, *(tuple(map(printable, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def print_records(records: Iterable[Document], names: tuple[str, ...]) -> None:
    """Print these fields of records as a table."""
    print_table(names, ([whole_text(one[name] or "") for name in names] for one in records))

"""Who changes something at the command line, and why."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from typing import Any

import click
from flask import current_app

from app.changes import Intent, Origin
from app.http.masking import masked
from app.operations import Operation
from app.storage.client import Storage
from app.storage.errors import DatabaseError

LONGEST_REASON = 500


def _reason(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value and (len(value) > LONGEST_REASON or not value.isprintable()):
        raise click.BadParameter(f"must be at most {LONGEST_REASON} printable characters.")
    return masked((value or "").strip()) or None


reason_option = click.option("--reason", callback=_reason, help="Why, for the history.")


def intent(operation: Operation, reason: str | None, **arguments: Any) -> Intent:
    """Return what a command intends to change."""
    return Intent(operation.name, Origin(None, operator(), "cli", reason=reason), arguments)


def move_entries(storage: Storage) -> None:
    """Move the entries of a command to history; what fails here is left to the service."""
    with suppress(DatabaseError):
        storage.journals.move_noted()


def operator() -> str:
    """Return who runs this command: whom QM_OPERATOR names, else the system user."""
    return current_app.config["OPERATOR"] or system_user()


def system_user() -> str:
    """Return the name of the real user id; $USER and $LOGNAME can be forged."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # no passwd entry, as in a container
        return str(os.getuid())

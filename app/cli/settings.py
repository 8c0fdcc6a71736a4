"""quartermaster settings."""

from __future__ import annotations

import json
from typing import TextIO

import click
from flask import current_app
from flask.cli import with_appcontext

import config
from app.cli.tables import print_table
from app.http.openapi.docs_page import SPECIFICATION


@click.command()
def settings() -> None:
    """List the settings: where each comes from, its default and its value.

    Secrets and passwords are masked.
    """
    print_table(("SETTING", "FROM", "DEFAULT", "VALUE"), config.explain(config.load()))


@click.command()
@click.argument("file", type=click.File("w"), default="-")
@with_appcontext
def openapi(file: TextIO) -> None:
    """Write the OpenAPI document, to the terminal unless FILE is given."""
    document = current_app.extensions[SPECIFICATION]()
    file.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

"""quartermaster settings."""

from __future__ import annotations

import click

import config
from app.cli.tables import print_table
from app.http.json import encode

COLUMNS = ("SETTING", "FROM", "DEFAULT", "VALUE")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, one per setting.")
def settings(as_json: bool) -> None:
    """List the settings: where each comes from, its default and its value.

    Secrets and passwords are masked.
    """
    rows = config.explain(config.load())
    if as_json:
        for row in rows:
            click.echo(encode(dict(zip(map(str.title, COLUMNS), row, strict=True))))
    else:
        print_table(COLUMNS, rows)

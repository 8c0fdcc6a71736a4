"""quartermaster settings."""

from __future__ import annotations

import click

import config
from app.cli.tables import print_table


@click.command()
def settings() -> None:
    """List the settings: where each comes from, its default and its value.

    Secrets and passwords are masked.
    """
    print_table(("SETTING", "FROM", "DEFAULT", "VALUE"), config.explain(config.load()))

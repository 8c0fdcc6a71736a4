"""quartermaster game."""

from __future__ import annotations

import click
from flask import current_app
from flask.cli import AppGroup

from app.errors import Conflict
from app.game_check.check import GameCheck
from app.http.context import current
from app.http.json import encode
from app.progress import progress
from app.storage.client import Storage
from app.storage.schema import migrations

LONGEST_WATCH = 24 * 3600

storage = current(Storage)

game = AppGroup("game", help="Look after the game that shares the database.")


@game.command("check")
@click.option(
    "--seconds",
    type=click.IntRange(0, LONGEST_WATCH),
    default=10,
    show_default=True,
    help="For how long to watch who writes what; 0: not at all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, each a habit.")
@click.pass_context
def check_game(ctx: click.Context, seconds: int, as_json: bool) -> None:
    """Say in sentences what the game does wrong.

    Looks at what is stored, and watches for some seconds who writes what; it changes nothing.
    docs/game.rst has the rules for a game. Ends with 1 if the game has a habit to change.
    """
    if migrations.version_of(storage.db) < migrations.CURRENT:
        raise Conflict("The database is not up to date: quartermaster db init comes first.")
    check = GameCheck(storage, current_app.config["ONLINE_TTL_SECONDS"])
    with check.patiently():
        for label, length, steps in check.stages(seconds):
            with progress(label, length) as advance:
                for step in steps:
                    advance(step)
    for finding in check.findings.values():
        click.echo(encode(finding.as_record()) if as_json else finding.text())
    if not as_json:
        click.echo(check.summary(f"The database '{storage.db.name}'", seconds))
    ctx.exit(1 if check.findings else 0)

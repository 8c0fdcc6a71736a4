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

game = AppGroup("game", help="Check the game that shares the database.")


@game.command("check")
@click.option(
    "--seconds",
    type=click.IntRange(0, LONGEST_WATCH),
    default=10,
    show_default=True,
    help="How long to watch the game's writes; 0: not at all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, each a habit.")
@click.pass_context
def check_game(ctx: click.Context, seconds: int, as_json: bool) -> None:
    """Report what the game does wrong.

    Checks the stored data, and watches the game's writes for some seconds. It changes nothing.
    docs/game.rst has the rules for a game. Exits with 1 if the game breaks one of them.
    """
    if migrations.version_of(storage.db) < migrations.CURRENT:
        raise Conflict("The database is not up to date: run quartermaster db init first.")
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

"""The command-line program, quartermaster."""

from __future__ import annotations

import gc
import os
from functools import partial
from typing import Any

import click
from flask import Flask
from flask.cli import AppGroup, ScriptInfo

import config
from app import create_app, create_bare_app
from app.cli.accounts import api, token, user
from app.cli.batches import batch
from app.cli.data import backup, export, import_records, restore, seed
from app.cli.database import db
from app.cli.history import history
from app.cli.intents import run
from app.cli.keys import key
from app.cli.serve import openapi, serve, settings
from app.cli.staff import staff
from app.core.errors import QuartermasterError
from app.http.context import SERVICES
from app.storage.client import Storage
from app.storage.errors import DatabaseError, describe
from app.storage.schema.collections import refuse_unfit_server
from app.storage.schema.migrations import refuse_newer, refuse_unfinished_restore
from config import SettingsError
from config.base import Settings

# Commands of the last release, and what replaces them.
REMOVED = {
    "game": "db check reports what is stored wrongly, and docs/game.rst what a game should avoid.",
    "postman": "the Postman collection is in postman/, and make contract generates it.",
}


class ErrorReportingGroup(AppGroup):
    """Reports expected errors as one sentence instead of a traceback."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] in REMOVED:
            raise click.UsageError(f"The command {args[0]} was removed: {REMOVED[args[0]]}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DatabaseError as error:
            raise click.ClickException(describe(error)) from error
        except BrokenPipeError:  # click handles this OSError itself, as in `export | head`
            raise
        except OSError as error:
            raise click.ClickException(f"{error.strerror}: {error.filename or 'output'}") from error
        except (QuartermasterError, SettingsError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=ErrorReportingGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quartermaster", prog_name="quartermaster")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Quartermaster, the management API of a game server.

    The environment variable QM_<NAME> overrides any setting in config/.
    """
    ctx.obj = ScriptInfo(create_app=partial(_create_app, ctx), set_debug_flag=False)


def _create_app(ctx: click.Context) -> Flask:
    """Create the application for a command, and close its database when the command ends."""
    is_offline = ctx.invoked_subcommand == "openapi"
    # Only the API document needs the routes, which take a tenth of a second to register.
    app = create_app(_offline_settings()) if is_offline else create_bare_app()
    storage = app.extensions[SERVICES][Storage]
    ctx.call_on_close(storage.close)
    if is_offline:
        return app
    # The db commands check the schema version themselves: db version must report a newer one.
    if ctx.invoked_subcommand != "db":
        refuse_unfit_server(storage.db)
    if ctx.invoked_subcommand != "restore":
        refuse_unfinished_restore(storage.db)
        if ctx.invoked_subcommand != "db":
            refuse_newer(storage.db)
    return app


def _offline_settings() -> Settings:
    """Return settings for commands that use no database; pymongo connects lazily."""
    return config.load({**os.environ, "QM_ENV": "testing"}, MONGODB_URI="mongodb://localhost")


COMMANDS = (
    serve,
    db,
    seed,
    import_records,
    export,
    backup,
    restore,
    user,
    api,
    token,
    key,
    history,
    batch,
    staff,
    run,
    settings,
    openapi,
)
for command in COMMANDS:
    main.add_command(command)
# Freeze all imported objects: a garbage collection at exit would take a quarter of a second.
gc.freeze()

if __name__ == "__main__":
    main()

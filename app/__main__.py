"""The program: quartermaster."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from flask import Flask
from flask.cli import AppGroup, ScriptInfo

from app import create_app
from app.cli.accounts import api, token, user
from app.cli.data import db, export, import_records, seed
from app.cli.serve import serve
from app.errors import QuartermasterError
from app.http.stores import PARTS
from app.storage.client import Storage
from app.storage.faults import DatabaseError, explain
from config import SettingsError


class Program(AppGroup):
    """Tells what went wrong in a sentence, where Python would show its stack."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DatabaseError as error:
            reason = str(error).split(",")[0]
            raise click.ClickException(
                f"{explain(error) or 'MongoDB refused'} ({reason})"
            ) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            raise click.ClickException(f"{error.strerror}: {error.filename or 'output'}") from error
        except (QuartermasterError, SettingsError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="quartermaster", prog_name="quartermaster")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Quartermaster, the management API of a game server.

    Every setting in config/ is overridden by the environment variable QM_<NAME>.
    """
    ctx.obj = ScriptInfo(create_app=partial(_create_app, ctx), set_debug_flag=False)


def _create_app(ctx: click.Context) -> Flask:
    """Make the application for a command, and give its database up when the command ends."""
    app = create_app()
    ctx.call_on_close(app.extensions[PARTS][Storage].close)
    return app


for command in (serve, db, seed, import_records, export, user, api, token):
    main.add_command(command)

if __name__ == "__main__":
    main()

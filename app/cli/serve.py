"""quartermaster serve, settings and openapi."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, closing
from typing import Any, TextIO

import click
from flask import current_app
from flask.cli import with_appcontext

import config
from app.auth.tokens import signing_keys
from app.cli.intents import print_table
from app.core.errors import Conflict
from app.http import logs
from app.http.openapi.docs_page import SPECIFICATION
from app.server import granian_server, startup
from app.server.gunicorn_server import GunicornServer
from app.storage.client import Storage
from app.storage.schema import preparation
from config.base import Settings


@click.command()
@click.option("--host", help="The address to listen on (QM_HOST, 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="The port (QM_PORT, 8000).")
@click.option("--workers", type=click.IntRange(1), help="Worker processes (QM_WORKERS, 2).")
@click.option("--server", type=click.Choice(["gunicorn", "granian"]), default="gunicorn")
@click.option("--demo", is_flag=True, help="Fill an empty database with a demo world.")
def serve(host: str | None, port: int | None, workers: int | None, server: str, demo: bool) -> None:
    """Serve the API with gunicorn, or with Granian if it is installed.

    Without QM_MONGODB_URI, development starts an embedded MongoDB with its data in QM_DATA_DIR.
    """
    settings = _settings(HOST=host, PORT=port, WORKERS=workers, demo=demo)
    handler = logs.configure(settings.LOG_LEVEL, settings.LOG_FORMAT)
    with ExitStack() as stack:
        startup.wait_for_address(settings)
        storage = stack.enter_context(closing(Storage(settings)))
        handler.addFilter(storage.outage)
        preparation.share_readiness()
        startup.prepare_database(storage, settings, demo)
        # Fails once, with a readable message, instead of in every worker.
        signing_keys(settings)
        # pymongo's client is not fork-safe: each worker makes its own.
        storage.client.close()
        os.environ["QM_MONGODB_URI"] = storage.uri
        if settings.ENV != "production":
            click.echo(startup.banner(settings, demo))
        if server == "granian":
            granian_server.run(settings)
        else:
            # A worker inherits the stack, and must not release the master's resources.
            GunicornServer(on_fork=stack.pop_all).run()


def _settings(demo: bool, **options: Any) -> Settings:
    """Load the settings, with the options put into the environment that the workers inherit."""
    given = {name: str(value) for name, value in options.items() if value is not None}
    os.environ.update({f"QM_{name}": value for name, value in given.items()})
    if demo:
        # No game server updates LastSeen in the demo world: a TTL would show everybody as offline.
        os.environ.setdefault("QM_ONLINE_TTL_SECONDS", "0")
    settings = config.load()
    if demo and settings.ENV == "production":
        raise Conflict("--demo is not for production: its account and password are public.")
    return settings


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

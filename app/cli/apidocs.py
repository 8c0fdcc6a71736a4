"""quartermaster openapi and postman."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

import click
from flask import current_app
from flask.cli import with_appcontext

from app.openapi.docs_page import SPECIFICATION
from app.openapi.postman import collection, environment

COLLECTION = "quartermaster.postman_collection.json"
ENVIRONMENT = "quartermaster.postman_environment.json"


@click.command()
@click.argument("file", type=click.File("w"), default="-")
@with_appcontext
def openapi(file: TextIO) -> None:
    """Write the OpenAPI document, to the terminal unless FILE is given."""
    file.write(_text(current_app.extensions[SPECIFICATION]()))


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="postman")
@with_appcontext
def postman(folder: Path) -> None:
    """Write the Postman collection and its environment into FOLDER (postman)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / COLLECTION).write_text(_text(collection(current_app.extensions[SPECIFICATION]())))
    (folder / ENVIRONMENT).write_text(_text(environment()))
    click.echo(f"Wrote {folder / COLLECTION} and {folder / ENVIRONMENT}.")


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

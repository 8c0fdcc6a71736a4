"""The console: pages for the people who run the game.

Each page is in the module of its subject; what they share is in pages and in forms.
"""

from __future__ import annotations

from urllib.parse import quote

from flask import Flask, Response, request

from app.auth import guard
from app.console import (
    acting,
    batches,
    catalogue,
    chat,
    files,
    game,
    health,
    history,
    home,
    keys,
    new_batch,
    pages,
    players,
    privacy,
    renaming,
    sign_in,
    users,
)
from app.console.session import SAFE_METHODS
from app.errors import NotFound

# Importing a module registers its pages.
PAGES = (
    *(sign_in, home, players, renaming, users, keys, privacy),
    *(game, chat, acting, history, new_batch, batches, catalogue, health),
)


def register(app: Flask) -> None:
    """Add the console to the application."""
    app.register_blueprint(pages.blp)


@pages.blp.route("/<path:rest>", methods=["GET", "POST"])
@guard.public
def nowhere(rest: str) -> Response:
    """Lead from the address of a form, which a browser shows after a refusal, to its page."""
    if request.method in SAFE_METHODS and pages.is_form():
        return pages.see_other(quote(pages.page_of_form()))
    raise NotFound("page", rest, "There is no such page.")


files.register(pages.blp)
pages.register_errors()

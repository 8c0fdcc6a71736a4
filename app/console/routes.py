"""The console: pages for the people who run the game.

Each page is in the module of its subject; shared parts are in frame and forms.
"""

from __future__ import annotations

from urllib.parse import quote

from flask import Flask, Response, request

from app.auth import guard
from app.console.approvals import views as approvals
from app.console.batches import views as batches
from app.console.catalogue import views as catalogue
from app.console.frame import error_pages, files, pages
from app.console.game import views as game
from app.console.health import views as health
from app.console.history import views as history
from app.console.home import views as home
from app.console.keys import views as keys
from app.console.players import views as players
from app.console.report import views as report
from app.console.session import second_factor, sign_in
from app.console.session.sessions import SAFE_METHODS
from app.console.staff import views as staff
from app.console.users import views as users
from app.core.errors import NotFound

# Importing a module registers its pages.
PAGES = (
    *(sign_in, second_factor, home, players, users, keys, game, history),
    *(batches, approvals, catalogue, report, health, staff, error_pages),
)


def register(app: Flask) -> None:
    """Add the console to the application."""
    app.register_blueprint(pages.blp)


@pages.blp.route("/<path:rest>", methods=["GET", "POST"])
@guard.without_database
def nowhere(rest: str) -> Response:
    """Redirect from the URL of a form, which a browser shows after a refusal, to its page."""
    if request.method in SAFE_METHODS and pages.endpoint_of(request.path, "POST") != pages.NOWHERE:
        return pages.see_other(quote(pages.page_of_form()))
    raise NotFound("page", rest, "There is no such page.")


pages.blp.add_url_rule(f"/files/{files.DIGEST}/<name>", view_func=files.get_file)

"""The console: pages for the people who run the game.

Each page is in the module of its subject; shared parts are in frame and forms.
"""

from __future__ import annotations

from flask import Flask

from app.console.approvals import views as approvals
from app.console.batches import views as batches
from app.console.catalogue import views as catalogue
from app.console.frame.pages import blp
from app.console.game import views as game
from app.console.health import views as health
from app.console.history import views as history
from app.console.home import views as home
from app.console.keys import views as keys
from app.console.players import views as players
from app.console.report import views as report
from app.console.session import sign_in
from app.console.staff import views as staff
from app.console.users import views as users

# Importing a module registers its pages.
PAGES = (
    *(sign_in, home, players, users, keys, game, history),
    *(batches, approvals, catalogue, report, health, staff),
)


def register(app: Flask) -> None:
    app.register_blueprint(blp)

"""Quartermaster: the management API of a game server."""

from __future__ import annotations

from flask import Flask

import config
from app.api_keys import routes as api_keys
from app.approvals import routes as approvals
from app.auth import guard
from app.batches import routes as batches
from app.compatibility import application as compatibility
from app.console import routes as console
from app.game import routes as game
from app.game.actions import routes as actions
from app.game.events import routes as events
from app.game.server import routes as game_server
from app.game_events import routes as game_events
from app.guilds import routes as guilds
from app.history import routes as history
from app.http import address, cors, errors, logs, probes
from app.http.context import SERVICES, NoSessions
from app.http.json import OrjsonProvider
from app.http.path_converters import CONVERTERS
from app.http.tracing import RequestTracing, name_by_route
from app.integrity.operations import REPAIR
from app.items import routes as items
from app.moderation import routes as moderation
from app.notes import routes as notes
from app.oauth import routes as oauth
from app.objects import routes as objects
from app.openapi import docs_page
from app.players import routes as players
from app.privacy import routes as privacy
from app.second_factor import routes as second_factor
from app.services import add_services
from app.spells import routes as spells
from app.staff import routes as staff
from app.storage.client import Storage
from app.storage.errors import DatabaseError, explain
from app.storage.schema.preparation import Preparation
from app.transfer.operations import IMPORT
from app.users import routes as users
from app.variables import routes as variables
from config.base import Settings

# Operations of rooms without routes: nothing else would import them.
COMMANDS = (IMPORT, REPAIR)
# In the order of the documentation's groups.
BLUEPRINTS = (
    players.blp,
    players.leaderboard,
    variables.of_players,
    items.blp,
    spells.blp,
    moderation.of_players,
    actions.of_players,
    game_server.of_players,
    notes.of_players,
    history.of_players,
    game_events.of_players,
    guilds.blp,
    users.blp,
    second_factor.blp,
    moderation.of_users,
    actions.of_users,
    notes.of_users,
    history.of_users,
    privacy.blp,
    history.blp,
    batches.blp,
    approvals.blp,
    events.blp,
    actions.blp,
    game_server.blp,
    game_events.of_game,
    objects.blp,
    variables.of_game,
    game.blp,
    history.logs,
    oauth.blp,
    api_keys.blp,
    staff.of_roles,
    staff.of_staff,
)


def create_app(settings: Settings | None = None) -> Flask:
    """Return the application. Call it after the fork: pymongo's client is not fork-safe."""
    app = create_bare_app(settings)
    app.json = OrjsonProvider(app)
    app.session_interface = NoSessions()
    app.logger.addFilter(name_by_route)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.wsgi_app = RequestTracing(  # type: ignore[method-assign] # as Flask documents it
        app.wsgi_app, app.extensions, app.extensions[SERVICES][Storage].request_scope
    )
    address.register(app, app.config["TRUSTED_PROXIES"])
    cors.register(app, app.config["CORS_ORIGINS"])
    add_routes(app)
    errors.register(app, DatabaseError, explain)
    guard.check_every_view(app)
    if app.config["COMPATIBILITY"] == compatibility.INTERSECT:
        compatibility.apply(app)
    return app


def create_bare_app(settings: Settings | None = None) -> Flask:
    """Return an application without routes, for commands."""
    settings = settings or config.load()
    handler = logs.configure(settings.LOG_LEVEL, settings.LOG_FORMAT, config.unknown_variables())
    app = Flask(__name__, static_folder=None, template_folder="users/templates")
    app.config.from_object(settings)
    storage = Storage(settings)
    handler.addFilter(storage.outage)
    add_services(app, settings, storage)
    return app


def add_routes(app: Flask) -> None:
    app.url_map.converters |= CONVERTERS
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    if app.config["CONSOLE"]:
        console.register(app)
    docs_page.register(app, BLUEPRINTS, guard.without_database)
    services = app.extensions[SERVICES]
    lifetime, is_ready = services[Storage].lifetime, services[Preparation].check
    probes.register(app, guard.without_database, is_ready, lambda: lifetime.faults)

"""Quartermaster: the management API of a game server."""

from __future__ import annotations

from functools import partial

from flask import Flask

import config
from app.approvals import routes as approvals_routes
from app.auth import guard
from app.batches import routes as batches_routes
from app.catalogue import routes as objects_routes
from app.compatibility import views as compatible
from app.console import routes as console_routes
from app.core.limits import RequestScope
from app.game import events as events_routes
from app.game import routes as game_routes
from app.game.actions import routes as actions_routes
from app.game.player_events import routes as game_events_routes
from app.game.server import routes as game_server_routes
from app.history import routes as history_routes
from app.http import address, cors, errors, logs, probes
from app.http.context import SERVICES, NoSessions
from app.http.openapi import docs_page
from app.http.path_converters import CONVERTERS
from app.http.tracing import RequestTracing, name_by_route
from app.maintenance.operations import IMPORT, REPAIR
from app.players import character
from app.players import guilds as guilds_routes
from app.players import routes as players_routes
from app.players import spells as spells_routes
from app.players.items import routes as items_routes
from app.players.variables import routes as variables_routes
from app.privacy import routes as privacy_routes
from app.services import add_services
from app.storage.client import Storage
from app.storage.errors import DatabaseError, explain
from app.storage.schema.preparation import Preparation
from app.users import moderation as moderation_routes
from app.users import notes as notes_routes
from app.users import routes as users_routes
from app.users.api_keys import routes as api_keys_routes
from app.users.oauth import routes as oauth_routes
from app.users.second_factor import routes as second_factor_routes
from app.users.staff import routes as staff_routes
from config.base import Settings

# Operations of rooms without routes: nothing else would import them.
COMMANDS = (IMPORT, REPAIR)
# In the order of the documentation's groups.
BLUEPRINTS = (
    players_routes.blp,
    character.blp,
    players_routes.leaderboard,
    variables_routes.of_players,
    items_routes.blp,
    spells_routes.blp,
    moderation_routes.of_players,
    actions_routes.of_players,
    game_server_routes.of_players,
    notes_routes.of_players,
    history_routes.of_players,
    game_events_routes.of_players,
    guilds_routes.blp,
    users_routes.blp,
    second_factor_routes.blp,
    moderation_routes.of_users,
    actions_routes.of_users,
    notes_routes.of_users,
    history_routes.of_users,
    privacy_routes.blp,
    history_routes.blp,
    batches_routes.blp,
    approvals_routes.blp,
    events_routes.blp,
    actions_routes.blp,
    game_server_routes.blp,
    game_events_routes.of_game,
    objects_routes.blp,
    variables_routes.of_game,
    game_routes.blp,
    history_routes.logs,
    oauth_routes.blp,
    api_keys_routes.blp,
    staff_routes.of_roles,
    staff_routes.of_staff,
)


def create_app(settings: Settings | None = None) -> Flask:
    """Return the application. Call it after the fork: pymongo's client is not fork-safe."""
    app = create_bare_app(settings)
    app.session_interface = NoSessions()
    app.logger.addFilter(name_by_route)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.wsgi_app = RequestTracing(  # type: ignore[method-assign] # as Flask documents it
        app.wsgi_app, partial(RequestScope, app.extensions[SERVICES][Storage].places)
    )
    address.register(app, app.config["TRUSTED_PROXIES"])
    cors.register(app, app.config["CORS_ORIGINS"])
    add_routes(app)
    errors.register(app, DatabaseError, explain, errors.answer, errors.answer_http)
    guard.check_every_view(app)
    if app.config["COMPATIBILITY"] == compatible.INTERSECT:
        compatible.apply(app)
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
        console_routes.register(app)
    docs_page.register(app, BLUEPRINTS, guard.without_database)
    services = app.extensions[SERVICES]
    lifetime, is_ready = services[Storage].lifetime, services[Preparation].check
    probes.register(app, guard.without_database, is_ready, lambda: lifetime.faults)

"""Quartermaster: the management API of a game server."""

from __future__ import annotations

from functools import partial

from flask import Flask

import config
from app.api_keys import routes as api_keys
from app.approvals import routes as approvals
from app.approvals.store import Approvals
from app.auth import guard
from app.auth import services as auth_services
from app.auth.callers import Callers
from app.auth.secret import signing_keys
from app.batches import routes as batches
from app.batches import services as batch_services
from app.batches.store import Batches
from app.compatibility import application as compatibility
from app.console import routes as console
from app.database import COLLECTIONS
from app.game import routes as game
from app.game.actions import routes as actions
from app.game.actions.store import Actions
from app.game.events import routes as events
from app.game.events.store import Events
from app.game.server import routes as game_server
from app.game.server.store import Letters, TakenActions
from app.game_events import routes as game_events
from app.game_events.store import GameEvents
from app.guilds import routes as guilds
from app.guilds.store import Guilds
from app.history import routes as history
from app.history.activity import Activity
from app.history.reports.store import Reports
from app.history.store import History
from app.http import address, cors, errors, logs, probes
from app.http.context import SERVICES, NoSessions
from app.http.json import OrjsonProvider
from app.http.path_converters import CONVERTERS
from app.http.tracing import RequestTracing, name_by_route
from app.integrity.operations import REPAIR
from app.items import routes as items
from app.items import services as item_services
from app.items.store import Catalogue
from app.items.transfers.store import Transfers
from app.moderation import routes as moderation
from app.notes import routes as notes
from app.oauth import routes as oauth
from app.oauth.store import RefreshTokens
from app.objects import routes as objects
from app.openapi import docs_page
from app.openid.group_roles import GroupRoles
from app.openid.provider import Provider
from app.players import routes as players
from app.players import services as player_services
from app.players.store import Players
from app.privacy import routes as privacy
from app.privacy import services as privacy_services
from app.privacy.store import Erasures
from app.samples.sampler import Sampler
from app.samples.store import Samples
from app.second_factor import routes as second_factor
from app.second_factor.vault import Vault
from app.services import Services
from app.spells import routes as spells
from app.staff import routes as staff
from app.staff.store import WAYS_IN, Roles, Staff, missing_power_role
from app.storage.chores import Chores
from app.storage.client import Storage
from app.storage.errors import DatabaseError, explain
from app.storage.events import Feed
from app.storage.schema.preparation import Preparation
from app.transfer.operations import IMPORT
from app.users import routes as users
from app.users import services as user_services
from app.users.store import Users
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
    services: Services = app.extensions[SERVICES]
    app.json = OrjsonProvider(app)
    app.session_interface = NoSessions()
    app.logger.addFilter(name_by_route)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.wsgi_app = RequestTracing(  # type: ignore[method-assign] # as Flask documents it
        app.wsgi_app, app.extensions, services[Storage].request_scope
    )
    address.register(app, services.settings.TRUSTED_PROXIES)
    cors.register(app, services.settings.CORS_ORIGINS)
    add_routes(app)
    errors.register(app, DatabaseError, explain)
    guard.check_every_view(app)
    if services.settings.COMPATIBILITY == compatibility.INTERSECT:
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


def add_services(app: Flask, settings: Settings, storage: Storage) -> None:
    """Create the services that views reach with ``current``. Each room adds its own, bottom up."""
    find_fault = partial(missing_power_role, storage.db, settings.POWER_ROLE)
    preparation = Preparation(storage, COLLECTIONS, find_fault=find_fault)
    services = Services(app, settings, storage, preparation)
    for room in (auth_services, item_services, player_services, user_services):
        room.add_services(services)
    add_stores(services)
    for room in (batch_services, privacy_services):
        room.add_services(services)
    add_background(services)
    app.extensions[SERVICES] = services


def add_stores(services: Services) -> None:
    """Add the services of the rooms that have only one or two."""
    settings, storage = services.settings, services[Storage]
    tokens = RefreshTokens(
        storage, settings.REFRESH_TOKEN_SECONDS, settings.REFRESH_TOKENS_PER_ACCOUNT
    )
    ways_in = WAYS_IN if settings.STAFF_PASSWORDS else ("OpenId",)
    history, roles = History(storage), Roles(storage, services[Callers].forget, ways_in)
    services.add(
        roles,
        Staff(storage, roles, services[Users]),
        tokens,
        history,
        # At most a quarter of the threads may wait for the game.
        Actions(storage, max(1, settings.THREADS // 4)),
        TakenActions(storage),
        Events(storage, history),
        GameEvents(storage, settings.GAME_EVENT_DAYS, settings.HISTORY_DAYS),
        Activity(history, tokens),
        Approvals(storage),
        Vault(signing_keys(settings), storage.clock.time),
        Provider(settings),
        GroupRoles(settings, roles),
        Samples(storage),
        Reports(storage),
        Guilds(storage, settings.TOTAL_CACHE_SECONDS),
        Transfers(storage, services[Players], services[Catalogue]),
        Letters(storage, services[Players], services[Catalogue]),
    )


def add_background(services: Services) -> None:
    """Add the background work of each worker."""
    erasures, batches = services[Erasures], services[Batches]
    is_ready = services[Preparation].is_ready
    lifetime = services[Storage].lifetime
    chores = [
        services[Letters].give_due,
        batches.remove_stale,
        erasures.continue_all,
        services[GroupRoles].warn,
        lifetime.look,
    ]
    services.add(
        Chores(chores, is_ready),
        Feed(services[Storage], is_ready),
        Sampler(services[Samples], services[Players], services[History], is_ready),
    )


def add_routes(app: Flask) -> None:
    app.url_map.converters |= CONVERTERS
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    if app.config["CONSOLE"]:
        console.register(app)
    docs_page.register(app, BLUEPRINTS, guard.without_database)
    services: Services = app.extensions[SERVICES]
    lifetime, is_ready = services[Storage].lifetime, services[Preparation].check
    probes.register(app, guard.without_database, is_ready, lambda: lifetime.faults)

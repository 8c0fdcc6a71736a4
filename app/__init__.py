"""Quartermaster: the management API of a game server."""

from __future__ import annotations

from flask import Flask

import config
from app import compatibility
from app.api_keys import routes as api_keys
from app.auth import guard
from app.auth.callers import Callers
from app.auth.secret import signing_keys
from app.auth.tokens import AccessTokens
from app.batches import routes as batches
from app.batches.background import BatchWorker
from app.batches.choosing import Choosing
from app.batches.planning import Planner
from app.batches.running import Runner
from app.batches.store import Batches
from app.console import routes as console
from app.console.session.form_tokens import FormTokens
from app.database import COLLECTIONS, SUBJECTS
from app.game import routes as game
from app.game.actions import routes as actions
from app.game.actions.store import Actions
from app.game.events import routes as events
from app.game.events.store import Events
from app.game.server import routes as game_server
from app.game.server.store import TakenActions
from app.history import routes as history
from app.history.activity import routes as activity
from app.history.activity.store import Activity
from app.history.store import History
from app.http import address, errors, logs, path_converters, probes
from app.http.api import Api
from app.http.application import Application
from app.http.context import SERVICES
from app.http.cursors import Cursors
from app.http.json import OrjsonProvider
from app.http.uploads import DownloadPlaces, UploadPlaces
from app.integrity.operations import REPAIR
from app.items import routes as items
from app.items.domain import Limits
from app.items.store import Bags, Catalogue
from app.limits import Limiter
from app.moderation import routes as moderation
from app.notes import routes as notes
from app.oauth import routes as oauth
from app.oauth.store import RefreshTokens
from app.objects import routes as objects
from app.objects.store import KnownObjects, Objects
from app.openapi import docs_page
from app.openapi.guide import ABOUT
from app.players import routes as players
from app.players.deletion.store import Deletions
from app.players.store import Players
from app.privacy import routes as privacy
from app.privacy.personal_data import PersonalData
from app.privacy.store import Erasures
from app.samples.sampler import Sampler
from app.samples.store import Samples
from app.spells import routes as spells
from app.storage.client import Storage
from app.storage.errors import DatabaseError, explain
from app.storage.limits.attempts import Attempts
from app.storage.limits.budgets import Budgets
from app.storage.limits.quotas import Quotas
from app.storage.limits.reset_mails import ResetMails
from app.storage.mover import Mover
from app.storage.schema.preparation import Preparation
from app.storage.unfinished import Unfinished, UnfinishedWork
from app.transfer.operations import IMPORT
from app.users import routes as users
from app.users.domain import ResetCodes
from app.users.hashing import Hasher
from app.users.mail import Mailer
from app.users.passwords import Passwords
from app.users.store import PasswordCosts, Users
from app.variables import routes as variables
from app.variables.server import routes as server_variables
from config.base import Settings

# Operations of rooms that have no routes, and so would not be imported.
COMMANDS = (IMPORT, REPAIR)


def create_app(settings: Settings | None = None) -> Flask:
    """Return the application. Call it after the fork: pymongo's client is not fork-safe."""
    settings = settings or config.load()
    logs.configure(settings.LOG_LEVEL, settings.LOG_FORMAT, config.unknown_variables())
    app = Application(__name__, static_folder=None, template_folder="users/templates")
    app.config.from_object(settings)
    app.json = OrjsonProvider(app)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    storage = Storage(settings)
    app.request_scope = storage.request_scope
    add_services(app, settings, storage)
    address.register(app, settings.TRUSTED_PROXIES)
    errors.register(app, {DatabaseError: explain})
    add_routes(app)
    guard.check_every_view(app)
    if settings.COMPATIBILITY == compatibility.INTERSECT:
        compatibility.apply(app)
    return app


def add_services(app: Flask, settings: Settings, storage: Storage) -> None:
    """Make the stores and other services that a view reaches with ``current``."""
    keys = signing_keys(settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS, settings.DATA_DIR)
    passwords = Passwords(
        settings.ARGON2_TIME_COST, settings.ARGON2_MEMORY_KIB, settings.ARGON2_PARALLELISM
    )
    hashing = Limiter(
        "Too many passwords are being checked", settings.HASH_PLACES, settings.HASH_LINE, 5.0
    )
    preparation = Preparation(storage, COLLECTIONS)
    bags = Bags(storage)
    limits = Limits(settings.INVENTORY_SIZE, settings.BANK_SIZE, settings.STACK_LIMIT)
    known_objects = KnownObjects(
        storage, settings.CATALOGUE_CACHE_SECONDS, settings.STRICT_CATALOGUE
    )
    catalogue = Catalogue(known_objects, limits)
    refresh_tokens = RefreshTokens(
        storage, settings.REFRESH_TOKEN_SECONDS, settings.REFRESH_TOKENS_PER_ACCOUNT
    )
    history_store = History(storage, SUBJECTS)
    player_store = Players(storage, settings.ONLINE_TTL_SECONDS, settings.TOTAL_CACHE_SECONDS)
    user_store = Users(storage, settings.TOTAL_CACHE_SECONDS)
    budgets = Budgets(storage)
    # For so long, a worker may take a person who is erased for a caller, and finish a request.
    settling = settings.AUTH_CACHE_SECONDS + settings.MONGODB_OPERATION_SECONDS
    deletions = Deletions(storage, player_store)
    erasures = Erasures(storage, deletions, settling)
    # A quarter of the threads, at most, waits for the game.
    action_store = Actions(storage, max(1, settings.THREADS // 4))
    samples = Samples(storage)
    batch_store = Batches(storage)
    choosing = Choosing(batch_store, history_store)
    work = UnfinishedWork(
        (
            *deletions.unfinished(),
            Unfinished("erasure", erasures.unfinished, erasures.finish_left),
            Unfinished("plan of a batch", batch_store.stale, batch_store.remove),
            Unfinished("cancelled batch", batch_store.abandoned, choosing.find_made),
        )
    )
    # As of waiting for the game, a quarter of the threads at most.
    runner = Runner(
        batch_store,
        player_store,
        history_store,
        places=max(1, settings.THREADS // 4),
        requests_at_work=storage.requests_at_work,
    )
    callers = Callers(storage, settings.AUTH_CACHE_SECONDS)
    services = (
        storage,
        preparation,
        work,
        deletions,
        Mover(
            storage,
            list(SUBJECTS.values()),
            preparation.is_ready,
            [work.finish_all, erasures.forget_names],
        ),
        AccessTokens(keys, settings.ACCESS_TOKEN_SECONDS, storage.clock.time),
        Cursors(keys),
        FormTokens(keys),
        callers,
        refresh_tokens,
        passwords,
        Hasher(passwords, PasswordCosts(storage.db), hashing, settings.PASSWORD_CACHE_SECONDS),
        user_store,
        Attempts(storage, failure_limits(settings), settings.FAILURE_WINDOW_SECONDS),
        Quotas(storage, settings.REQUESTS_PER_MINUTE),
        budgets,
        Mailer(
            app,
            Limiter("Too many mails are being sent", settings.MAIL_PLACES, settings.MAIL_LINE, 5.0),
        ),
        ResetCodes(keys[0]),
        ResetMails(storage, settings.RESET_MAILS_PER_HOUR, settings.RESET_MAILS_PER_DAY),
        player_store,
        samples,
        Sampler(samples, player_store, history_store, preparation.is_ready),
        bags,
        known_objects,
        catalogue,
        Objects(storage, settings.TOTAL_CACHE_SECONDS),
        history_store,
        erasures,
        PersonalData(
            storage,
            user_store,
            history_store,
            refresh_tokens,
            budgets,
            bags,
            action_store,
            batch_store,
        ),
        action_store,
        TakenActions(storage),
        Events(storage, history_store),
        Activity(history_store, refresh_tokens),
        batch_store,
        choosing,
        Planner(batch_store, player_store, history_store),
        UploadPlaces(max(4, settings.THREADS // 2)),
        DownloadPlaces(max(4, settings.THREADS // 2)),
        runner,
        BatchWorker(batch_store, runner, callers, preparation.is_ready, app.app_context),
    )
    app.extensions[SERVICES] = {type(service): service for service in services}


def failure_limits(settings: Settings) -> dict[str, int]:
    return {
        "account": settings.ACCOUNT_FAILURES,
        "address": settings.ADDRESS_FAILURES,
        "caller": settings.CALLER_FAILURES,
    }


def add_routes(app: Flask) -> None:
    api = Api(app, spec_kwargs=ABOUT)
    path_converters.register(app, api)
    for blueprint in (
        players.blp,
        variables.blp,
        items.blp,
        spells.blp,
        moderation.of_players,
        actions.of_players,
        game_server.of_players,
        notes.of_players,
        history.of_players,
        users.blp,
        moderation.of_users,
        actions.of_users,
        notes.of_users,
        history.of_users,
        privacy.blp,
        history.blp,
        batches.blp,
        events.blp,
        actions.blp,
        game_server.blp,
        objects.blp,
        server_variables.blp,
        game.blp,
        activity.blp,
        oauth.blp,
        api_keys.blp,
    ):
        api.register_blueprint(blueprint)
    if app.config["CONSOLE"]:
        console.register(app)
    docs_page.register(app, api, guard.without_database)
    probes.register(app, guard.without_database, app.extensions[SERVICES][Preparation].check)

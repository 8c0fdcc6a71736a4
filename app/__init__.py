"""Quartermaster: the management API of a game server."""

from __future__ import annotations

from flask import Flask

import config
from app.auth import roles
from app.auth.callers import Callers
from app.auth.secret import signing_keys
from app.auth.tokens import AccessTokens
from app.http import address, docs, errors, logs, lookup, probes
from app.http.api import Api
from app.http.application import Application
from app.http.cursors import Cursors
from app.http.json import OrjsonProvider
from app.http.stores import PARTS
from app.items import routes as items
from app.items.store import Bags, Catalogue
from app.oauth import routes as oauth
from app.oauth.store import RefreshTokens
from app.players import routes as players
from app.players.store import Players
from app.spells import routes as spells
from app.storage.attempts import Attempts
from app.storage.client import Storage
from app.storage.faults import DatabaseError, explain
from app.storage.password_costs import PasswordCosts
from app.storage.preparation import Preparation
from app.storage.quotas import Quotas
from app.users import routes as users
from app.users.hashing import Hasher
from app.users.mail import Mailer
from app.users.passwords import Passwords
from app.users.places import Places
from app.users.store import Users
from app.variables import routes as variables
from config.base import Settings


def create_app(settings: Settings | None = None) -> Flask:
    """Return the application; call it in the process that will serve it."""
    settings = settings or config.load()
    logs.configure(settings.LOG_LEVEL, settings.LOG_FORMAT, config.unknown_variables())
    app = Application(__name__, static_folder=None, template_folder="users/templates")
    app.config.from_object(settings)
    app.json = OrjsonProvider(app)
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    storage = Storage(settings)
    app.within = storage.visit
    add_parts(app, settings, storage)
    address.register(app, settings.TRUSTED_PROXIES)
    errors.register(app, {DatabaseError: explain})
    add_routes(app)
    roles.check_every_view(app)
    return app


def add_parts(app: Flask, settings: Settings, storage: Storage) -> None:
    """Make the stores and what else a view reaches with ``current``."""
    keys = signing_keys(settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS, settings.DATA_DIR)
    passwords = Passwords(
        settings.ARGON2_TIME_COST, settings.ARGON2_MEMORY_KIB, settings.ARGON2_PARALLELISM
    )
    hashing = Places("passwords are being checked", settings.HASH_PLACES, settings.HASH_LINE)
    parts = (
        storage,
        Preparation(storage),
        AccessTokens(keys, settings.ACCESS_TOKEN_SECONDS, storage.clock.time),
        Cursors(keys),
        Callers(storage, settings.AUTH_CACHE_SECONDS),
        RefreshTokens(storage, settings.REFRESH_TOKEN_SECONDS, settings.REFRESH_TOKENS_PER_ACCOUNT),
        passwords,
        Hasher(passwords, PasswordCosts(storage.db), hashing, settings.PASSWORD_CACHE_SECONDS),
        Users(storage, settings.TOTAL_CACHE_SECONDS),
        Attempts(storage, failure_limits(settings), settings.FAILURE_WINDOW_SECONDS),
        Quotas(storage, settings.REQUESTS_PER_MINUTE),
        Mailer(app, Places("mails are being sent", settings.MAIL_PLACES, settings.MAIL_LINE)),
        Players(storage, settings.ONLINE_TTL_SECONDS, settings.TOTAL_CACHE_SECONDS),
        Bags(storage),
        Catalogue(storage, settings.INVENTORY_SIZE, settings.BANK_SIZE, settings.STACK_LIMIT),
    )
    app.extensions[PARTS] = {type(part): part for part in parts}


def failure_limits(settings: Settings) -> dict[str, int]:
    return {
        "account": settings.ACCOUNT_FAILURES,
        "address": settings.ADDRESS_FAILURES,
        "caller": settings.CALLER_FAILURES,
    }


def add_routes(app: Flask) -> None:
    api = Api(app)
    lookup.register(app, api)
    for blueprint in (players.blp, variables.blp, items.blp, spells.blp, users.blp, oauth.blp):
        api.register_blueprint(blueprint)
    docs.register(app, api, roles.public)
    probes.register(app, roles.public, app.extensions[PARTS][Preparation].check)

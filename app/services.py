"""The services of an application, such as stores. Views look them up by type."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from flask import Flask

from app.approvals.store import Approvals
from app.auth.callers import Callers
from app.auth.tokens import AccessTokens, signing_keys
from app.batches.planning import PlanPlaces
from app.batches.running import BatchWorker
from app.batches.store import Batches
from app.catalogue.store import KnownObjects, Objects
from app.core.limits import Limiter
from app.database import COLLECTIONS
from app.game.actions.store import Actions
from app.game.player_events.store import GameEvents
from app.game.samples import Samples
from app.history.store import History
from app.http.context import SERVICES, Service
from app.http.cursors import Cursors
from app.http.uploads import DownloadPlaces, UploadPlaces
from app.players.guilds import Guilds
from app.players.items.domain import Limits as ItemLimits
from app.players.items.store import Bags, Catalogue
from app.players.store import Players
from app.privacy.store import Erasures
from app.storage.background import Chores
from app.storage.client import Storage
from app.storage.events import Feed
from app.storage.limits import DAY, HOUR, MINUTE, Budgets, Limit, Limits, Marks
from app.storage.schema.preparation import Preparation
from app.users.domain import ResetCodes
from app.users.hashing import Hasher
from app.users.mail import Mailer
from app.users.oauth.store import RefreshTokens
from app.users.openid.provider import Provider
from app.users.passwords import Passwords
from app.users.second_factor.vault import Vault
from app.users.staff.store import WAYS_IN, Roles, Staff, missing_power_role
from app.users.store import Users
from config.base import Settings

# How long a request waits for a slot to hash or to send.
PATIENCE_SECONDS = 5.0


def add_services(app: Flask, settings: Settings, storage: Storage) -> None:
    """Create the services that views reach with ``current``, those of lower rooms first."""
    services: dict[type, Any] = {}
    app.extensions[SERVICES] = services

    def add(service: Service) -> Service:
        services[type(service)] = service
        return service

    add(storage)
    fault = partial(missing_power_role, storage.db, settings.POWER_ROLE)
    is_ready = add(Preparation(storage, COLLECTIONS, find_fault=fault)).is_ready
    half, quarter = max(4, settings.THREADS // 2), max(1, settings.THREADS // 4)

    keys = signing_keys(settings)
    window = timedelta(seconds=settings.FAILURE_WINDOW_SECONDS)
    limits = {
        "account": Limit(settings.ACCOUNT_FAILURES, window),
        "address": Limit(settings.ADDRESS_FAILURES, window, "address"),
        "caller": Limit(settings.CALLER_FAILURES, window, "caller"),
        "requests": Limit(settings.REQUESTS_PER_MINUTE, MINUTE, "caller", "requests"),
        "mails_an_hour": Limit(settings.RESET_MAILS_PER_HOUR, HOUR, what="reset mails"),
        "mails_a_day": Limit(settings.RESET_MAILS_PER_DAY, DAY, what="reset mails"),
    }
    add(AccessTokens(keys, settings.ACCESS_TOKEN_SECONDS, storage.clock.time))
    add(Cursors(keys))
    shapes = {plan.name: plan.shape for plan in COLLECTIONS}
    add(Callers(storage, shapes, settings.AUTH_CACHE_SECONDS, power_role=settings.POWER_ROLE))
    add(Limits(storage, limits))
    for store in (Budgets, Marks, Bags, Approvals):
        add(store(storage))
    own = "You are sending other batches", max(1, half // 4)
    add(UploadPlaces("Others are sending batches", half, own=own))
    own = "You are downloading other files", max(1, half // 2)
    add(DownloadPlaces("Others are downloading files", half, own=own))

    # Public clients take a response with a Warning for a plain success.
    is_strict = settings.STRICT_CATALOGUE or bool(settings.COMPATIBILITY)
    known = add(KnownObjects(storage, settings.CATALOGUE_CACHE_SECONDS, is_strict))
    sizes = ItemLimits(settings.INVENTORY_SIZE, settings.BANK_SIZE, settings.STACK_LIMIT)
    catalogue = add(Catalogue(known, sizes))
    total_seconds = settings.TOTAL_CACHE_SECONDS
    add(Objects(storage, total_seconds))
    players = add(Players(storage, settings.ONLINE_TTL_SECONDS, total_seconds))
    add(Guilds(storage, total_seconds))

    passwords = add(
        Passwords(
            settings.ARGON2_TIME_COST, settings.ARGON2_MEMORY_KIB, settings.ARGON2_PARALLELISM
        )
    )
    # A request waits some seconds for a slot to hash or to send: a retry would cost more.
    busy = "Too many passwords are being checked"
    hashing = Limiter(busy, settings.HASH_PLACES, settings.HASH_LINE, PATIENCE_SECONDS)
    add(Hasher(passwords, hashing, settings.PASSWORD_CACHE_SECONDS))
    busy = "Too many mails are being sent"
    add(Mailer(app, Limiter(busy, settings.MAIL_PLACES, settings.MAIL_LINE, PATIENCE_SECONDS)))
    add(Users(storage, total_seconds))
    add(ResetCodes(keys[0]))
    add(Vault(keys, storage.clock.time))
    ways_in = WAYS_IN if settings.STAFF_PASSWORDS else ("OpenId",)
    roles = add(Roles(storage, ways_in))
    add(Staff(storage, roles))
    add(RefreshTokens(storage, settings.REFRESH_TOKEN_SECONDS, settings.REFRESH_TOKENS_PER_ACCOUNT))
    add(Provider(settings))

    history = add(History(storage))
    samples = add(Samples(storage, players, history))
    # At most a quarter of the threads may wait for the game, for batches, and for erasures.
    actions = add(Actions(storage, players, catalogue, quarter))
    add(GameEvents(storage, settings.GAME_EVENT_DAYS, settings.HISTORY_DAYS))
    batches = add(Batches(storage))
    add(PlanPlaces("Another batch is being planned", 1))
    add(BatchWorker(app.app_context, is_ready, quarter))
    erasures = add(Erasures(storage, quarter))

    chores = [
        actions.give_due,
        batches.remove_stale,
        erasures.continue_all,
        storage.lifetime.look,
        samples.take_if_due,
    ]
    add(Chores(chores, is_ready))
    add(Feed(storage, is_ready))

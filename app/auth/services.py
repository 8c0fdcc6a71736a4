"""The services that identify callers and limit their requests."""

from __future__ import annotations

from app.auth.callers import Callers
from app.auth.secret import signing_keys
from app.auth.tokens import AccessTokens
from app.http.cursors import Cursors
from app.http.uploads import DownloadPlaces, UploadPlaces
from app.services import Services
from app.storage.client import Storage
from app.storage.limits.attempts import Attempts
from app.storage.limits.quotas import Budgets, Marks, Quotas


def add_services(services: Services) -> None:
    settings, storage = services.settings, services[Storage]
    keys = signing_keys(settings)
    limits = {
        "account": settings.ACCOUNT_FAILURES,
        "address": settings.ADDRESS_FAILURES,
        "caller": settings.CALLER_FAILURES,
    }
    half = max(4, settings.THREADS // 2)
    services.add(
        AccessTokens(keys, settings.ACCESS_TOKEN_SECONDS, storage.clock.time),
        Cursors(keys),
        Callers(storage, settings.AUTH_CACHE_SECONDS, power_role=settings.POWER_ROLE),
        Attempts(storage, limits, settings.FAILURE_WINDOW_SECONDS),
        Quotas(storage, settings.REQUESTS_PER_MINUTE),
        Budgets(storage),
        Marks(storage),
        UploadPlaces(half),
        DownloadPlaces(half),
    )

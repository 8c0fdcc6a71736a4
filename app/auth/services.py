"""The services that identify callers and limit their requests."""

from __future__ import annotations

from datetime import timedelta

from app.auth.callers import Callers
from app.auth.secret import signing_keys
from app.auth.tokens import AccessTokens
from app.http.cursors import Cursors
from app.http.uploads import DownloadPlaces, UploadPlaces
from app.services import Services
from app.storage.client import Storage
from app.storage.limits import DAY, HOUR, MINUTE, Budgets, Limit, Limits, Marks


def add_services(services: Services) -> None:
    settings, storage = services.settings, services[Storage]
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
    half = max(4, settings.THREADS // 2)
    services.add(
        AccessTokens(keys, settings.ACCESS_TOKEN_SECONDS, storage.clock.time),
        Cursors(keys),
        Callers(storage, settings.AUTH_CACHE_SECONDS, power_role=settings.POWER_ROLE),
        Limits(storage, limits),
        Budgets(storage),
        Marks(storage),
        UploadPlaces(half),
        DownloadPlaces(half),
    )

"""The services of accounts: passwords and mail."""

from __future__ import annotations

from app.auth.secret import signing_keys
from app.limits import Limiter
from app.services import Services
from app.storage.client import Storage
from app.users.domain import ResetCodes
from app.users.hashing import Hasher
from app.users.mail import Mailer
from app.users.passwords import Passwords
from app.users.store import Users

# How long a request waits for a slot to hash or to send: a retry would cost more than waiting.
PATIENCE_SECONDS = 5.0


def add_services(services: Services) -> None:
    settings, storage = services.settings, services[Storage]
    hashing, mailing = (
        Limiter(f"Too many {work}", places, queue, PATIENCE_SECONDS)
        for work, places, queue in (
            ("passwords are being checked", settings.HASH_PLACES, settings.HASH_LINE),
            ("mails are being sent", settings.MAIL_PLACES, settings.MAIL_LINE),
        )
    )
    passwords = Passwords(
        settings.ARGON2_TIME_COST, settings.ARGON2_MEMORY_KIB, settings.ARGON2_PARALLELISM
    )
    services.add(
        passwords,
        Hasher(passwords, hashing, settings.PASSWORD_CACHE_SECONDS),
        Users(storage, settings.TOTAL_CACHE_SECONDS),
        Mailer(services.app, mailing),
        ResetCodes(signing_keys(settings)[0]),
    )

"""The services of players."""

from __future__ import annotations

from app.players.deletion.store import Deletions
from app.players.store import Players
from app.services import Services
from app.storage.client import Storage


def add_services(services: Services) -> None:
    settings, storage = services.settings, services[Storage]
    players = Players(storage, settings.ONLINE_TTL_SECONDS, settings.TOTAL_CACHE_SECONDS)
    services.add(players, Deletions(storage, players))

"""The services of personal data."""

from __future__ import annotations

from app.approvals.store import Approvals
from app.batches.store import Batches
from app.game.actions.store import Actions
from app.game_events.store import GameEvents
from app.history.store import History
from app.items.store import Bags
from app.oauth.store import RefreshTokens
from app.privacy.personal_data import PersonalData
from app.privacy.store import Erasures
from app.services import Services
from app.storage.client import Storage
from app.storage.limits import Budgets
from app.users.store import Users

SOURCES = (Users, History, RefreshTokens, Budgets, Bags, Actions, Batches, Approvals, GameEvents)


def add_services(services: Services) -> None:
    settings, storage = services.settings, services[Storage]
    services.add(
        # At most a quarter of the threads may wait for an erasure.
        Erasures(storage, max(1, settings.THREADS // 4)),
        PersonalData(storage, *(services[kind] for kind in SOURCES)),
    )

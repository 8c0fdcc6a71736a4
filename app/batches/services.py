"""The services of batches."""

from __future__ import annotations

from app.auth.callers import Callers
from app.batches.background import BatchWorker
from app.batches.choosing import Choosing
from app.batches.planning import Planner
from app.batches.running import Runner
from app.batches.store import Batches
from app.history.store import History
from app.objects.store import Objects
from app.players.store import Players
from app.services import Services
from app.storage.client import Storage
from app.storage.schema.preparation import Preparation


def add_services(services: Services) -> None:
    settings, storage = services.settings, services[Storage]
    players, history = services[Players], services[History]
    batches = Batches(storage)
    # At most a quarter of the threads wait for batches.
    places = max(1, settings.THREADS // 4)
    runner = Runner(batches, players, storage.transactions, places, storage.requests_at_work)
    services.add(
        batches,
        Choosing(batches, history, players),
        Planner(batches, players, services[Objects], history),
        runner,
        BatchWorker(
            batches,
            runner,
            services[Callers],
            services[Preparation].is_ready,
            services.app.app_context,
        ),
    )

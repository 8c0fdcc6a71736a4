"""The services of objects and items."""

from __future__ import annotations

from app.items.domain import Limits
from app.items.store import Bags, Catalogue
from app.objects.store import KnownObjects, Objects
from app.services import Services
from app.storage.client import Storage


def add_services(services: Services) -> None:
    settings, storage = services.settings, services[Storage]
    limits = Limits(settings.INVENTORY_SIZE, settings.BANK_SIZE, settings.STACK_LIMIT)
    # Public clients take a response with a Warning for a plain success.
    is_strict = settings.STRICT_CATALOGUE or bool(settings.COMPATIBILITY)
    known = KnownObjects(storage, settings.CATALOGUE_CACHE_SECONDS, is_strict)
    services.add(Bags(storage), known, Catalogue(known, limits))
    services.add(Objects(storage, settings.TOTAL_CACHE_SECONDS, settings.CATALOGUE_CACHE_SECONDS))

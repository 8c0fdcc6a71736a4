"""The services of an application, such as stores. Views look them up by type."""

from __future__ import annotations

from typing import Any


class Services(dict[type, Any]):
    """All services by type. Each room adds its own, which may use those of lower rooms."""

    def __init__(self, app: Any, settings: Any, *services: object) -> None:
        super().__init__()
        self.app, self.settings = app, settings
        self.add(*services)

    def add(self, *services: object) -> None:
        self.update({type(service): service for service in services})

"""Granian, a faster server that is an extra: docs/deploy.rst says what it does not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.errors import QuartermasterError
from app.server import metrics_folder, open_files
from config.base import Settings


def run(settings: Settings) -> None:
    """Serve until a signal ends it, with the settings that gunicorn has."""
    try:
        from granian import Granian
        from granian.constants import HTTPModes, Interfaces
        from granian.log import LogLevels
    except ImportError:
        raise QuartermasterError(
            "Granian is not installed: pip install 'quartermaster[granian]'."
        ) from None
    # Imported here, because it reads the environment when it is imported.
    from config import gunicorn as common

    open_files.raise_limit()
    folder = metrics_folder.make()
    try:
        Granian(
            "wsgi:app",
            interface=Interfaces.WSGI,
            address=settings.HOST,
            port=settings.PORT,
            uds=Path(settings.SOCKET) if settings.SOCKET else None,
            # Only our own group, which the proxy belongs to, may use the Unix socket.
            uds_permissions=0o660 if settings.SOCKET else None,
            http=HTTPModes.http1,
            websockets=False,
            workers=settings.WORKERS,
            blocking_threads=common.threads,
            backpressure=settings.CONNECTIONS,
            respawn_failed_workers=True,
            workers_kill_timeout=settings.GRACEFUL_TIMEOUT_SECONDS,
            # It warns of many threads, which wait for MongoDB most of the time.
            log_level=LogLevels.info if settings.ENV == "production" else LogLevels.error,
            log_dictconfig=_log_config(common.logconfig_dict),
        ).serve()
    finally:
        metrics_folder.remove(folder)


def _log_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of gunicorn's log for Granian's logger."""
    return {**config, "loggers": {"_granian": config["loggers"]["gunicorn.error"]}}

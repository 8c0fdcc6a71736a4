"""Granian, a faster optional server; docs/deploy.rst lists its limitations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.core.errors import QuartermasterError
from app.server import resources
from app.storage.embedded import raise_open_files
from config.base import Settings


def run(settings: Settings) -> None:
    """Serve until a signal arrives, with the same settings as gunicorn."""
    try:
        from granian import Granian
    except ImportError:
        raise QuartermasterError(
            "Granian is not installed: pip install 'quartermaster[granian]'."
        ) from None
    # Imported here, because it reads the environment when it is imported.
    from config import gunicorn

    loggers = {"_granian": gunicorn.logconfig_dict["loggers"]["gunicorn.error"]}
    options: dict[str, Any] = {
        "interface": "wsgi",
        "address": settings.HOST,
        "port": settings.PORT,
        "uds": Path(settings.SOCKET) if settings.SOCKET else None,
        # Only our own group, which the proxy belongs to, may use the Unix socket.
        "uds_permissions": 0o660 if settings.SOCKET else None,
        "http": "1",
        "websockets": False,
        "workers": settings.WORKERS,
        "blocking_threads": gunicorn.threads,
        "backpressure": settings.CONNECTIONS,
        "respawn_failed_workers": True,
        "workers_kill_timeout": settings.GRACEFUL_TIMEOUT_SECONDS,
        # At info it warns about many threads; but they mostly wait for MongoDB.
        "log_level": "info" if settings.ENV == "production" else "error",
        "log_dictconfig": {**gunicorn.logconfig_dict, "loggers": loggers},
    }
    raise_open_files()
    folder = resources.make_metrics_folder()
    try:
        Granian("wsgi:app", **options).serve()
    finally:
        resources.remove_metrics_folder(folder)

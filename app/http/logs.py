"""The format of log lines: text in development, one JSON object per line in production."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from app.core.naming import printable
from app.http.json import encode
from app.http.masking import masked
from app.http.tracing import request_id

HANDLER = "quartermaster"


def configure(level: str, log_format: str, warnings: Iterable[str] = ()) -> logging.Handler:
    """Log to standard error in the given format, the warnings first. May be called again."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler.name == HANDLER]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.name = HANDLER
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root.addHandler(handler)
    root.setLevel(level)
    # pymongo warns of unknown options of a URI, for example.
    logging.captureWarnings(True)
    # At DEBUG, pymongo logs every command, including stored hashes and codes, and Authlib the
    # secret that binds a sign-in to its browser.
    for name in ("pymongo", "authlib"):
        logging.getLogger(name).setLevel(max(root.level, logging.INFO))
    for warning in warnings:
        logging.getLogger("quartermaster").warning(warning)
    return handler


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        details = getattr(record, "details", {})
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc),
            "level": record.levelname,
            "logger": record.name,
            # Details of a request have their own.
            "request_id": request_id(),
            "message": masked(record.getMessage()),
            **details,
        }
        if record.exc_info:
            line["exception"] = masked(self.formatException(record.exc_info))
        return encode(line).decode()


class TextFormatter(logging.Formatter):
    """A readable line; control characters from clients are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        details = {"request_id": request_id(), **getattr(record, "details", {})}
        given = details.pop("request_id")
        text = masked(record.getMessage()) + "".join(f" {k}={v}" for k, v in details.items())
        line = f"{clock} {record.levelname:<7} {printable(text)} [{given}]"
        if record.exc_info:
            line += "\n" + masked(self.formatException(record.exc_info))
        return line

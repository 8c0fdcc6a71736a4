"""Lets pages of other origins use the API, if a setting lists these origins."""

from __future__ import annotations

from flask import Flask
from flask_cors import CORS

ALLOWED = ["Authorization", "Content-Type", "Idempotency-Key", "X-Reason"]
EXPOSED = [
    "Deprecation",
    "Idempotency-Replayed",
    "Link",
    "Retry-After",
    "Warning",
    "X-History-Id",
    "X-Request-ID",
    "X-Version",
]
# How long a browser remembers the answer to a preflight, in seconds.
REMEMBERED = 600


def register(app: Flask, origins: list[str]) -> None:
    """Add the headers of CORS to the API, before its routes are added.

    Credentials of the browser are never allowed: the API uses tokens and keys, and no cookies.
    """
    if not origins:
        return
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = True
    CORS(
        app,
        resources=r"/api/*",
        origins=origins,
        methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=ALLOWED,
        expose_headers=EXPOSED,
        max_age=REMEMBERED,
    )

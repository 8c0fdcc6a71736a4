"""What an operator's machines ask: does the process live, and can it serve?"""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask, Response

from app.http.json import json_response


def register(app: Flask, open_to_all: Callable[..., object], is_ready: Callable[[], None]) -> None:
    """Add the probes; is_ready raises where the service is not."""

    @app.get("/healthz")
    def healthz() -> Response:
        return json_response({"status": "ok"})

    @app.get("/readyz")
    def readyz() -> Response:
        is_ready()
        return json_response({"status": "ready"})

    open_to_all(healthz)
    open_to_all(readyz)

"""The endpoints for monitoring: liveness, readiness and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, Response

from app.core import metrics
from app.core.types import Document
from app.http.json import json_response


def register(
    app: Flask,
    open_to_all: Callable[[Any], Any],
    is_ready: Callable[[], None],
    find_faults: Callable[[], list[str]],
) -> None:
    """Add the probes; is_ready raises if the service is not ready.

    The faults with which it is ready nevertheless are details of the answer.
    """

    @app.get("/healthz")
    @open_to_all
    def healthz() -> Response:
        return json_response({"status": "ok"})

    @app.get("/readyz")
    @open_to_all
    def readyz() -> Response:
        is_ready()
        answer: Document = {"status": "ready"}
        if faults := find_faults():
            answer["details"] = faults
        return json_response(answer)

    @app.get("/metrics")
    @open_to_all
    def exposition() -> Response:
        return Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)

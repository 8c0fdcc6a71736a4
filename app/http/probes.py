"""The endpoints for monitoring: liveness, readiness and metrics."""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask, Response

from app.core import metrics
from app.core.types import Document
from app.http.json import json_response


def register(
    app: Flask,
    open_to_all: Callable[..., object],
    is_ready: Callable[[], None],
    find_faults: Callable[[], list[str]],
) -> None:
    """Add the probes; is_ready raises if the service is not ready.

    The faults with which it is ready nevertheless are details of the answer.
    """

    @app.get("/healthz")
    def healthz() -> Response:
        return json_response({"status": "ok"})

    @app.get("/readyz")
    def readyz() -> Response:
        is_ready()
        answer: Document = {"status": "ready"}
        if faults := find_faults():
            answer["details"] = faults
        return json_response(answer)

    @app.get("/metrics")
    def exposition() -> Response:
        return Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)

    for view in (healthz, readyz, exposition):
        open_to_all(view)

"""The documentation page: Swagger UI, self-hosted instead of loaded from a CDN."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

from flask import Flask, Response, current_app, redirect, request, send_from_directory
from swagger_ui_bundle import swagger_ui_path
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as BaseResponse

from app.http.api import Blueprint
from app.http.errors import SENTENCES
from app.http.json import json_response
from app.http.openapi.document import specification

# The key in app.extensions of the function that returns the OpenAPI document.
SPECIFICATION = "openapi"
OPENAPI = "/api/openapi.json"
DOCS = "/api/docs"
CONSOLE = "/console"
FILES = "/api/docs/files/"
HERE = Path(__file__).parent
DAY_SECONDS = 86400
JSON, HTML = "application/json", "text/html"
# Same origin only. Swagger UI needs inline styles, and data: URLs for its icons.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def register(app: Flask, blueprints: Iterable[Blueprint], public: Callable[..., object]) -> None:
    """Add the public routes of the OpenAPI document and Swagger UI, and redirect browsers there."""
    # Generated at the first request.
    document = app.extensions[SPECIFICATION] = cache(partial(specification, app.config, blueprints))

    def openapi_json() -> Response:
        return json_response(document())

    for path, view in (
        ("/", root),
        ("/api", root),
        (OPENAPI, openapi_json),
        (DOCS, docs_page),
        (f"{FILES}<path:name>", docs_file),
    ):
        public(view)
        app.add_url_rule(path, view_func=view)


def docs_page() -> Response:
    policy = {"Content-Security-Policy": CONTENT_SECURITY_POLICY}
    headers = {**policy, "X-Content-Type-Options": "nosniff"}
    return Response((HERE / "docs_page.html").read_bytes(), headers=headers, mimetype=HTML)


def docs_file(name: str) -> Response:
    try:
        # Revalidated each time: a cached file of an older release would not match the page.
        return send_from_directory(HERE / "swagger", name, max_age=0)
    except NotFound:
        return send_from_directory(swagger_ui_path, name, max_age=DAY_SECONDS)


def root() -> BaseResponse:
    if request.accept_mimetypes.best_match((JSON, HTML)) == HTML:
        has_console = request.path == "/" and current_app.config["CONSOLE"]
        response = redirect(CONSOLE if has_console else DOCS)
    else:
        response = json_response({"Message": SENTENCES[404]}, 404)
    response.headers["Vary"] = "Accept"
    return response

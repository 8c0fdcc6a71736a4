"""The documentation, with its files served from here rather than by a stranger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flask import (
    Flask,
    Response,
    redirect,
    render_template_string,
    request,
    send_from_directory,
)
from swagger_ui_bundle import swagger_ui_path
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as BaseResponse

from app.http.api import Api
from app.http.errors import SENTENCES
from app.http.json import json_response
from app.openapi.spec import specification

# The key of the OpenAPI document in app.extensions.
DOCUMENT = "openapi"
OPENAPI = "/api/openapi.json"
DOCS = "/api/docs"
FILES = "/api/docs/files/"
OURS = Path(__file__).with_name("swagger")
DAY = 86400
JSON, HTML = "application/json", "text/html"
# Nothing on the page comes from elsewhere, or goes there. Swagger UI draws its icons inline.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def register(app: Flask, api: Api, open_to_all: Callable[..., object]) -> None:
    """Serve the specification and Swagger UI, open to all, and lead browsers there."""
    document = app.extensions[DOCUMENT] = specification(app, api)
    template = Path(__file__).with_name("docs_page.html").read_text()

    def openapi_json() -> Response:
        return json_response(document)

    def docs_page() -> Response:
        title = app.config["API_TITLE"]
        page = render_template_string(template, title=title, files=FILES, specification=OPENAPI)
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return Response(page, headers=headers, mimetype="text/html")

    def docs_file(name: str) -> Response:
        try:
            # Asked for again each time: these must fit the page, and so each other.
            return send_from_directory(OURS, name, max_age=0)
        except NotFound:
            return send_from_directory(swagger_ui_path, name, max_age=DAY)

    def front_door() -> BaseResponse:
        if request.accept_mimetypes.best_match((JSON, HTML)) == HTML:
            answer = redirect(DOCS)
        else:
            answer = json_response({"Message": SENTENCES[404]}, 404)
        answer.headers["Vary"] = "Accept"
        return answer

    for path, view in (
        ("/", front_door),
        ("/api", front_door),
        (OPENAPI, openapi_json),
        (DOCS, docs_page),
        (f"{FILES}<path:name>", docs_file),
    ):
        open_to_all(view)
        app.add_url_rule(path, view_func=view)

"""The documentation, with its files served from here rather than by a stranger."""

from __future__ import annotations

import functools
from collections.abc import Callable

from flask import Flask, Response, send_from_directory
from swagger_ui_bundle import swagger_ui_path

from app.http.api import Api
from app.http.json import json_response


def register(app: Flask, api: Api, open_to_all: Callable[..., object]) -> None:
    """Serve the specification and Swagger UI, open to all."""

    @app.get(f"{app.config['OPENAPI_SWAGGER_UI_URL']}<path:name>")
    def documentation_file(name: str) -> Response:
        return send_from_directory(swagger_ui_path, name, max_age=86400)

    def specification() -> Response:
        return json_response(api.spec.to_dict())

    # flask-smorest's own views take no mark, being methods, and know no charset.
    page = functools.partial(app.view_functions["api-docs.openapi_swagger_ui"])
    app.view_functions["api-docs.openapi_swagger_ui"] = page
    app.view_functions["api-docs.openapi_json"] = specification
    for view in (documentation_file, specification, page):
        open_to_all(view)

"""QM_COMPATIBILITY=intersect: the API as public clients of the Intersect Engine expect it.

These clients rely on more than the contract promises. The modules of this room change paths,
responses and errors, and app/http/parser.py reads bodies and queries more leniently; the table in
docs/compatibility.rst lists all of it. Without the setting, none of this runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from flask import Flask, Response

from app.catalogue.domain import NotInCatalogue
from app.compatibility.responses import COMPLETIONS, complete_with
from app.compatibility.views import REPLACEMENTS
from app.core.errors import Invalid
from app.core.naming import with_hyphens
from app.http.errors import answer
from app.users.domain import WrongPassword

INTERSECT = "intersect"
# The name of an action, such as Kick, at the end of a path.
ACTION = re.compile(r"(?<=/admin/)[A-Za-z]+(?=/?$)")


def apply(app: Flask) -> None:
    """Make an application, which has all its routes, compatible with these clients."""
    for endpoint in app.view_functions:
        name = endpoint.removesuffix("_alias")
        if replace := REPLACEMENTS.get(name):
            app.view_functions[endpoint] = replace(app.view_functions[endpoint])
        if complete := COMPLETIONS.get(name):
            view = app.view_functions[endpoint]
            app.view_functions[endpoint] = complete_with(view, complete)
    app.register_error_handler(WrongPassword, lambda _: answer(Invalid("Invalid credentials.")))
    app.register_error_handler(NotInCatalogue, answer_unknown_object)
    application = app.wsgi_app

    def with_client_paths(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Add hyphens to the guids in a path of the API, and write its action in lower case."""
        path = environ.get("PATH_INFO", "")
        if path.startswith("/api/"):
            path = ACTION.sub(lambda name: name[0].lower(), path)
            environ["PATH_INFO"] = "/".join(map(with_hyphens, path.split("/")))
        return application(environ, start_response)

    app.wsgi_app = with_client_paths  # type: ignore[method-assign]


def answer_unknown_object(error: NotInCatalogue) -> Response:
    return answer(Invalid(f"Invalid {error.type} id."))

"""QM_COMPATIBILITY=intersect: the API as public clients of the Intersect Engine expect it.

These clients rely on more than the contract promises. The modules of this room change paths,
responses and errors, and app/http/parser.py reads bodies and queries more leniently; the table in
docs/compatibility.rst lists all of it. Without the setting, none of this runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response

from app.compatibility.responses import COMPLETIONS, complete_with
from app.compatibility.views import REPLACEMENTS
from app.errors import Invalid
from app.http.errors import answer
from app.naming import with_hyphens
from app.objects.domain import NotInCatalogue
from app.users.domain import WrongPassword

INTERSECT = "intersect"
# The name of an action, such as Kick, at the end of a path.
ACTION = re.compile(r"(?<=/admin/)[A-Za-z]+(?=/?$)")

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


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
    app.wsgi_app = with_client_paths(app.wsgi_app)  # type: ignore[assignment,method-assign]


def answer_unknown_object(error: NotInCatalogue) -> Response:
    return answer(Invalid(f"Invalid {error.type} id."))


def with_client_paths(application: Wsgi) -> Wsgi:
    """Return a WSGI application that accepts the paths of these clients."""

    def respelled(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ["PATH_INFO"] = client_path(environ.get("PATH_INFO", ""))
        return application(environ, start_response)

    return respelled


def client_path(path: str) -> str:
    """Return a path of the API with hyphens in its guids, and with its action in lower case."""
    if not path.startswith("/api/"):
        return path
    path = ACTION.sub(lambda name: name[0].lower(), path)
    return "/".join(map(with_hyphens, path.split("/")))

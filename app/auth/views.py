"""Declares views that only read: path, access, arguments, response and errors in one decorator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flask import Response

from app.auth import guard
from app.core.errors import QuartermasterError
from app.core.permissions import Need
from app.http.api import Blueprint
from app.http.json import json_response

DEPRECATED_SINCE = "@1767225600"  # 2026-01-01 in the format of RFC 9745.
View = Callable[..., Any]


def read_route(
    blueprint: Blueprint,
    path: str,
    schema: Any,
    *needs: Need,
    args: Any = None,
    method: str = "GET",
    refuses: tuple[QuartermasterError, ...] = (),
    successor: str | None = None,
    **options: Any,
) -> Callable[[View], View]:
    """Declare a view without an operation. It returns the body or a complete response.

    Arguments come from the query string, or from the body if the method is not GET. A view with a
    successor is deprecated. Options describe the response.
    """
    link = {"Link": f'<{successor}>; rel="successor-version"'}
    headers = {"Deprecation": DEPRECATED_SINCE, **link} if successor else None
    location = "query" if method == "GET" else "json"

    def decorator(view: View) -> View:
        @functools.wraps(view)
        def respond(*given: Any, **path: Any) -> Response:
            body = view(*given, **path)
            return body if isinstance(body, Response) else json_response(body, headers=headers)

        found = blueprint.refuses(*refuses)(respond)
        found = blueprint.doc(deprecated=True)(found) if successor else found
        found = blueprint.response(200, schema, **options)(found)
        found = blueprint.arguments(args, location=location)(found) if args else found
        declared: View = blueprint.route(path, methods=[method])(guard.required(*needs)(found))
        return declared

    return decorator

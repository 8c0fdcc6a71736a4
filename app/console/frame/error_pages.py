"""Error pages of the console."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from flask import Response, request
from werkzeug.exceptions import HTTPException

from app.console.forms.submissions import typed
from app.console.frame.pages import blp, here, page, path_to, see_other
from app.console.session import sessions as session
from app.core.errors import PermissionMissing, QuartermasterError, RoleMissing, Unauthorized
from app.http import errors
from app.http.errors import headers_of, http_sentence, note, status_of
from app.http.tracing import request_id
from app.storage.errors import DatabaseError, explain
from app.users.staff.store import roles


def error_page(error: QuartermasterError) -> Response:
    """Return the page of an error; without a session, the sign-in page."""
    is_unknown, ask = isinstance(error, Unauthorized), []
    if request.method in session.SAFE_METHODS:
        if is_unknown:
            return see_other(path_to("sign-in", back=here()))
        if isinstance(error, session.FactorMissing):
            return see_other(path_to("second-factor"))
    note(error)
    if isinstance(error, PermissionMissing | RoleMissing) and session.current_session():
        # Some who manage staff.
        ask = [str(user.get("Name")) for user in islice(roles.administrators(), 5)]
    text = "You are no longer signed in. Nothing was changed." if is_unknown else str(error)
    # Every page would refuse somebody without a role.
    has_ended = is_unknown or isinstance(error, session.AccessEnded)
    page = problem_page(status_of(error), text, has_ended, ask)
    page.headers.update(headers_of(error))
    return page


def http_error_page(error: HTTPException) -> Response:
    return problem_page(error.code or 500, http_sentence(error))


def problem_page(
    status: int, text: str, sign_in: bool = False, ask: Sequence[str] = ()
) -> Response:
    """Return a page about an error, with the typed values, so that they are not lost.

    It shows only what was read, and nothing is read before authentication.
    """
    return page(
        "frame/problem.html",
        status,
        code=status,
        text=text,
        ask=ask,
        kept=typed(),
        is_form=request.method not in session.SAFE_METHODS,
        sign_in_path=path_to("sign-in", back=here()),
        sign_in=sign_in or not session.cookie(session.COOKIE),
        request_id=request_id(),
    )


errors.register(blp, DatabaseError, explain, error_page, http_error_page)

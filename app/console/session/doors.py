"""Pages with one form: to sign in, to type a code, to prove who one is, to choose a password."""

from __future__ import annotations

from typing import Any

from flask import Response

from app.console.forms.declared import Field
from app.console.forms.submissions import Submission, note_refusal
from app.console.frame.pages import page
from app.console.session import sessions as session
from app.errors import QuartermasterError
from app.http.errors import status_of
from app.oauth.domain import TokenRefused

ONE_TIME = {"autocomplete": "one-time-code", "spellcheck": "false", "maxlength": 40}
CODE = Field(
    "code", "Code", "The six digits that your app shows, or a recovery code.", html=ONE_TIME
)


def door(
    sent: Submission,
    action: str,
    hidden: dict[str, str],
    status: int | None = None,
    **context: Any,
) -> Response:
    """Return a page with a form, which is bound to the browser unless it has a token already."""
    fields = {"token": session.visit_token(), **hidden}
    optional = {"lead": "", "company": "", "has_form": True, "links": {}, "keeps": "asked"}
    response = page(
        "session/door.html",
        status or (refusal_status(sent.error) if sent.error else 200),
        **{**optional, **context},
        **{"sent": sent, "action": action, "hidden": fields},
    )
    session.begin_visit(response)
    return response


def refuse(sent: Submission, error: QuartermasterError) -> Submission:
    """Return a form that shows why it was refused."""
    note_refusal(error)
    sent.refuse(error)
    return sent


def refusal_status(error: QuartermasterError) -> int:
    if isinstance(error, TokenRefused):
        return 403 if error.code == "access_denied" else 400
    return status_of(error)

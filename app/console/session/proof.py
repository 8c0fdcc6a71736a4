"""Asks again for the password before a sensitive form, if the last proof is too old."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from flask import Response, request

from app.auth import guard
from app.console.forms.reading import posted
from app.console.forms.submissions import note_refusal
from app.console.frame.pages import here, page
from app.console.session import sessions as session
from app.console.stores import users
from app.errors import Conflict, RateLimited, Unavailable
from app.http.errors import status_of
from app.naming import Lookup
from app.oauth.domain import TokenRefused
from app.oauth.sign_ins import authenticate
from app.oauth.store import Session
from app.second_factor.domain import FIELD, CodeRefused, has_factor
from app.second_factor.management import use_code

FRESH = timedelta(minutes=15)
# Beside the fields of the form itself.
PASSWORD, CODE = "own-password", "own-code"


def ask_for_proof() -> Response | None:
    """Return the page that asks for the password again; None if the form may be carried out.

    The page contains the fields of the form, and sends them again with the password.
    """
    present = session.current_session()
    if present is None or users.now() - present.proved_at <= FRESH:
        return None
    if not {PASSWORD, CODE} & posted().keys():
        return proof_page(present)
    try:
        prove(present)
    except TokenRefused as error:
        wrong = "The password is wrong."
        return proof_page(present, wrong if error.code == "invalid_grant" else str(error), 400)
    except (CodeRefused, Conflict, RateLimited, Unavailable) as error:
        note_refusal(error)
        return proof_page(present, str(error), status_of(error))
    session.refresh_tokens.renew_proof(present.chain)
    return None


def prove(present: Session) -> None:
    """Raise unless the form has the password of the caller, and a code of the second factor.

    Who has signed in with a company account needs the code alone.
    """
    fields, caller = posted(), guard.caller()
    if present.is_company:
        use_code({"_id": caller.id, "Name": caller.name}, fields.get(CODE, ""), "console")
        return
    sha256 = hashlib.sha256(fields.get(PASSWORD, "").encode()).hexdigest()
    user = authenticate(caller.name, sha256)
    if has_factor(user):
        use_code(user, fields.get(CODE, ""), "console")


def proof_page(present: Session, error: str = "", status: int = 403) -> Response:
    hidden = {name: text for name, text in posted().items() if name not in (PASSWORD, CODE)}
    user = users.get(Lookup.parse(guard.caller().id), FIELD)
    return page(
        "session/proof.html",
        status,
        action=request.path,
        fields={**hidden, "token": session.form_token()},
        needs_code=has_factor(user),
        is_company=present.is_company,
        back=here(),
        error=error,
    )

"""Pages with one form, and the one that asks for the password again before a sensitive form."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.guesses import guess_by_session
from app.console.forms.declared import Field, Form
from app.console.forms.submissions import Submission, posted
from app.console.frame.pages import here, page, path_to
from app.console.session import sessions as session
from app.core.errors import QuartermasterError
from app.core.naming import Lookup
from app.users.domain import WrongPassword
from app.users.oauth.domain import TokenRefused
from app.users.oauth.sign_ins import authenticate
from app.users.oauth.store import refresh_tokens
from app.users.second_factor.domain import FIELD, has_factor
from app.users.second_factor.management import use_code
from app.users.second_factor.vault import vault
from app.users.store import users

CODE = Field(
    "code",
    "Code",
    "The six digits that your app shows, or a recovery code.",
    html={"autocomplete": "one-time-code", "spellcheck": "false", "maxlength": 40},
)
PROVE = "Prove that it is you to continue with the form that you sent."
LEAVE = "Sign in again with your company account, then send the form again."
# Beside the fields of the form itself.
OWN_CODE = replace(CODE, name="own-code")
OWN_PASSWORD = Field(
    "own-password",
    "Your password",
    type="password",
    html={"autocomplete": "current-password", "autofocus": ""},
)
NAMES = (OWN_CODE.name, OWN_PASSWORD.name)


def door(
    sent: Submission, action: str, hidden: dict[str, str], status: int | None = None, **context: Any
) -> Response:
    """Return a page with a form, which is bound to the browser unless it has a token already."""
    if isinstance(sent.error, TokenRefused):
        status = 403 if sent.error.code == "access_denied" else 400
    fields = {"token": vault.seal(session.FORM, session.visit_secret()), **hidden}
    optional = {"lead": "", "company": "", "has_form": True, "links": {}, "keeps": "asked"}
    response = page(
        "session/door.html",
        status or sent.status,
        sent=sent,
        action=action,
        hidden=fields,
        **{**optional, **context},
    )
    # Its forms need this cookie.
    session.set_cookie(response, session.VISIT_COOKIE, session.visit_secret(), samesite="Strict")
    return response


def ask_for_proof() -> Response | None:
    """Return the page that asks for the password again; None if the form may be carried out.

    The page contains the fields of the form, and sends them again with the password.
    """
    present = session.current_session()
    if present is None or users.now() - present.proved_at <= timedelta(minutes=15):
        return None
    user = users.get(Lookup.parse(guard.caller().id), "Name", FIELD)
    fields = [] if present.is_company else [OWN_PASSWORD]
    fields += [OWN_CODE] if has_factor(user) else []
    sent = Submission(Form(None, "Is it still you?", "Continue", tuple(fields), name="proof"))
    typed, status = posted(), 403
    if typed.keys() & NAMES:
        guess = guess_by_session(present.chain)
        try:
            if not present.is_company:
                sha256 = hashlib.sha256(typed.get(OWN_PASSWORD.name, "").encode()).hexdigest()
                authenticate(user["Name"], sha256, guess)
            # Who has signed in with a company account needs the code alone.
            if present.is_company or has_factor(user):
                use_code(user, typed.get(OWN_CODE.name, ""), "console", guess)
        except QuartermasterError as error:
            is_wrong = isinstance(error, TokenRefused) and error.code == "invalid_grant"
            sent.refuse(WrongPassword() if is_wrong else error)
            status = sent.status
        else:
            refresh_tokens.renew_proof(present.chain)
            return None
    hidden = {name: text for name, text in typed.items() if name not in NAMES}
    how = PROVE if fields else LEAVE
    return door(
        sent,
        request.path,
        {**hidden, "token": session.form_token()},
        status,
        lead=f"You signed in more than 15 minutes ago. {how} Nothing was changed yet.",
        # Without a field to fill in, the page leads to the company's sign-in.
        has_form=bool(fields),
        company="" if fields else path_to("sign-in", "company", back=here(), again=1),
        links={"Back to the overview": path_to()},
        keeps="asked" if fields else "refused",
    )

"""Sign-in, sign-out, and the list of one's own sign-ins."""

from __future__ import annotations

import hashlib
from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.permissions import SignedIn
from app.console.forms.declared import Form, Target
from app.console.forms.places import Place, register
from app.console.forms.reading import posted
from app.console.forms.submissions import Submission, forms_on, note_refusal
from app.console.frame.pages import PREFIX, blp, local, page, path_to, render, required, see_other
from app.console.session import sessions as session
from app.console.stores import cursors, users
from app.errors import (
    Conflict,
    Forbidden,
    NotFound,
    QuartermasterError,
    RateLimited,
    Unavailable,
)
from app.http.context import current, setting
from app.http.errors import status_of
from app.naming import Lookup
from app.oauth.domain import TokenRefused
from app.oauth.sign_ins import authenticate, end_sign_in, list_sign_ins
from app.second_factor.domain import CodeRefused, has_factor
from app.second_factor.management import use_code
from app.second_factor.vault import Vault
from app.types import Document

PAGE_SIZE = 25
# Between the password and the code, the browser keeps the state, sealed.
CODE_STEP = "sign-in with a code"
CODE_STEP_SECONDS = 300
NOT_OURS = (
    "This form did not come from this page, or your browser did not send the cookie of this page. "
    "Allow cookies, and try again."
)

vault = current(Vault)


class SignInEnded(Forbidden):
    """The state between the password and the code is too old, or of another browser."""

    sentence = "The sign-in took too long, or the account has changed. Sign in again."


@blp.get("/sign-in")
@guard.public
def show_sign_in() -> Response:
    return sign_in_form(request.args.get("back", ""))


@blp.post("/sign-in")
@guard.public
def sign_in() -> Response:
    fields = posted()
    back, name = fields.get("back", ""), fields.get("username", "")
    try:
        session.require_own_form(session.cookie(session.VISIT_COOKIE))
        password = hashlib.sha256(fields.get("password", "").encode()).hexdigest()
        user = authenticate(name, password)
    except session.ForeignForm:
        return sign_in_form(back, name, NOT_OURS, 403)
    except (TokenRefused, RateLimited, Unavailable) as error:
        note_refusal(error)
        return sign_in_form(back, name, str(error), refusal_status(error))
    return finish_sign_in(user, back)


def finish_sign_in(user: Document, back: str, method: str = "password", **about: Any) -> Response:
    """Begin a session; if the account has a second factor, ask for its code first."""
    if has_factor(user):
        secret = session.visit_secret()
        state = vault.seal(CODE_STEP, secret, user["_id"], str(user["PasswordVersion"]), method)
        return code_form(state, secret, back)
    return begin_session(user, back, Method=method, **about)


def begin_session(user: Document, back: str, **about: Any) -> Response:
    response = see_other(local(back, PREFIX))
    session.begin(response, user, **about)
    return response


@blp.post("/sign-in/code")
@guard.public
def sign_in_with_code() -> Response:
    fields, secret = posted(), session.cookie(session.VISIT_COOKIE)
    back, state = fields.get("back", ""), fields.get("state", "")
    try:
        session.require_own_form(secret)
        user, method = account_of(state, secret)
        use_code(user, fields.get("code", ""), "console")
    except session.ForeignForm:
        return sign_in_form(back, error=NOT_OURS, status=403)
    except (SignInEnded, Conflict, NotFound):
        return sign_in_form(back, error=SignInEnded.sentence, status=400)
    except (CodeRefused, RateLimited, Unavailable) as error:
        note_refusal(error)
        return code_form(state, secret, back, str(error), status_of(error))
    return begin_session(user, back, Method=method)


def account_of(state: str, secret: str) -> tuple[Document, str]:
    """Return the account that this browser has just proved to own, and how."""
    try:
        visit, user_id, version, method = vault.unseal(CODE_STEP, state, CODE_STEP_SECONDS)
    except CodeRefused:
        raise SignInEnded from None
    user = users.get(Lookup.parse(user_id), "Name", "PasswordVersion")
    # A change of the password, or a revocation, also ends the sign-ins that are under way.
    if visit != secret or version != str(user["PasswordVersion"]):
        raise SignInEnded
    return user, method


def refusal_status(error: QuartermasterError) -> int:
    if isinstance(error, TokenRefused):
        return 403 if error.code == "access_denied" else 400
    return status_of(error)


def code_form(state: str, secret: str, back: str, error: str = "", status: int = 200) -> Response:
    response = page(
        "session/code.html",
        status,
        token=session.form_tokens.make(secret),
        state=state,
        back=local(back, PREFIX),
        error=error,
    )
    session.begin_visit(response, secret)
    return response


def sign_in_form(back: str, username: str = "", error: str = "", status: int = 200) -> Response:
    secret = session.visit_secret()
    response = page(
        "session/sign_in.html",
        status,
        token=session.form_tokens.make(secret),
        back=local(back, PREFIX),
        username=username,
        error=error,
        # From the page of an invitation.
        has_chosen=request.args.get("done") == "chosen",
        has_provider=bool(setting("OPENID_ISSUER")),
        # With passwords off, for an account that was rescued at the command line.
        has_passwords=setting("STAFF_PASSWORDS") or username or "password" in request.args,
    )
    session.begin_visit(response, secret)
    return response


@blp.post("/sign-out")
@required(SignedIn.ANYBODY)
def sign_out() -> Response:
    response = see_other(path_to("sign-in"))
    session.end(response)
    return response


def own_sign_ins_page(_: str, sent: Submission | None, **__: Any) -> Response:
    own = guard.caller().id
    found = list_sign_ins(Lookup.parse(own), PAGE_SIZE, request.args.get("after", ""))
    present = session.current_session()
    return render(
        "session/sign_ins.html",
        sent=sent,
        sign_ins=found.values,
        next=cursors.write(found.next),
        present=present.chain if present else None,
        forms=forms_on([END_OWN_SIGN_IN], Target(PREFIX, own), sent),
    )


END_OWN_SIGN_IN = Form(
    None,
    "End",
    "End",
    path="<sign_in_id>/end",
    act=lambda _, sign_in_id: end_sign_in(Lookup.parse(guard.caller().id), sign_in_id),
    api="DELETE /api/oauth/sign-ins/<key>/SIGN-IN-ID",
    lead=lambda *_, **__: see_other(path_to("sign-ins", done="ended")),
)
register(Place("/sign-ins", ("sign-ins",), {"": [END_OWN_SIGN_IN]}, own_sign_ins_page))

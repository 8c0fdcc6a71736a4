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
from app.console.stores import cursors
from app.errors import QuartermasterError, RateLimited, Unavailable
from app.http.errors import status_of
from app.naming import Lookup
from app.oauth.domain import TokenRefused
from app.oauth.sign_ins import authenticate, end_sign_in, list_sign_ins

PAGE_SIZE = 25
NOT_OURS = (
    "This form did not come from this page, or your browser did not send the cookie of this page. "
    "Allow cookies, and try again."
)


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
    response = see_other(local(back, PREFIX))
    session.begin(response, user)
    return response


def refusal_status(error: QuartermasterError) -> int:
    if isinstance(error, TokenRefused):
        return 403 if error.code == "access_denied" else 400
    return status_of(error)


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

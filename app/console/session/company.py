"""Sign-in with a company account: to the provider, and back with its answer."""

from __future__ import annotations

from flask import Response, request

from app.auth import guard
from app.console.forms.submissions import note_refusal
from app.console.frame.pages import PREFIX, blp, local, path_to, see_other
from app.console.session import sessions as session
from app.console.session.sign_in import finish_sign_in, refusal_status, sign_in_form
from app.console.stores import users
from app.errors import NotFound, QuartermasterError, Unavailable
from app.http.context import current, setting
from app.oauth.domain import TokenRefused
from app.openid.domain import Denied, SignInRefused, StaleSignIn, proof_time
from app.openid.provider import LIFETIME_SECONDS, Provider
from app.openid.sign_ins import sign_in
from app.storage.limits.quotas import Marks

# Binds a sign-in to the browser that began it.
COOKIE = "quartermaster-company"
REFUSALS = (SignInRefused, TokenRefused, Unavailable)

marks = current(Marks)
provider = current(Provider)


@blp.get("/sign-in/company")
@guard.without_database
def go_to_provider() -> Response:
    require_provider()
    back = local(request.args.get("back", ""), PREFIX)
    try:
        url, cookie = provider.begin(own_address(), back, "again" in request.args)
    except REFUSALS as error:
        return refuse(error, back)
    response = see_other(url)
    # Lax, because the provider's redirect is a navigation from another site.
    session.set_cookie(response, COOKIE, cookie, "Lax", LIFETIME_SECONDS)
    return response


@blp.get("/sign-in/company/callback")
@guard.public
def come_back() -> Response:
    require_provider()
    back = PREFIX
    try:
        state = request.args.get("state", "")
        begun = provider.read_cookie(session.cookie(COOKIE), state)
        # Here, too, it works once: a browser may keep the cookie.
        if not marks.set(f"company sign-in {state}", LIFETIME_SECONDS):
            raise StaleSignIn
        back = begun["back"]
        if "code" not in request.args:
            raise Denied
        claims = provider.claims(begun, request.args["code"], own_address())
        proved_at = proof_time(claims, begun["is_again"], users.now())
        response = finish_sign_in(sign_in(claims), back, "openid", ProvedAt=proved_at)
    except REFUSALS as error:
        response = refuse(error, back)
    # The cookie works once.
    session.set_cookie(response, COOKIE, "", "Lax", 0)
    return response


def require_provider() -> None:
    if not setting("OPENID_ISSUER"):
        raise NotFound("page", request.path, "There is no such page.")


def own_address() -> str:
    """Return the address to which the provider sends the browser back."""
    return f"{request.scheme}://{request.host}{path_to('sign-in', 'company', 'callback')}"


def refuse(error: QuartermasterError, back: str) -> Response:
    note_refusal(error)
    return sign_in_form(back, error=str(error), status=refusal_status(error))

"""Sign-in with a company account: to the provider, and back with its answer."""

from __future__ import annotations

from contextlib import suppress

from flask import Response, request

from app.auth import guard
from app.console.frame.pages import PREFIX, blp, local, path_to, see_other
from app.console.session import sessions as session
from app.console.session.sign_in import REFUSALS, finish_sign_in, sign_in_page
from app.console.stores import users
from app.errors import NotFound
from app.http.context import current, setting
from app.openid.domain import DENIED, STALE, SignInRefused, proof_time
from app.openid.provider import Provider
from app.openid.sign_ins import sign_in
from app.second_factor.domain import CodeRefused
from app.second_factor.vault import Vault
from app.storage.limits import Marks
from app.types import Document

# Binds a sign-in to the browser that began it.
COOKIE = "quartermaster-company"
# How long a person may take at the provider.
LIFETIME_SECONDS = 600

marks = current(Marks)
provider = current(Provider)
vault = current(Vault)


@blp.get("/sign-in/company")
@guard.public
def go_to_provider() -> Response:
    require_provider()
    back, is_again = local(request.args.get("back", ""), PREFIX), "again" in request.args
    try:
        begun = provider.begin(own_address(), is_again)
    except REFUSALS as error:
        return sign_in_page(back, error)
    response = see_other(begun.pop("url"))
    # It contains the state, the nonce and the PKCE verifier.
    cookie = vault.seal(COOKIE, {**begun, "back": back, "is_again": is_again})
    # Lax, because the provider's redirect is a navigation from another site.
    session.set_cookie(response, COOKIE, cookie, "Lax", LIFETIME_SECONDS)
    return response


@blp.get("/sign-in/company/callback")
@guard.public
def come_back() -> Response:
    require_provider()
    back = PREFIX
    try:
        begun = take_begun(request.args.get("state", ""))
        back = begun["back"]
        if "code" not in request.args:
            raise SignInRefused(DENIED)
        claims = provider.claims(begun, request.args["code"], own_address())
        proved_at = proof_time(claims, begun["is_again"], users.now())
        response = finish_sign_in(sign_in(claims), back, "openid", ProvedAt=proved_at)
    except REFUSALS as error:
        response = sign_in_page(back, error)
    session.set_cookie(response, COOKIE, "", "Lax", 0)
    return response


def take_begun(state: str) -> Document:
    """Return the sign-in that this browser has begun. It works once, even if a cookie is kept."""
    with suppress(CodeRefused):
        (begun,) = vault.unseal(COOKIE, session.cookie(COOKIE), LIFETIME_SECONDS)
        if begun["state"] == state and marks.set(f"{COOKIE} {state}", LIFETIME_SECONDS):
            return dict(begun)
    raise SignInRefused(STALE)


def require_provider() -> None:
    if not setting("OPENID_ISSUER"):
        raise NotFound("page", request.path, "There is no such page.")


def own_address() -> str:
    """Return the address to which the provider sends the browser back."""
    return f"{request.scheme}://{request.host}{path_to('sign-in', 'company', 'callback')}"

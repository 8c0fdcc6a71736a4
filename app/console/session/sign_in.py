"""Sign-in with a password or a company account, invitations, own sign-ins and second factor."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from textwrap import wrap
from typing import Any

from flask import Response, request, url_for
from markupsafe import Markup
from pyotp.totp import TOTP

from app.auth import guard
from app.console.forms.declared import AS_TYPED, Field, Form, Target
from app.console.forms.places import Place
from app.console.forms.schemas import Acceptance
from app.console.forms.submissions import Submission, forms_on, posted, query_text, submitted, typed
from app.console.frame.pages import PREFIX, SERVICE, blp, local, path_to, render, see_other
from app.console.session import sessions as session
from app.console.session.doors import CODE, door
from app.console.users.views import END_SIGN_IN, PASSWORD_FIELDS, sign_ins_part
from app.core.changes import Applied
from app.core.errors import Invalid, NotFound, QuartermasterError
from app.core.naming import Lookup
from app.core.permissions import SignedIn
from app.core.types import Document
from app.http.context import setting
from app.http.intents import intent
from app.storage.limits import marks
from app.users.oauth.sign_ins import authenticate
from app.users.oauth.store import refresh_tokens
from app.users.openid.domain import DENIED, STALE, SignInRefused, proof_time
from app.users.openid.provider import provider
from app.users.openid.sign_ins import sign_in as openid_sign_in
from app.users.second_factor.domain import FIELD, CodeRefused, has_factor, recovery_codes_left
from app.users.second_factor.management import (
    RENEW_RECOVERY_CODES,
    SET_UP_FACTOR,
    SWITCH_OFF_FACTOR,
    propose,
    renew_recovery_codes,
    set_up,
    switch_off,
    use_code,
)
from app.users.second_factor.vault import vault
from app.users.staff.invitations import accept
from app.users.store import users

# Between the password and the code, the browser keeps the state, sealed.
CODE_STEP = "sign-in with a code"
CODE_STEP_SECONDS = 300
FOCUSED = {"autofocus": ""}
USERNAME = Field("username", "Username", html={**AS_TYPED, "autocomplete": "username"})
PASSWORD = Field("password", "Password", type="password", html={"autocomplete": "current-password"})
SIGN_IN = Form(
    None,
    "Sign in",
    "Sign in",
    (replace(USERNAME, html=USERNAME.html | FOCUSED), PASSWORD),
    about="Use the account that you were given for this console. No account yet? Ask an "
    "administrator to invite you.",
)
BESIDE_COMPANY = replace(SIGN_IN, fields=(USERNAME, PASSWORD), is_quiet=True)
TYPE_CODE = Form(
    None,
    "Second factor",
    "Sign in",
    (replace(CODE, html=CODE.html | FOCUSED),),
    about="You have lost both? Ask an administrator to reset your second factor.",
)

# Binds a sign-in to the browser that began it.
COMPANY_COOKIE = "quartermaster-company"
# How long a person may take at the provider.
COMPANY_SECONDS = 600
INVITATION = Field(
    "invitation",
    "Invitation",
    "The part of the link after #, or the whole link.",
    html={**AS_TYPED, "data-fragment": ""},
)
CHOOSE_PASSWORD = Form(
    None,
    "Choose a password",
    "Set the password",
    (INVITATION, *PASSWORD_FIELDS),
    schema=Acceptance(),
)


@blp.route("/sign-in", methods=["GET", "POST"])
@guard.public
def sign_in() -> Response:
    if request.method in session.SAFE_METHODS:
        return sign_in_page(query_text("back"))
    fields = posted()
    back = fields.get("back", "")
    try:
        session.require_own_form(session.VISIT_COOKIE)
        password = hashlib.sha256(fields.get("password", "").encode()).hexdigest()
        return finish_sign_in(authenticate(fields.get("username", ""), password), back)
    except QuartermasterError as error:
        return sign_in_page(back, error)


def finish_sign_in(user: Document, back: str, method: str = "password", **about: Any) -> Response:
    """Begin a session; if the account has a second factor, ask for its code first."""
    if not has_factor(user):
        return session.begin(see_other(local(back)), user, Method=method, **about)
    proved = session.visit_secret(), user["_id"], user["PasswordVersion"], method
    return code_page(Submission(TYPE_CODE), vault.seal(CODE_STEP, *proved), back)


@blp.post("/sign-in/code")
@guard.public
def sign_in_with_code() -> Response:
    sent = Submission(TYPE_CODE, posted())
    back, state = sent.value("back"), sent.value("state")
    try:
        session.require_own_form(session.VISIT_COOKIE)
        user, method = account_of(state)
    except QuartermasterError as error:
        return sign_in_page(back, error)
    try:
        is_recovery = use_code(user, sent.value("code"), "console")
    except QuartermasterError as error:
        sent.refuse(error)
        return code_page(sent, state, back)
    # Whoever needs a recovery code may have lost the phone, and has one code fewer.
    own_page = path_to("second-factor", done="recovery-code")
    to = own_page if is_recovery else local(back)
    return session.begin(see_other(to), user, Method=method)


def account_of(state: str) -> tuple[Document, str]:
    """Return the account that this browser has just proved to own, and how."""
    with suppress(CodeRefused, NotFound):
        visit, user_id, version, method = vault.unseal(CODE_STEP, state, CODE_STEP_SECONDS)
        user = users.get(Lookup.parse(user_id), "Name", "PasswordVersion")
        # A change of the password, or a revocation, also ends the sign-ins that are under way.
        if visit == session.visit_secret() and version == user["PasswordVersion"]:
            return user, method
    raise Invalid("The sign-in took too long, or the account has changed. Sign in again.")


def code_page(sent: Submission, state: str, back: str) -> Response:
    hidden = {"state": state, "back": local(back)}
    links = {"Sign in with another account": path_to("sign-in", back=hidden["back"])}
    return door(sent, path_to("sign-in", "code"), hidden, links=links)


def sign_in_page(back: str, error: QuartermasterError | None = None) -> Response:
    back, has_provider = local(back), bool(setting("OPENID_ISSUER"))
    sent = Submission(BESIDE_COMPANY if has_provider else SIGN_IN, typed())
    if error:
        sent.refuse(error)
    # With passwords off, for an account that was rescued at the command line.
    is_rescued = "password" in request.args or "username" in sent.fields
    return door(
        sent,
        path_to("sign-in"),
        {"back": back},
        # From the page of an invitation.
        lead="Your password is set. Sign in." if query_text("done") == "chosen" else "",
        company=path_to("sign-in", "company", back=back) if has_provider else "",
        has_form=setting("STAFF_PASSWORDS") or is_rescued,
    )


@blp.get("/sign-in/company")
@guard.public
def go_to_provider() -> Response:
    require_provider()
    back, is_again = query_text("back"), "again" in request.args
    try:
        begun = provider.begin(url_for("console.come_back", _external=True), is_again)
    except QuartermasterError as error:
        return sign_in_page(back, error)
    response = see_other(begun.pop("url"))
    # It contains the state, the nonce and the PKCE verifier.
    cookie = vault.seal(COMPANY_COOKIE, {**begun, "back": back, "is_again": is_again})
    # Lax, because the provider's redirect is a navigation from another site.
    session.set_cookie(response, COMPANY_COOKIE, cookie, "Lax", COMPANY_SECONDS)
    return response


@blp.get("/sign-in/company/callback")
@guard.public
def come_back() -> Response:
    require_provider()
    back = PREFIX
    try:
        begun = take_begun(query_text("state"))
        back = begun["back"]
        if "code" not in request.args:
            raise SignInRefused(DENIED)
        own = url_for("console.come_back", _external=True)
        claims = provider.claims(begun, request.args["code"], own)
        proved_at = proof_time(claims, begun["is_again"], users.now())
        response = finish_sign_in(openid_sign_in(claims), back, "openid", ProvedAt=proved_at)
    except QuartermasterError as error:
        response = sign_in_page(back, error)
    session.set_cookie(response, COMPANY_COOKIE, "", "Lax", 0)
    return response


def take_begun(state: str) -> Document:
    """Return the sign-in that this browser has begun. It works once, even if a cookie is kept."""
    with suppress(CodeRefused):
        (begun,) = vault.unseal(COMPANY_COOKIE, session.cookie(COMPANY_COOKIE), COMPANY_SECONDS)
        if begun["state"] == state and marks.set(f"{COMPANY_COOKIE} {state}", COMPANY_SECONDS):
            return dict(begun)
    raise SignInRefused(STALE)


def require_provider() -> None:
    if not setting("OPENID_ISSUER"):
        raise NotFound("page", request.path, "There is no such page.")


@blp.route("/invitation", methods=["GET", "POST"])
@guard.public
def accept_invitation() -> Response:
    sent = Submission(CHOOSE_PASSWORD)
    if request.method not in session.SAFE_METHODS:
        sent.fields = posted()
        try:
            session.require_own_form(session.VISIT_COOKIE)
            args = sent.load(Acceptance())
            accept(args["invitation"], args["new"])
            return see_other(path_to("sign-in", done="chosen"))
        except QuartermasterError as error:
            sent.refuse(error)
    links = {"You have a password already? Sign in": path_to("sign-in")}
    return door(sent, path_to("invitation"), {}, links=links)


@blp.post("/sign-out")
@session.required(SignedIn.ANYBODY)
def sign_out() -> Response:
    if present := session.current_session():
        refresh_tokens.revoke_chain(present.chain)
    response = see_other(path_to("sign-in"))
    session.set_cookie(response, session.COOKIE, "", "Lax", 0)
    return response


def own_sign_ins_page(key: Lookup, **_: Any) -> Response:
    forms = forms_on([END_OWN_SIGN_IN], Target(PREFIX, guard.caller().id))
    return render("session/sign_ins.html", forms=forms, **sign_ins_part(key))


END_OWN_SIGN_IN = replace(END_SIGN_IN, path="<sign_in_id>/end")
Place("/sign-ins", {"": [END_OWN_SIGN_IN]}, own_sign_ins_page, is_own=True)


def second_factor_page(made: Applied | None = None) -> Response:
    caller = guard.caller()
    user = users.get(Lookup.parse(caller.id), FIELD)
    is_on = has_factor(user)
    shown = {"left": recovery_codes_left(user)} if is_on else proposal_part(caller.id, caller.name)
    target = Target(path_to("second-factor"), caller.id, caller.name, {"IsOn": is_on})
    return render(
        "session/second_factor.html",
        forms=forms_on(FACTOR_FORMS, target),
        is_on=is_on,
        is_needed=caller.rights.needs_second_factor,
        made=made,
        **shown,
    )


def proposal_part(user_id: str, name: str) -> Document:
    """Return the new secret as text and as a QR code; a refused form keeps its secret."""
    # Here, because otherwise every start of the program would take a tenth of a second longer.
    import segno

    sent = submitted()
    secret, sealed = propose(user_id, sent.value("state") if sent else "")
    issuer = " ".join(dict.fromkeys([SERVICE, setting("GAME_NAME")]))
    uri = TOTP(secret).provisioning_uri(name=name, issuer_name=issuer)
    qr = segno.make(uri, error="m", micro=False)
    # The colours are fixed: cameras need a light background, also on a dark page.
    svg = qr.svg_inline(dark="black", light="white", omitsize=True, svgclass="qr", lineclass=None)
    words = " ".join(wrap(secret, 4))
    return {"state": sealed, "uri": uri, "secret": words, "qr": Markup(svg)}  # nosec B704 # noqa: S704 (made of digits and a path)


def switch_on() -> Applied:
    """Set the second factor up, and end the sign-ins that began without it, but for this one."""
    state = posted().get("state", "")
    made = set_up(guard.caller().id, state, posted().get("code", ""), intent(SET_UP_FACTOR))
    present = session.current_session()
    if present and not made.replayed:
        refresh_tokens.outlive_change(present.chain)
    return made


FACTOR_FORMS = (
    Form(
        SET_UP_FACTOR,
        "Set it up",
        "Switch it on",
        (replace(CODE, hint="The six digits that your app shows."),),
        name="set-up",
        template="session/new_secret.html",
        act=switch_on,
        about="Your other sign-ins end: sign in there again, with a code.",
        asks_reason=False,
        # Whoever has found an open session must not lock its owner out.
        is_sensitive=True,
        is_offered=lambda target: not target.record["IsOn"],
        shows_outcome=True,
    ),
    Form(
        RENEW_RECOVERY_CODES,
        "New recovery codes…",
        "Make new recovery codes",
        (CODE,),
        name="recovery-codes",
        about="The former recovery codes stop working.",
        act=lambda: renew_recovery_codes(
            guard.caller().id, posted().get("code", ""), intent(RENEW_RECOVERY_CODES)
        ),
        asks_reason=False,
        is_offered=lambda target: target.record["IsOn"],
        shows_outcome=True,
    ),
    Form(
        SWITCH_OFF_FACTOR,
        "Switch it off…",
        "Switch it off",
        (CODE,),
        name="switch-off",
        about="Your password alone signs you in then.",
        act=lambda: switch_off(
            guard.caller().id, posted().get("code", ""), intent(SWITCH_OFF_FACTOR)
        ),
        asks_reason=False,
        is_danger=True,
        is_offered=lambda target: target.record["IsOn"],
        notice="factor-off",
    ),
)
Place("/second-factor", {"": FACTOR_FORMS}, second_factor_page)

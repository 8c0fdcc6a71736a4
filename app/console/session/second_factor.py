"""The page of one's own second factor: set it up, switch it off, make new recovery codes."""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap

from flask import Response
from markupsafe import Markup
from pyotp.totp import TOTP

from app.auth import guard
from app.console.forms.declared import Form, Target
from app.console.forms.places import Place
from app.console.forms.submissions import forms_on, posted, submitted
from app.console.frame.pages import SERVICE, path_to, render
from app.console.session import sessions as session
from app.console.session.doors import CODE
from app.core.changes import Applied
from app.core.naming import Lookup
from app.core.types import Document
from app.http.context import setting
from app.http.intents import intent
from app.users.oauth.store import refresh_tokens
from app.users.second_factor.domain import FIELD, has_factor, recovery_codes_left
from app.users.second_factor.management import (
    RENEW_RECOVERY_CODES,
    SET_UP_FACTOR,
    SWITCH_OFF_FACTOR,
    propose,
    renew_recovery_codes,
    set_up,
    switch_off,
)
from app.users.store import users


def second_factor_page(made: Applied | None = None) -> Response:
    caller = guard.caller()
    user = users.get(Lookup.parse(caller.id), FIELD)
    is_on = has_factor(user)
    shown = {"left": recovery_codes_left(user)} if is_on else proposal_part(caller.id, caller.name)
    target = Target(path_to("second-factor"), caller.id, caller.name, {"IsOn": is_on})
    return render(
        "session/second_factor.html",
        forms=forms_on(FORMS, target),
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
    made = set_up(guard.caller().id, state, typed_code(), intent(SET_UP_FACTOR))
    present = session.current_session()
    if present and not made.replayed:
        refresh_tokens.outlive_change(present.chain)
    return made


def typed_code() -> str:
    return posted().get("code", "")


FORMS = (
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
            guard.caller().id, typed_code(), intent(RENEW_RECOVERY_CODES)
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
        act=lambda: switch_off(guard.caller().id, typed_code(), intent(SWITCH_OFF_FACTOR)),
        asks_reason=False,
        is_danger=True,
        is_offered=lambda target: target.record["IsOn"],
        notice="factor-off",
    ),
)
Place("/second-factor", {"": FORMS}, second_factor_page)

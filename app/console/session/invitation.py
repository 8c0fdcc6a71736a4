"""The page on which an invited colleague chooses a password."""

from __future__ import annotations

import hashlib

from flask import Response

from app.auth import guard
from app.console.forms.declared import AS_TYPED, Field, Form
from app.console.forms.places import attempt
from app.console.forms.reading import posted
from app.console.forms.schemas import Acceptance
from app.console.forms.submissions import Submission
from app.console.frame.pages import blp, path_to, see_other
from app.console.session import sessions as session
from app.console.session.doors import door
from app.console.users.forms import PASSWORD_FIELDS
from app.users.invitations import accept

CODE = Field(
    "invitation",
    "Invitation",
    "The part of the link after #, or the whole link.",
    html={**AS_TYPED, "data-fragment": ""},
)
CHOOSE = Form(
    None,
    "Choose a password",
    "Set the password",
    (CODE, *PASSWORD_FIELDS),
    schema=Acceptance(),
    is_secret=True,
)


@blp.get("/invitation")
@guard.public
def show_invitation() -> Response:
    return invitation_page(Submission(CHOOSE))


@blp.post("/invitation")
@guard.public
def accept_invitation() -> Response:
    sent = Submission(CHOOSE, posted())
    attempt(sent, lambda: choose_password(sent))
    return invitation_page(sent) if sent.error else see_other(path_to("sign-in", done="chosen"))


def choose_password(sent: Submission) -> None:
    session.require_own_form(session.cookie(session.VISIT_COOKIE))
    args = sent.load(Acceptance())
    accept(args["invitation"], hashlib.sha256(args["new"].encode()).hexdigest())


def invitation_page(sent: Submission) -> Response:
    links = {"You have a password already? Sign in": path_to("sign-in")}
    return door(sent, path_to("invitation"), {}, links=links)

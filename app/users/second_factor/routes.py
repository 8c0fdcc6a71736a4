"""Resetting the second factor of somebody who has lost it."""

from __future__ import annotations

from app.auth.execution import change_route
from app.http.api import Blueprint
from app.users.domain import SignInOfStaff
from app.users.schemas import ResetFactorSchema
from app.users.second_factor.domain import NoFactor, OwnFactor
from app.users.second_factor.management import RESET_FACTOR

blp = Blueprint("SecondFactor", __name__, url_prefix="/api/v1/users", group="Users")


change_route(
    blp,
    RESET_FACTOR,
    "/<lookup:key>/second-factor",
    ResetFactorSchema,
    NoFactor(),
    OwnFactor(),
    SignInOfStaff(),
    method="DELETE",
    view="reset_second_factor",
    about="""Reset a user's second factor

    For somebody who has lost it: the password alone signs in again. A mail tells the user. That of
    an account with a role of staff is reset by the approved request `reset-sign-in` alone.
    """,
)

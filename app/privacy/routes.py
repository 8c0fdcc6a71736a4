"""People's own data: all of it in one document, and its erasure."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from app.auth import guard
from app.auth.execution import change_route, execute
from app.core.naming import Lookup
from app.http import tracing
from app.http.api import Blueprint
from app.http.examples import PLAYER
from app.http.intents import change_headers, change_response, reading_intent
from app.http.json import CONTENT_TYPE
from app.http.masking import MASK
from app.http.uploads import Pieces, download
from app.players.domain import PlayerOnline
from app.privacy import personal_data
from app.privacy.domain import ErasureUnderWay, NotConfirmed, OwnAccount, public_erasure
from app.privacy.operations import ERASE_USER, EXPORT_PERSONAL_DATA, finish
from app.privacy.schemas import ErasureSchema, PersonalDataSchema
from app.users.store import users

blp = Blueprint("PersonalData", __name__, url_prefix="/api/v1/users", group="Users")


@change_route(
    blp, EXPORT_PERSONAL_DATA, "/<lookup:key>/personal-data", PersonalDataSchema, method="GET"
)
def get_personal_data(key: Lookup) -> Response:
    """Get all personal data of a user

    The account, its characters with everything they own, history about and by the person, keys,
    sign-ins and notes, in one document. History records the export.
    """
    headers = {"Cache-Control": "no-store"}
    if request.method == "HEAD":  # Flask routes HEAD to GET views; HEAD needs no history entry
        users.get(key, "_id")
        return Response(content_type=CONTENT_TYPE, headers=headers)

    def begin() -> Pieces:
        applied, pieces = personal_data.write(key, reading_intent(EXPORT_PERSONAL_DATA))
        return pieces, {**headers, **change_headers(applied)}

    return download(begin, guard.caller().id, content_type=CONTENT_TYPE)


@change_route(
    blp,
    ERASE_USER,
    "/<lookup:key>/erase",
    ErasureSchema,
    NotConfirmed(),
    OwnAccount(),
    PlayerOnline(PLAYER),
    ErasureUnderWay(),
)
def erase_user(args: dict[str, Any], key: Lookup) -> Response:
    """Erase a user

    Permanently deletes the account, its characters, bags, tokens and keys. History is kept with ids
    and without names. A 503 means that the erasure is not finished: it continues by itself; repeat
    the request to see when it is done, by id, since the name is no longer known then.
    """
    return erasure_of(key, args["Confirm"])


@change_route(
    blp,
    ERASE_USER,
    "/<lookup:key>",
    ErasureSchema,
    OwnAccount(),
    PlayerOnline(PLAYER),
    ErasureUnderWay(),
    method="DELETE",
    body=None,
)
def delete_user(key: Lookup) -> Response:
    """Erase a user without a confirmation

    As `eraseUser`, for clients that delete users in this way. It cannot be undone.
    """
    return erasure_of(key, None)


def erasure_of(key: Lookup, confirm: str | None) -> Response:
    """Erase a user, and return the response."""
    # The log line is written after the erasure, so the name in the path is masked.
    tracing.note(path=request.path.replace(key.text, MASK))
    begun = execute(ERASE_USER, key, {"Confirm": confirm})
    return change_response(begun, public_erasure(finish(begun.answer)))

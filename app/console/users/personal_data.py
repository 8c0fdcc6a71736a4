"""Personal data of a user: a file with all of it."""

from __future__ import annotations

from flask import Response, request

from app.auth import guard
from app.auth.roles import Role
from app.console.frame.pages import HEADERS, blp, required
from app.http.context import current
from app.http.intents import reading_intent
from app.http.json import CONTENT_TYPE
from app.http.uploads import Pieces, download
from app.naming import Lookup, parse_guid
from app.privacy.operations import EXPORT_PERSONAL_DATA
from app.privacy.personal_data import PersonalData
from app.users.store import Users

personal_data = current(PersonalData)
users = current(Users)


@blp.get("/users/<lookup:key>/personal-data")
@required(Role.USERS_QUERY, Role.USERS_MANAGE)
def download_personal_data(key: Lookup) -> Response:
    """Send all that is stored about a person, piece by piece, as a file to keep."""
    # The file name does not tell whose it is.
    id_ = parse_guid(str(users.get(key, "_id")["_id"])) or "user"
    disposition = f'attachment; filename="personal-data-{id_}.json"'

    def begin() -> Pieces:
        is_read = request.method != "HEAD"  # Flask routes HEAD to GET views
        meant = reading_intent(EXPORT_PERSONAL_DATA, "console")
        pieces = personal_data.write(key, meant)[1] if is_read else iter(())
        return pieces, {**HEADERS, "Content-Disposition": disposition}

    return download(begin, guard.caller().id, content_type=CONTENT_TYPE)

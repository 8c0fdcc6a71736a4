"""Personal data of a user: a file with all of it, and the form that erases the person."""

from __future__ import annotations

from flask import Response, request

from app.auth import guard
from app.console.forms.forms import Form, attempt
from app.console.frame.pages import HEADERS, blp, path_to, see_other
from app.console.users.views import manage, user_page
from app.http import tracing
from app.http.context import current
from app.http.intents import intent, reading_intent
from app.http.json import CONTENT_TYPE
from app.http.masking import MASK
from app.http.uploads import Pieces, download
from app.naming import Lookup, parse_guid
from app.privacy.domain import ErasureUnderWay
from app.privacy.erasing import erase
from app.privacy.operations import ERASE_USER, EXPORT_PERSONAL_DATA
from app.privacy.personal_data import PersonalData
from app.privacy.schemas import EraseArgs
from app.privacy.store import Erasures
from app.types import Document
from app.users.store import Users

erasures = current(Erasures)
personal_data = current(PersonalData)
users = current(Users)


@blp.get("/users/<lookup:key>/personal-data")
@manage
def download_personal_data(key: Lookup) -> Response:
    """Send all that is stored about a person, piece by piece, as a file to keep."""
    # Of the name of the person, a file name tells nothing.
    id_ = parse_guid(str(users.get(key, "_id")["_id"])) or "user"
    disposition = f'attachment; filename="personal-data-{id_}.json"'

    def begin() -> Pieces:
        is_read = request.method != "HEAD"  # Flask routes HEAD to GET views
        meant = reading_intent(EXPORT_PERSONAL_DATA, "console")
        pieces = personal_data.write(key, meant)[1] if is_read else iter(())
        return pieces, {**HEADERS, "Content-Disposition": disposition}

    return download(begin, guard.caller().id, content_type=CONTENT_TYPE)


@blp.post("/users/<lookup:key>/erase")
@manage
def erase_user(key: Lookup) -> Response:
    form = Form.posted("erase")
    # This line of the log is written when the person has been erased.
    tracing.note(path=request.path.replace(key.text, MASK))

    def act() -> Document:
        return erase(key, form.load(EraseArgs())["Confirm"].strip(), intent(ERASE_USER))

    record = attempt(form, act)
    if isinstance(form.error, ErasureUnderWay):
        record = erasures.find(key.id, key.text)
    if record is None:
        return user_page(key, "account", form)
    return see_other(path_to("users", record["_id"], "history"))

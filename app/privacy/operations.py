"""Reading all that is stored about a person, and erasing it."""

from __future__ import annotations

from app.auth.permissions import Permission
from app.privacy.domain import ERASE, EXPORT
from app.privacy.schemas import EraseArgs
from app.users.operations import account_operation

EXPORT_PERSONAL_DATA = account_operation(
    EXPORT,
    made_by="app/privacy/personal_data, because it only reads",
    inverse="what was handed out is known",
    sentence="Personal data exported",
    needs=(Permission.USERS_FIND, Permission.PRIVACY_EXPORT),
)
ERASE_USER = account_operation(
    ERASE,
    made_by="app/privacy/erasing, because it changes many documents",
    inverse="a person who was erased stays so",
    sentence="Account erased",
    arguments=EraseArgs(),
    needs=(Permission.USERS_FIND, Permission.PRIVACY_ERASE),
)

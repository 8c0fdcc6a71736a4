"""Reading all that is stored about a person, and erasing it."""

from __future__ import annotations

from app.core.permissions import Permission
from app.privacy.domain import ERASE, EXPORT, OwnAccount
from app.privacy.erasing import begin, preview_erasure, refuse_limits
from app.privacy.schemas import EraseArgs
from app.users.operations import account_operation

EXPORT_PERSONAL_DATA = account_operation(
    EXPORT,
    no_undo="what was handed out is known",
    sentence="Personal data exported",
    needs=(Permission.USERS_FIND, Permission.PRIVACY_EXPORT),
)
ERASE_USER = account_operation(
    ERASE,
    no_undo="a person who was erased stays so",
    sentence="Account erased",
    arguments=EraseArgs(),
    needs=(Permission.USERS_FIND, Permission.PRIVACY_ERASE),
    approval="erasures",
    title="Erase the person",
    requires=(refuse_limits,),
    run=begin,
    preview=preview_erasure,
    own_account=OwnAccount,
)

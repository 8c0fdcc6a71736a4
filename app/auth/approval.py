"""What always needs the approval of a second person, as the setting QM_APPROVAL names it."""

from __future__ import annotations

from app.core.errors import Forbidden
from app.http.context import setting

NAMES = {
    "batches": "batches of more than {most:,} rows",
    "erasures": "erasures",
    "roles": "changes of roles",
}


class NeedsApproval(Forbidden):
    """A rule of the settings wants two people for a change."""

    sentence = "Here, {what} need two people (QM_APPROVAL). You can ask a colleague to approve it."


def require_no_approval(name: str, count: int = 1) -> None:
    """Raise NeedsApproval if the settings want a second person for this."""
    for rule in setting("APPROVAL"):
        named, _, most = rule.replace(" ", "").partition(">")
        if named == name and count > int(most or 0):
            raise NeedsApproval(NAMES[name].format(most=int(most or 0)))

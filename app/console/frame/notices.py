"""The notice on a page about the result of the form before it."""

from __future__ import annotations

from datetime import timedelta

from flask import request

from app.auth import guard
from app.console.game.actions import MARK, cards
from app.console.history import sentences
from app.console.history.tables import is_undoable
from app.console.stores import history, objects, users
from app.errors import QuartermasterError
from app.game.actions.access import visible_action
from app.history.access import visible_entry
from app.http.context import current
from app.oauth.operations import REVOKE_TOKENS
from app.staff.operations import CREATE_ROLE, INVITE
from app.types import Document
from app.users.mail import Mailer
from app.users.operations import MAIL_RESET_CODE

# How long a page shows the notice of a form.
NEWS = timedelta(minutes=10)
NOTHING = "Nothing changed."
NEWS_WITHOUT_ENTRY = {
    "nothing": NOTHING,
    "ended": "The sign-in was ended.",
    "revoked": "The key was revoked.",
    "recovery-code": "You signed in with a recovery code. It does not work again.",
    "factor-off": "Your second factor is switched off.",
    "factor-reset": "The second factor was reset. No mail could be sent: tell the person yourself.",
    "asked": "Colleagues who may approve it see your request.",
    "approved": "Approved: the batch can be run by the person who asked.",
    "made": "Approved: the change is made.",
    "declined": "The request was declined.",
    "withdrawn": "The request was withdrawn.",
    "cancelled": "The batch was cancelled.",
    "batch-runs": "The batch was started.",
    "paused": "The batch is paused.",
    "batch-done": "The batch is done.",
    "batch-refused": "All rows were refused: nothing was done.",
}
# Operations whose entries contain no changes.
WITHOUT_CHANGES = tuple(operation.name for operation in (REVOKE_TOKENS, INVITE, CREATE_ROLE))

MAILED = (INVITE.name, MAIL_RESET_CODE.name)

mailer = current(Mailer)


def current_notice() -> Document | None:
    """Return the notice of the form before this page, which the query names."""
    mark = request.args.get("done", "")
    if mark in NEWS_WITHOUT_ENTRY:
        return notice(NEWS_WITHOUT_ENTRY[mark])
    try:
        return (
            action_notice(mark) if mark.startswith(MARK) else entry_notice(mark) if mark else None
        )
    except QuartermasterError:
        return None


def notice(text: str, undo: str | None = None, action: str | None = None) -> Document:
    """Return a notice; action is the id of an action that the game has not answered yet."""
    return {"Text": text, "Undo": undo, "Action": action}


def action_notice(mark: str) -> Document | None:
    (action,) = cards([visible_action(mark.removeprefix(MARK))])
    pending = action["Id"] if action["IsPending"] else None
    return notice(action["News"], action=pending) if is_news(action) else None


def entry_notice(entry_id: str) -> Document | None:
    entry = visible_entry(entry_id)
    if not is_news(entry):
        return None
    if not entry["Changes"] and entry["Operation"] not in WITHOUT_CHANGES:
        return notice(NOTHING)
    text = sentences.notice(entry, objects.names_of(sentences.ids_in([entry])))
    if entry["Operation"] in MAILED and mailer.outbox:
        text += f" No mail server is configured: the mail is a file in {mailer.outbox}."
    (served,) = history.serve([entry])
    return notice(text, undo=entry_id if is_undoable(served) else None)


def is_news(record: Document) -> bool:
    """Tell whether the caller has just made a change: the URL may be old, or somebody else's."""
    is_own = record["By"].get("UserId") == guard.caller().id
    return is_own and users.now() - record["At"] <= NEWS

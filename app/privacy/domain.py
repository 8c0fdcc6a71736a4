"""What an erasure leaves of a person: ids, and no text that identifies anybody. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from app.auth.api_keys import keys_of
from app.core.changes import ABSENT, Change
from app.core.errors import Conflict, InvalidField, Unavailable
from app.core.former_names import former_emails, former_names
from app.core.naming import compose, parse_guid
from app.core.operations import all_operations
from app.core.penalties import BAN, MUTE
from app.core.types import Document, whole
from app.storage.search_fields import history_document
from app.storage.update_from_difference import value_at
from app.users.domain import LARGEST_COUNT, NO_POWER

ERASED = "(erased)"
WHY_HISTORY_STAYS = (
    "Changes of items and accounts must stay traceable. Only ids of the person remain."
)
WHY_RECORDS_STAY = "The ids, so that a restored backup does not bring the person back."
BLANKS = r"\s+"
ERASE = "erase"
EXPORT = "export-personal-data"
# The fields of an account that closing it reads and changes.
CLOSED_FIELDS = (
    *("Power", "PasswordHash", "PasswordVersion", "Reset", "Keys", "KeyDigests"),
    *("Invitation", "SecondFactor", "OpenId", "Roles", "GroupRoles"),
)
ERASED_AT = "ErasedAt"
# The arguments of operations whose values are constants of this program.
PROGRAM_WORDS = ("Role", "Scopes")
SIDES = ("Before", "After")
# The fields of an account, and of the changes in its history, that contain texts of staff.
QUOTED = (*BAN, *MUTE)
# The free texts in actions, and in batches and their rows beside the values of arguments.
ACTION_TEXTS = ("Reason", "Error", "Arguments.Message", "Arguments.Target", "Result")
BATCH_TEXTS = ("Name", "Reason", "Undo", "Player", "Why", "Sent")
APPROVAL_TEXTS = ("Reason", "Why", "Arguments")


class NotConfirmed(InvalidField):
    """The name that confirms an erasure does not match."""

    def __init__(self) -> None:
        super().__init__("Confirm", "Must be the username of the account that is to be erased.")


class OwnAccount(Conflict):
    """Nobody can erase their own account: it is needed to finish the erasure."""

    sentence = "Nobody can erase their own account: ask a colleague."


class ErasureUnderWay(Unavailable):
    """The erasure takes longer than one request; it continues in the background."""

    sentence = (
        "The erasure has started and is not finished. It continues by itself; repeat the request "
        "to see when it is done."
    )
    retry_after = 1


def close(user: Document, *, now: datetime) -> Change:
    """Close an account for good; the answer contains the number of its keys."""
    if ERASED_AT in user:
        return Change({}, {"Keys": 0})
    # An account created by a game may lack fields.
    power = user.get("Power")
    power = power if isinstance(power, dict) else {}
    fields: Document = {
        "Power": {**power, **NO_POWER},
        "PasswordHash": None,
        "PasswordVersion": _next_count(user.get("PasswordVersion")),
        "Reset": None,
        "Keys": {},
        "KeyDigests": [],
        **{name: None for name in ("Invitation", "SecondFactor", "OpenId") if user.get(name)},
        **{name: [] for name in ("Roles", "GroupRoles") if user.get(name)},
        ERASED_AT: now,
    }
    return Change(fields, {"Keys": len(list(keys_of(user)))})


def note_export(user: Document) -> Change:
    """Change nothing, but add an entry: somebody is about to read all data about a person."""
    return Change({}, None, is_noted=True)


def _next_count(value: Any) -> int:
    count = whole(value) or 0
    return count + 1 if 0 <= count < LARGEST_COUNT else 1


def texts_naming(user: Document, characters: Iterable[Document], others: Iterable[Any]) -> set[str]:
    """Return the texts that identify a person: all names and addresses so far, and others."""
    holders = [user, *characters]
    names = [holder.get("Name") for holder in holders]
    former = [name for holder in holders for name in former_names(holder)]
    texts = (*names, *former, *others, user.get("Email"), *former_emails(user))
    return {text for text in texts if isinstance(text, str) and text}


def notes_without(document: Document, path: str, user_id: str, texts: Collection[str]) -> Document:
    """Return the notes at a path with the erased author and mentions masked; empty: no change."""
    notes = value_at(document, path)
    if not isinstance(notes, dict):
        return {}
    new = {id_: _note_without(note, user_id, texts) for id_, note in notes.items()}
    return {path: new} if new != notes else {}


def _note_without(note: Any, user_id: str, texts: Collection[str]) -> Any:
    if not isinstance(note, dict):
        return note
    new = {**note, "Text": _mask_within(note["Text"], texts)} if "Text" in note else note
    return {**new, "Name": ERASED} if note.get("UserId") == user_id else new


def texts_without(document: Document, paths: Iterable[str], texts: Collection[str]) -> Document:
    """Return the new values by path after masking mentions in a document; empty: no change."""
    before = {path: value_at(document, path) for path in paths}
    after = {path: _mask_within(value, texts) for path, value in before.items()}
    return {path: value for path, value in after.items() if value != before[path]}


def batch_without(document: Document, texts: Collection[str]) -> Document:
    """Return the new values by path after masking mentions in a batch or in one of its rows."""
    # An argument is whatever a client sent as an id, or as the name of an object.
    arguments = [f"Arguments.{name}" for name in document.get("Arguments", ())]
    return texts_without(document, [*BATCH_TEXTS, *arguments], texts)


def anonymous(entry: Document) -> Document:
    """Return an entry about an erased person: ids, numbers and times stay, but no text."""
    # The reason of an erasure belongs to the operator, and names in it are masked; its key, from a
    # form or an approval, recognises the same request.
    is_erasure = entry["Operation"] == ERASE
    arguments = {
        name: value if name in PROGRAM_WORDS else _without_text(value)
        for name, value in entry["Arguments"].items()
    }
    changes = [
        {**change, **{side: _without_text(change[side]) for side in SIDES}}
        for change in entry["Changes"]
    ]
    stripped = {
        **entry,
        "Subject": {**entry["Subject"], "Name": None},
        "Reason": entry["Reason"] if is_erasure else None,
        "Arguments": arguments,
        "RequestId": None,
        "Changes": changes,
        "IsErased": True,
    }
    return _refile(stripped if is_erasure else _without_key(stripped))


def without_author(entry: Document) -> Document:
    """Return an entry by an erased person: only the id of the author stays."""
    by = {**entry["By"], "Name": None}
    by.pop("Key", None)
    return _refile(_without_key({**entry, "By": by, "RequestId": None}))


def without_approver(entry: Document) -> Document:
    """Return an entry that an erased person approved: only the id of that person stays."""
    return {**entry, "ApprovedBy": {**entry["ApprovedBy"], "Name": None}}


def without_members(guild: Document, ids: Collection[str]) -> Document:
    """Return the members of a guild without these players."""
    members = guild["Members"]
    if not isinstance(members, list):
        return {}
    kept = [m for m in members if not (isinstance(m, dict) and m.get("PlayerId") in ids)]
    return {"Members": kept}


def changed(old: Document, new: Document) -> Document:
    """Return what is new in a document, by field; ABSENT if a field is gone."""
    gone = {name: ABSENT for name in old if name not in new}
    return gone | {name: value for name, value in new.items() if old.get(name) != value}


def _without_key(entry: Document) -> Document:
    """Return an entry without its Idempotency-Key: the request can no longer be repeated."""
    hidden = ("IdempotencyKey", "Fingerprint", "Answer")
    return {name: value for name, value in entry.items() if name not in hidden}


def quoting_operations() -> list[str]:
    """Return the operations whose entries quote texts of staff."""
    return [operation.name for operation in all_operations() if operation.quotes_staff]


def without_mentions(entry: Document, texts: Collection[str]) -> Document:
    """Return an entry with these names masked in its texts; ids and paths stay."""
    new = {**entry, "Reason": _mask_within(entry["Reason"], texts)}
    if entry["Operation"] in quoting_operations():
        if moderator := entry["Arguments"].get("Moderator"):
            masked = _mask_within(moderator, texts)
            new["Arguments"] = {**entry["Arguments"], "Moderator": masked}
        new["Changes"] = [
            {**change, **{side: _mask_within(change[side], texts) for side in SIDES}}
            if change["Path"] in QUOTED
            else change
            for change in entry["Changes"]
        ]
    return _refile(new)


def _mask_within(value: Any, texts: Collection[str]) -> Any:
    if isinstance(value, str):
        return mask(value, texts)
    if isinstance(value, dict):
        return _mask_map(value, texts)
    if isinstance(value, list):
        return [_mask_within(inner, texts) for inner in value]
    return value


def _mask_map(value: Document, texts: Collection[str]) -> Document:
    """Mask the values and the keys of a map; masked keys stay distinct."""
    new: Document = {}
    for name, inner in value.items():
        key = free = mask(name, texts)
        while free in new or (free != name and free in value):
            free = f"{key} {len(new) + 1}"
        new[free] = _mask_within(inner, texts)
    return new


def mask(text: str, names: Collection[str]) -> str:
    """Return a text with names and addresses masked, where they are whole words."""
    # The longest first: an address may contain a name.
    for name in sorted(filter(None, names), key=len, reverse=True):
        parts = map(re.escape, compose(name).split())
        pattern = rf"(?<![^\W_]){BLANKS.join(parts)}(?![^\W_])"
        found = re.sub(pattern, ERASED, compose(text), flags=re.IGNORECASE)
        # A text without names stays exactly as it was written.
        text = found if ERASED in found else text
    return text


def _without_text(value: Any) -> Any:
    """Return a value without texts other than ids."""
    if isinstance(value, str):
        return value if parse_guid(value) else None
    if isinstance(value, dict):
        return {name: _without_text(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_text(inner) for inner in value]
    return value


def _refile(entry: Document) -> Document:
    """Return an entry with its search fields computed again."""
    kept = {name: value for name, value in entry.items() if name != "Words"}
    return history_document(kept, None)


def public_erasure(record: Document) -> Document:
    """Return the public form of an erasure: what was deleted, what stayed, and why."""
    counts = record.get("Counts", {})
    return {
        "Id": record["_id"],
        "BegunAt": record["BegunAt"],
        "FinishedAt": record.get("FinishedAt"),
        "Gone": {
            "Players": len(record.get("Players", ())),
            "Bags": len(record.get("Bags", ())),
            "SignIns": counts.get("Tokens", 0),
            "Keys": counts.get("Keys", 0),
        },
        "Stayed": [
            {"What": "history", "Count": counts.get("Entries", 0), "Why": WHY_HISTORY_STAYS},
            {"What": "erasures", "Count": 1, "Why": WHY_RECORDS_STAY},
        ],
    }

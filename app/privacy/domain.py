"""What an erasure leaves of a person: ids, and no text that identifies anybody. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from app.auth.api_keys import keys_of
from app.core.changes import Change
from app.core.errors import Conflict, InvalidField, Unavailable
from app.core.naming import compose, email_spellings, name_key, parse_guid
from app.core.penalties import BAN, MUTE
from app.core.types import Document
from app.storage.search_fields import ROW_TEXTS, history_document, row_words

ERASED = "(erased)"
ERASE = "erase"
EXPORT = "export-personal-data"
ERASED_AT = "ErasedAt"
# What names an account or a character.
NAMED_BY = ("Name", "FormerNames", "Email", "FormerEmails")
# The arguments of operations whose values are constants of this program.
PROGRAM_WORDS = ("Role", "Scopes")
# The fields of an account, and of the changes in its history, that contain texts of staff.
QUOTED = (*BAN, *MUTE)
# What recognises a repeated request; and the words of its reason, which are found again.
OF_REQUEST = ("RequestKey", "IdempotencyKey", "Fingerprint", "Answer", "Words")
# Keys that the service itself gives rows of batches, approved requests and letters, so that they
# are carried out once: they name nobody.
SERVICE_KEYS = ("batch ", "approval ", "✉")
# A letter with its accents: both are composed, and folded, together.
LETTER = re.compile("(?s:.)[\u0300-\u036f]*")


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


def count_keys(user: Document) -> int:
    return len(keys_of(user))


def note_export(user: Document) -> Change:
    """Change nothing, but add an entry: somebody is about to read all data about a person."""
    return Change({}, None, is_noted=True)


def texts_naming(holders: Iterable[Document]) -> set[str]:
    """Return what identifies a person in texts: all names and addresses so far."""
    found: list[str] = []
    for holder in holders:
        with_texts([holder.get(name) for name in NAMED_BY], found.append)
    return {spelled for text in found for spelled in email_spellings(text)}


class Person(NamedTuple):
    """The id of an account, those of all that belonged to it, and the texts that identify it."""

    id: str
    ids: Sequence[str]
    texts: Sequence[str]
    # Finds the texts.
    names: re.Pattern[str]


def pattern_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Return what finds names and addresses in the key of a text, as whole words."""
    # The longest first: an address may contain a name.
    keys = sorted(map(name_key, texts), key=len, reverse=True)
    names = [r"\s+".join(map(re.escape, key.split())) for key in keys if key.strip()]
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(names) or '(?!)'})(?![^\W_])")


def mask(text: str, names: re.Pattern[str]) -> str:
    """Return a text with names masked, compared as the service compares names."""
    # A text without names stays exactly as it was written. An id is not a name.
    if parse_guid(text) or not names.search(name_key(text)):
        return text
    letters = LETTER.findall(compose(text))
    # The key of a letter may be longer, such as ss for ß: the number of the letter for each place.
    keys = [name_key(letter) for letter in letters]
    numbers = [number for number, key in enumerate(keys) for _ in key]
    for found in reversed([*names.finditer("".join(keys))]):
        letters[numbers[found.start()] : numbers[found.end() - 1] + 1] = [ERASED]
    return "".join(letters)


def with_texts(
    value: Any, change: Callable[[str], Any], change_key: Callable[[str], str] = str
) -> Any:
    """Return a value with something else in place of each text, and of each key of its maps."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change_key(k): with_texts(v, change, change_key) for k, v in value.items()}
    if isinstance(value, list):
        return [with_texts(inner, change, change_key) for inner in value]
    return value


# The rules of traces.py: each returns what a document becomes.


def texts_without(document: Any, person: Person, paths: Iterable[str]) -> Any:
    """Mask the names in the texts at these paths."""
    hide = partial(mask, names=person.names)
    for path in paths:
        name, _, inner = path.partition(".")
        if isinstance(document, dict) and name in document:
            old = document[name]
            new = texts_without(old, person, [inner]) if inner else with_texts(old, hide, hide)
            document = {**document, name: new}
    return document


def row_without(row: Document, person: Person) -> Document:
    """Mask the names in a row of a batch, and in the words by which it was found."""
    new = texts_without(row, person, ROW_TEXTS)
    return {**new, **row_words(new)}


def without_members(guild: Document, person: Person) -> Document:
    """Leave the other members of a guild."""
    members = guild["Members"]
    if not isinstance(members, list):
        return guild
    kept = [m for m in members if not (isinstance(m, dict) and m.get("PlayerId") in person.ids)]
    return {**guild, "Members": kept}


def without_role(document: Document, _: Person, role: str) -> Document:
    """Leave only the id of the person in a role, such as the author's."""
    by = {name: value for name, value in document[role].items() if name != "Key"}
    new = {**document, role: {**by, "Name": None}}
    return _without_request(new) if role == "By" else new


def _without_request(document: Document) -> Document:
    """Forget the request: it can no longer be repeated, unless the service itself makes it."""
    own = str(document.get("IdempotencyKey")).startswith(SERVICE_KEYS)
    gone = {*OF_REQUEST} - ({"IdempotencyKey", "Fingerprint"} if own else set())
    kept = {name: value for name, value in document.items() if name not in gone}
    return {**kept, "RequestId": None} if "RequestId" in kept else kept


def entry_without(entry: Document, person: Person) -> Document:
    """Leave ids, numbers and times of an entry about or by the person, and mask names in others."""
    new = texts_without(entry, person, ("Reason", "Arguments.Moderator"))
    for role in ("By", "ApprovedBy"):
        if entry.get(role, {}).get("UserId") == person.id:
            new = without_role(new, person, role)
    if entry["Subject"]["Id"] in person.ids:
        new = _without_request(new)
        new["Subject"] = {**entry["Subject"], "Name": None}
        # The reason of an erasure belongs to the operator.
        new["Reason"] = new["Reason"] if entry["Operation"] == ERASE else None
        new["Arguments"] = {
            name: value if name in PROGRAM_WORDS else with_texts(value, parse_guid)
            for name, value in entry["Arguments"].items()
        }
        new["Changes"] = [
            {**with_texts(change, parse_guid), "Path": change["Path"]}
            for change in entry["Changes"]
        ]
        new["IsErased"] = True
    else:
        new["Changes"] = [
            texts_without(change, person, ("Before", "After"))
            if change["Path"] in QUOTED
            else change
            for change in entry["Changes"]
        ]
    return history_document(new, None)


def public_erasure(record: Document) -> Document:
    """Return the public form of an erasure: what was deleted, what stayed, and why."""
    counts = {"Tokens": 0, "Keys": 0, "Entries": 0, **record.get("Counts", {})}
    history = "Changes of items and accounts must stay traceable. Only ids of the person remain."
    erasures = "The ids, so that a restored backup does not bring the person back."
    return {
        "Id": record["_id"],
        "BegunAt": record["BegunAt"],
        "FinishedAt": record["FinishedAt"],
        "Gone": {
            "Players": len(record["Players"]),
            "Bags": len(record["Bags"]),
            "SignIns": counts["Tokens"],
            "Keys": counts["Keys"],
        },
        "Stayed": [
            {"What": "history", "Count": counts["Entries"], "Why": history},
            {"What": "erasures", "Count": 1, "Why": erasures},
        ],
    }

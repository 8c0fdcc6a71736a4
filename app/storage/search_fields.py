"""The fields by which the filters of history find an entry. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

from app.core.naming import name_key, parse_guid
from app.core.operations import object_arguments, object_fields
from app.core.types import Document

# All of a reason, so that an erasure finds every name in it.
MOST_WORDS = 250
# The fields of a row of a batch that contain what was sent.
ROW_TEXTS = ("Player", "Why", "Arguments", "Sent")
_WORD = re.compile(r"\w+")


def history_document(entry: Document, kept: timedelta | None) -> Document:
    """Return an entry as history stores it: with search fields and an expiry."""
    derived: Document = {
        "Authors": list(_authors(entry["By"])),
        "Objects": sorted(set(_objects(entry))),
    }
    # Entries without a reason, which are most, stay out of the index of words.
    if entry["Reason"]:
        derived["Words"] = words(entry["Reason"])
    if kept:
        derived["ExpiresAt"] = entry["At"] + kept
    return {**entry, **derived}


def words(text: str) -> list[str]:
    """Return the words of a text in the form that the filter compares."""
    return list(dict.fromkeys(_WORD.findall(name_key(text))))[:MOST_WORDS]


def row_words(row: Document) -> Document:
    """Return the words by which an erasure finds a row of a batch whose player is unknown.

    Only such a row may name somebody else: what was sent is repeated in Why in quotation marks.
    """
    if row["Subject"]:
        return {}
    quoted = (row["Why"] or "").partition("'")[2]
    given = [*row["Arguments"].values(), *row.get("Sent", {}).values()]
    texts = [text for text in (row["Player"], quoted, *given) if isinstance(text, str)]
    # A name may have no words.
    return {"Words": sorted({w for text in texts for w in words(text) or [name_key(text)]})}


def _authors(by: Document) -> Iterator[str]:
    if isinstance(by.get("UserId"), str):
        yield by["UserId"]
    if isinstance(by.get("Name"), str):
        yield name_key(by["Name"])


def _objects(entry: Document) -> Iterator[str]:
    """Yield the ids of items, spells, variables and objects in the arguments and the changes."""
    arguments = entry["Arguments"]
    if entry["Subject"]["Kind"] == "object":
        yield entry["Subject"]["Id"]
    for name in object_arguments():
        if isinstance(arguments.get(name), str):
            yield arguments[name]
    for change in entry["Changes"]:
        field, _, place = change["Path"].partition(".")
        values = (change["Before"], change["After"])
        if field in object_fields():
            texts = (text for text in (place, *values) if isinstance(text, str))
            yield from filter(parse_guid, texts)
        slots = (value.get("ItemId") for value in values if isinstance(value, dict))
        yield from (item for item in slots if isinstance(item, str))

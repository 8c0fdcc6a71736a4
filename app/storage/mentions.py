"""Finds the names of erased people in texts by digests, without storing the names. Pure.

A name is found where masking would replace it: as whole words, in any case, with any blanks. The
shape of a name is its number of words, and the number of characters before the first word and after
the last. So only parts of a text with such a shape have to be digested.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from app.moderation.penalties import BAN, MUTE
from app.naming import compose, name_key
from app.types import Document

# The fields of an account, and of the changes in its history, that contain texts of staff.
QUOTED = (*BAN, *MUTE)
# A word of a name: for masking, any character other than a letter or a digit ends a word.
_WORD = re.compile(r"[^\W_]+")

Shape = tuple[int, int, int]


def shape_of(name: str) -> Shape | None:
    """Return the shape of a name; None if it has no word by which to find it."""
    text = _with_single_blanks(name)
    found = list(_WORD.finditer(text))
    return (len(found), found[0].start(), len(text) - found[-1].end()) if found else None


def digest_of(name: str) -> str:
    """Return the digest by which a name is found in a text."""
    text = f"quartermaster mention {name_key(_with_single_blanks(name))}"
    return hashlib.sha256(text.encode()).hexdigest()


def find_names(values: Iterable[Any], records: Sequence[Document]) -> dict[str, list[str]]:
    """Return the names in these texts, by the id of the erasure that they belong to."""
    shapes = {tuple(shape) for record in records for shape in record["NameShapes"]}
    texts = {text for value in values for text in _texts_within(value)}
    parts = {digest_of(part): part for text in texts for part in _parts(text, shapes)}
    named = {
        record["_id"]: [parts[digest] for digest in record["NameDigests"] if digest in parts]
        for record in records
    }
    return {id_: names for id_, names in named.items() if names}


def entry_texts(entry: Document) -> Iterator[Any]:
    """Yield the free texts in a history entry."""
    yield entry["Reason"]
    yield entry["Arguments"].get("Moderator")
    for change in entry["Changes"]:
        if change["Path"] in QUOTED:
            yield from (change["Before"], change["After"])


def document_texts(document: Document) -> Iterator[Any]:
    """Yield the texts of staff in a player or an account: notes, bans and mutes."""
    notes = document.get("Notes")
    for note in notes.values() if isinstance(notes, dict) else ():
        yield note.get("Text") if isinstance(note, dict) else None
    yield from (document.get(name) for name in QUOTED)


def _with_single_blanks(text: str) -> str:
    return " ".join(compose(text).split())


def _parts(text: str, shapes: Iterable[Shape]) -> Iterator[str]:
    text = _with_single_blanks(text)
    found = list(_WORD.finditer(text))
    for count, before, after in shapes:
        for first, last in zip(found, found[count - 1 :], strict=False):
            begin, end = first.start() - before, last.end() + after
            if begin >= 0 and end <= len(text):
                yield text[begin:end]


def _texts_within(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts_within(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_within(inner)

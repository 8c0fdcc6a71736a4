"""Texts for people: the sentences of operations, filled in, and values of documents. Pure."""

from __future__ import annotations

import json
import re
import string
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

Names = Mapping[str, str]

SHORT_ID = 8
SHORT_TEXT = 80


def name_of(id_: Any, names: Names) -> str:
    """Return the name of a catalogue object; the beginning of its id if it has no name."""
    name = names.get(str(id_))
    return str(name) if name else f"{str(id_)[:SHORT_ID]}…"


class Sentences(string.Formatter):
    """Fills in the sentences of operations."""

    def format_field(self, value: Any, spec: str) -> str:
        """Format a value for pages; a spec makes it a number of days, or is itself the text."""
        if value is None:
            return ""
        if spec == "days":
            return "a day" if value == 1 else f"{value} days"
        if spec:
            return spec if value else ""
        return value if isinstance(value, str) else short_text(value)


def sentence(template: str, **values: Any) -> str:
    """Return the sentence of an operation with these values.

    A missing one, as after an erasure, is left out.
    """
    filled = Sentences().vformat(template, (), defaultdict(lambda: None, values))
    return " ".join(filled.split())


def short_text(value: Any) -> str:
    """Return a value of a document as a short text."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:,}"
    text = whole_text(value)
    return text if len(text) <= SHORT_TEXT else f"{text[: SHORT_TEXT - 1]}…"


def whole_text(value: Any) -> str:
    """Return a value of a document, which may have any BSON type, as text.

    A list or an object is JSON.
    """
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value) or "nothing"
    if value is None or isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, default=whole_text, ensure_ascii=False)
    return str(value)


def words_of(name: str) -> str:
    """Return a name in code as words: Bank overflow of BankOverflow, Give back of give-back."""
    return re.sub("(?<=[a-z])(?=[A-Z])|-", " ", name).removesuffix(" Id").capitalize()


def count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

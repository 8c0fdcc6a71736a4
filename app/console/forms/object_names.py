"""Finds catalogue objects that are typed into a form by id or by name."""

from __future__ import annotations

from app.catalogue.store import objects
from app.core.errors import Invalid
from app.core.naming import SEARCH_LENGTH, name_key, parse_guid

MOST_CHOICES = 12


class Ambiguous(Invalid):
    """A name that matches no object, or several objects, of the catalogue."""

    def __init__(
        self, field: str, fault: str, choices: dict[str, str], is_shared: bool = False
    ) -> None:
        super().__init__(fault, {field: [fault]})
        self.choices = choices
        self.is_shared = is_shared


def plain(text: str) -> str:
    """Return a text without control characters and surrounding blanks."""
    return "".join(filter(str.isprintable, text)).strip()


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def resolve(field: str, type_: str, typed_text: str) -> str:
    """Return the id of an object by its id or name, or raise Ambiguous with the candidates."""
    text = plain(typed_text)
    if guid := parse_guid(text):
        return guid
    named = objects.find_by_name(type_, text, MOST_CHOICES)
    if len(named) == 1:
        return next(iter(named))
    if named:
        choices = {id_: f"{name} ({id_[:8]}…)" for id_, name in named.items()}
        fault = f"Several objects have that name: choose one {type_}."
        raise Ambiguous(field, fault, choices, is_shared=True)
    choices = suggestions(type_, text)
    fault = "No object in the catalogue has that name."
    if choices:
        fault = "No object has exactly that name. Did you mean one of these?"
    raise Ambiguous(field, fault, choices)


def suggestions(type_: str, text: str) -> dict[str, str]:
    """Return the names of some objects whose name contains a text, by id."""
    key = name_key(plain(text))
    if len(key) < SEARCH_LENGTH:
        return {}
    return objects.names(type_, key, MOST_CHOICES)

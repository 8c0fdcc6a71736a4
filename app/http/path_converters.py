"""Converters for lookup keys in paths: ``<lookup:key>`` is an id or a name."""

from __future__ import annotations

from typing import Any

from werkzeug.routing import BaseConverter

from app.core.errors import Invalid
from app.core.naming import NIL, Lookup, parse_guid


class LookupConverter(BaseConverter):
    def to_python(self, value: str) -> Lookup:
        return Lookup.parse(value)

    def to_url(self, value: Any) -> str:
        return super().to_url(str(value))


class PlayerConverter(LookupConverter):
    """The key of a player; rank, online and bag are separate paths, not names."""

    regex = r"(?!(?:rank|online|bag)\Z)[^/]+"
    # Werkzeug derives this from the regex, but wrongly here: a trailing slash would be a 404.
    part_isolating = True


class ObjectTypeConverter(BaseConverter):
    """An object type; time is a separate path, not a type."""

    regex = r"(?!time\Z)[^/]+"
    part_isolating = True


class GuidConverter(BaseConverter):
    """A guid, where another path begins in the same way."""

    regex = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
    part_isolating = True


def path_guid(name: str, text: str, *, nil: bool = True) -> str:
    """Return the guid in a path segment, or raise Invalid with the name of that segment."""
    guid = parse_guid(text)
    if guid is None:
        raise Invalid(f"The {name} '{text}' must be a guid.", {name: ["Must be a guid."]})
    if guid == NIL and not nil:
        fault = "must not be the all-zero guid."
        raise Invalid(f"The {name} {fault}", {name: [fault.capitalize()]})
    return guid


CONVERTERS = {
    "lookup": LookupConverter,
    "player": PlayerConverter,
    "object_type": ObjectTypeConverter,
    "guid": GuidConverter,
}

"""The arguments of paths, and their converters: ``<lookup:key>`` is an id or a name."""

from __future__ import annotations

from typing import Any, NamedTuple

from werkzeug.routing import BaseConverter

from app.core.errors import Invalid, NotFound
from app.core.naming import NIL, Lookup, parse_guid
from app.http import examples


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


class PathArgument(NamedTuple):
    """An argument of paths, as it is documented: its name, what it is, and an example."""

    name: str
    about: str
    example: str
    # The 404, if that is the same in all routes.
    missing: NotFound | None = None
    is_guid: bool = False


def guid(name: str, about: str, example: str) -> PathArgument:
    return PathArgument(name, f"The id of {about}.", example, is_guid=True)


PLAYER, USER = "A character's name or id.", "A username or user id."
PLACE = "A character's id, name, or position in the user's list, from 0."
OBJECT_TYPE = "A type of objects, such as item, spell or map."
NO_PLAYER = NotFound("player", Lookup.parse("nobody"))
NO_USER = NotFound("user", Lookup.parse("nobody"))
NO_ENTRY = NotFound("entry of history", "nobody")
# By the argument in the rule, with its converter.
PATH_ARGUMENTS = {
    "player:key": PathArgument("lookupKey", PLAYER, examples.PLAYER, NO_PLAYER),
    "player:player_id": PathArgument(
        "lookupKey", "A character's id.", examples.PLAYER_ID, is_guid=True
    ),
    "lookup:receiver": PathArgument("lookupKey", PLAYER, examples.PLAYER, NO_PLAYER),
    "lookup:player_key": PathArgument("id", PLAYER, examples.PLAYER, NO_PLAYER),
    "lookup:key": PathArgument("lookupKey", USER, examples.USER, NO_USER),
    "lookup:owner": PathArgument("lookupKey1", USER, examples.USER, NO_USER),
    "lookup:character": PathArgument("lookupKey2", PLACE, examples.PLAYER, NO_PLAYER),
    "lookup:user_key": PathArgument("id", USER, examples.USER, NO_USER),
    "lookup:account": PathArgument("username", USER, "demo", NO_USER),
    "role": PathArgument("name", "The name of a role.", "support", NotFound("role", "nobody")),
    "entry_id": PathArgument("id", "The id of an entry.", examples.ENTRY, NO_ENTRY),
    "object_type:type_name": PathArgument("type", OBJECT_TYPE, "item"),
    "bag_id": guid("bagId", "a bag", examples.BAG),
    "variable_id": guid("variableId", "a variable", examples.VARIABLE),
    "global_id": guid("id", "a global variable", examples.GLOBAL_VARIABLE),
    "batch_id": guid("id", "a batch", examples.BATCH),
    "request_id": guid("id", "a request", examples.BATCH),
    "guild_id": guid("guildId", "a guild", examples.GUILD),
    "map_id": guid("mapId", "a map", examples.MAP),
    "action_id": guid("id", "an action", examples.ACTION),
    "object_id": guid("id", "an object", examples.ITEM),
    "key_id": guid("id", "a key", examples.KEY_ID),
    "token_id": PathArgument("tokenId", "The refresh token.", examples.TOKEN, is_guid=True),
    "sign_in_id": guid("id", "a sign-in", examples.SIGN_IN),
}


def with_guids(path: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a path with guids as they are stored, or raise Invalid."""
    checked = dict(path)
    for name, text in path.items():
        argument = PATH_ARGUMENTS.get(name)
        if argument and argument.is_guid:
            checked[name] = path_guid(argument.name, text)
    return checked

"""Saves characters for games without a MongoDB driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from app.auth.spending import refuse_unknown, unaskable
from app.core.changes import Applied
from app.core.errors import (
    Invalid,
    InvalidField,
    QuartermasterError,
    Unavailable,
)
from app.core.request_scope import wait_deadline
from app.core.types import Document, is_deep
from app.game.server.operations import SAVE
from app.http.context import current
from app.http.errors import body_of
from app.http.fields import INT64
from app.http.intents import intent
from app.http.masking import masked
from app.http.parser import load
from app.maintenance.transfer.records import PlayerRecord
from app.maintenance.transfer.validate import DEEPEST
from app.players.domain import WasErased, name_lengths, require_name
from app.players.store import Players
from app.storage.bulk import encode
from app.storage.errors import DatabaseError, explain
from app.storage.fence import BeingErased

# Fields of staff, of erasures, and those that a former release derived.
OTHERS = frozenset({"Notes", "ErasedAt", "NameParts"})
# Required fields of a new character.
NEEDED = ("Name", "UserId")
# Of the time that a request may take, the part in which it begins to save further characters.
SAVING_TIME = 0.8
# Of the result of an action.
LARGEST_RESULT, MOST_LEVELS = 4096, 20
NOT_TRIED = "There was no time left to save this character; please send it again."

players = current(Players)


class Saved(NamedTuple):
    """The result of saving a character, and whether the character is new."""

    applied: Applied
    is_new: bool

    @property
    def answer(self) -> Document:
        entry = self.applied.entry
        if entry is None:
            answer: Document = self.applied.answer
            made = self.applied.version  # None: nothing has changed
            return answer if made is None else {**answer, "Version": made}
        told = self.applied.answer or {
            "Id": entry["Subject"]["Id"],
            "Name": entry["Subject"]["Name"],
        }
        return {**told, "Version": entry["Version"]}


@unaskable()
def save_characters(
    rows: Sequence[Document], sizes: Mapping[str, Any]
) -> list[tuple[Document, bool]]:
    """Save each of these characters alone; return public results, and which are replayed."""
    refuse_unknown("saving a character")
    intent(SAVE)  # wrong headers refuse the whole request
    deadline = wait_deadline(SAVING_TIME * sizes["MONGODB_OPERATION_SECONDS"])
    return [_save_row(row, sizes, deadline) for row in rows]


def _save_row(row: Document, sizes: Mapping[str, Any], deadline: float) -> tuple[Document, bool]:
    result = {"Id": row["Id"], "Version": None, "Code": None, "Message": None}
    try:
        if monotonic() > deadline:
            raise Unavailable(NOT_TRIED)
        saved = save_character(row["Id"], row, sizes, is_one_of_many=True)
        return {**result, "Version": saved.answer["Version"]}, saved.applied.replayed
    except (QuartermasterError, DatabaseError) as error:
        refusal = explain(error) if isinstance(error, DatabaseError) else error
        if refusal is None:
            raise
        body = body_of(refusal)
    return {name: body.get(name, value) for name, value in result.items()}, False


@unaskable()
def save_character(
    player_id: str, body: dict[str, Any], sizes: Mapping[str, Any], is_one_of_many: bool = False
) -> Saved:
    """Set the given fields of a character, or create it if there is none with this id."""
    refuse_unknown("saving a character")
    version = body.get("Version")
    is_count = type(version) is int and 0 <= version < INT64
    if "Version" in body and not is_count:
        raise InvalidField("Version", "Must be a whole number of 0 or more.")
    record = PlayerRecord(sizes)
    values = {name: value for name, value in body.items() if name != "Version"}
    fields = _checked(record, player_id, values, name_lengths(sizes))
    told = {"Fields": sorted(fields)}
    meant = intent(SAVE, {**told, "Body": body})._replace(arguments=told)
    if is_one_of_many and meant.key is not None:
        meant = meant._replace(key=f"{meant.key} {player_id}")
    stored, unrecorded = record.stored_fields(fields), sizes["UNRECORDED_FIELDS"]
    new = partial(_new, record, player_id, fields)
    try:
        return Saved(*players.save(player_id, stored, version, meant, new, unrecorded))
    except BeingErased:
        raise WasErased from None


def _require_name(name: str, player_id: str, lengths: tuple[int, int]) -> None:
    """Refuse an invalid name, unless the character already has it, as after an import."""
    try:
        require_name(name, "Name", lengths)
    except Invalid:
        known = players.get_many([player_id], "Name").get(player_id, {})
        if known.get("Name") != name:
            raise


def _checked(
    record: PlayerRecord, player_id: str, values: dict[str, Any], lengths: tuple[int, int]
) -> Document:
    """Return the fields of a body, checked and loaded as in an import."""
    for name in OTHERS & values.keys():
        raise InvalidField(name, "Is not for a game to set.")
    if isinstance(values.get("Name"), str):
        _require_name(values["Name"], player_id, lengths)
    for name in values:
        # Every reader of the player would see the token.
        if masked(name) != name:
            raise Invalid("No name of a field may look like a token, key or hash.")
    if is_deep(values, DEEPEST):
        raise Invalid(f"The request body is nested more than {DEEPEST} levels deep.")
    fields: Document = load(record, values, record.unknown, partial=True)
    if fields.pop("Id", player_id) != player_id:
        raise InvalidField("Id", "Must match the id in the path.")
    for name, value in fields.items():
        _require_storable(name, value)
    _require_each_bag_once(fields)
    return fields


def _require_each_bag_once(fields: Document) -> None:
    """Refuse a bag in two slots: its contents would exist twice."""
    bags: set[str] = set()
    for name in ("Inventory", "Bank"):
        for slot in fields.get(name, ()):
            if slot["BagId"] in bags:
                fault = f"Has a bag in slot {slot['Slot']} that is in another slot as well."
                raise InvalidField(name, fault)
            if slot["BagId"]:
                bags.add(slot["BagId"])


def _require_storable(name: str, value: Any) -> None:
    if _has_operators([value]):
        raise InvalidField(name, "Contains a name that begins with a dollar sign.")
    _encode(name, value)


def _encode(name: str, value: Any) -> bytes:
    try:
        return encode({name: value})
    except Invalid:
        fault = "Contains a name or a number that cannot be stored."
        raise InvalidField(name, fault) from None


def require_small(result: Document | None) -> None:
    """Refuse a result of an action that MongoDB cannot store, or that is too large for a page."""
    if is_deep(result, MOST_LEVELS) or len(_encode("Result", result)) > LARGEST_RESULT:
        limits = f"{LARGEST_RESULT} bytes and {MOST_LEVELS} levels"
        raise InvalidField("Result", f"Must be small: {limits} at most.")


def _has_operators(values: list[Any]) -> bool:
    """Tell whether a nested map has a key that not every MongoDB operation accepts.

    Extended JSON, such as {"$date": "..."}, is already converted.
    """
    for value in values:
        if isinstance(value, dict):
            if any(name.startswith("$") for name in value):
                return True
            value = list(value.values())
        if isinstance(value, list) and _has_operators(value):
            return True
    return False


def _new(record: PlayerRecord, player_id: str, fields: Document) -> Document:
    """Return a complete character: the given fields, and defaults for the others."""
    missing = {name: ["Is required."] for name in NEEDED if name not in fields}
    if missing:
        name = next(iter(missing))
        raise Invalid(f"The field '{name}' is required: the character is new.", missing)
    return record.document({"Id": player_id, **fields}, players.now(), version=0)

"""Saves characters for games without a MongoDB driver."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from app.auth.spending import refuse_unknown, unaskable
from app.core.changes import Applied
from app.core.errors import (
    Invalid,
    InvalidField,
    QuartermasterError,
    Unavailable,
)
from app.core.limits import wait_deadline
from app.core.types import DEEPEST, Document, is_deep
from app.game.server.operations import SAVE
from app.http.context import setting, settings
from app.http.errors import body_of
from app.http.fields import INT64
from app.http.intents import intent
from app.http.masking import masked
from app.http.parser import load
from app.players.domain import WasErased, require_name
from app.players.records import PlayerRecord
from app.players.store import players
from app.storage.bulk import encode
from app.storage.errors import DatabaseError, explain
from app.storage.fence import BeingErased

# Fields of staff, of erasures, and those that a former release derived.
OTHERS = frozenset({"Notes", "ErasedAt", "NameParts"})
# Of the time that a request may take, the part in which it begins to save further characters.
SAVING_TIME = 0.8
# Of the result of an action.
LARGEST_RESULT, MOST_LEVELS = 4096, 20
NOT_TRIED = "There was no time left to save this character; please send it again."


@unaskable()
def save_characters(rows: Sequence[Document]) -> list[tuple[Document, bool]]:
    """Save each of these characters alone; return public results, and which are replayed."""
    refuse_unknown("saving a character")
    intent(SAVE)  # wrong headers refuse the whole request
    deadline = wait_deadline(SAVING_TIME * setting("MONGODB_OPERATION_SECONDS"))
    return [_save_row(row, deadline) for row in rows]


def _save_row(row: Document, deadline: float) -> tuple[Document, bool]:
    result = {"Id": row["Id"], "Version": None, "Code": None, "Message": None}
    try:
        if monotonic() > deadline:
            raise Unavailable(NOT_TRIED)
        saved, _ = save_character(row["Id"], row, is_one_of_many=True)
        return {**result, "Version": saved.answer["Version"]}, saved.replayed
    except (QuartermasterError, DatabaseError) as error:
        refusal = explain(error) if isinstance(error, DatabaseError) else error
        if refusal is None:
            raise
        body = body_of(refusal)
    return {name: body.get(name, value) for name, value in result.items()}, False


@unaskable()
def save_character(
    player_id: str, body: Document, is_one_of_many: bool = False
) -> tuple[Applied, bool]:
    """Set the given fields of a character, or create it; return whether it is new."""
    refuse_unknown("saving a character")
    values = dict(body)
    version = values.pop("Version", 0)
    if type(version) is not int or not 0 <= version < INT64:
        raise InvalidField("Version", "Must be a whole number of 0 or more.")
    record = PlayerRecord(settings())
    fields = _load_fields(record, player_id, values)
    told = {"Fields": sorted(fields)}
    meant = intent(SAVE, {**told, "Body": body})._replace(arguments=told)
    if is_one_of_many and meant.key is not None:
        meant = meant._replace(key=f"{meant.key} {player_id}")

    def new() -> Document:
        """Return a complete character: the given fields, and defaults for the others."""
        for name in ("Name", "UserId"):
            if name not in fields:
                raise InvalidField(name, "Is required: the character is new.")
        return record.document({"Id": player_id, **fields}, players.now(), version=0)

    try:
        saved, is_new = players.save(
            player_id,
            fields,
            version if "Version" in body else None,
            meant,
            new,
            setting("UNRECORDED_FIELDS"),
        )
    except BeingErased:
        raise WasErased from None
    entry = saved.entry or {}
    answer = saved.answer or {name: entry["Subject"][name] for name in ("Id", "Name")}
    # Without a new Version, nothing has changed.
    version = entry.get("Version") or saved.version or answer["Version"]
    return saved._replace(answer={**answer, "Version": version}), is_new


def _load_fields(record: PlayerRecord, player_id: str, values: Document) -> Document:
    """Return the fields of a body, checked and loaded as in an import."""
    for name in OTHERS & values.keys():
        raise InvalidField(name, "Is not for a game to set.")
    called = values.get("Name")
    if isinstance(called, str):
        try:
            require_name(called, setting)
        except Invalid:
            # The character may already have it, as after an import.
            if players.get_many([player_id], "Name").get(player_id, {}).get("Name") != called:
                raise
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
        if _has_operators(value):
            raise InvalidField(name, "Contains a name that begins with a dollar sign.")
        _encode(name, value)
    # The contents of a bag in two slots would exist twice.
    bags: set[str] = set()
    for name in ("Inventory", "Bank"):
        for slot, held in fields.get(name, {}).items():
            if held.get("BagId") in bags:
                fault = f"Has a bag in slot {slot} that is in another slot as well."
                raise InvalidField(name, fault)
            if "BagId" in held:
                bags.add(held["BagId"])
    return fields


def require_small(result: Document | None) -> None:
    """Refuse a result of an action that MongoDB cannot store, or that is too large for a page."""
    if is_deep(result, MOST_LEVELS) or len(_encode("Result", result)) > LARGEST_RESULT:
        limits = f"{LARGEST_RESULT} bytes and {MOST_LEVELS} levels"
        raise InvalidField("Result", f"Must be small: {limits} at most.")


def _encode(name: str, value: Any) -> bytes:
    try:
        return encode({name: value})
    except Invalid:
        fault = "Contains a name or a number that cannot be stored."
        raise InvalidField(name, fault) from None


def _has_operators(value: Any) -> bool:
    """Tell whether a nested map has a key that not every MongoDB operation accepts.

    Extended JSON, such as {"$date": "..."}, is already converted.
    """
    if isinstance(value, dict):
        return any(name.startswith("$") or _has_operators(held) for name, held in value.items())
    return isinstance(value, list) and any(map(_has_operators, value))

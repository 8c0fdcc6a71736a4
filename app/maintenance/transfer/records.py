"""The records of import and export: JSON lines with the field names of the documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from marshmallow import (
    ValidationError,
    post_load,
    pre_load,
    validate,
    validates,
    validates_schema,
)

from app.catalogue import domain as objects
from app.core.naming import NAME_LENGTH, named_document
from app.core.types import Document, whole
from app.http.api import Schema
from app.http.fields import (
    Flag,
    Guid,
    Integer,
    List,
    Moment,
    Nested,
    PasswordHash,
    Text,
)
from app.http.lists import OneOf
from app.players.items import domain as items
from app.players.items.schemas import SlotMap
from app.players.records import NamedRecord, OpenRecord, PlayerRecord, Record, slot_list
from app.players.variables import domain as variables
from app.users import domain as users
from app.users.notes import LONGEST_NOTE, MOST_NOTES

# With this limit, clients can handle an answer with a hundred of them.
LARGEST_OBJECT = 256 * 1024


class NoteRecord(Schema):
    """A note, as export writes it."""

    Id = Guid(required=True)
    At = Moment(required=True)
    UserId = Guid(required=True)
    Name = Text(required=True)
    Text = Text(required=True, validate=validate.Length(max=LONGEST_NOTE))
    IsHidden = Flag()


class _Aliases(Schema):
    """The Power flags, in either set of names: one of them differs."""

    @pre_load
    def rename(self, data: Any, **_: Any) -> Any:
        aliases = {"PersonalInformation": "ApiPersonalInformation"}
        is_object = isinstance(data, dict)
        return {aliases.get(name, name): data[name] for name in data} if is_object else data


PowerRecord = _Aliases.from_dict(
    {name: Flag(load_default=False) for name in users.POWER_FLAGS}, name="PowerRecord"
)


class NotedRecord(NamedRecord):
    """A record of a player or an account, with notes about it."""

    Notes = List(
        Nested(NoteRecord),
        validate=validate.Length(max=MOST_NOTES, error=f"Must contain at most {MOST_NOTES} notes."),
    )

    @post_load
    def loads_notes(self, data: Document, **_: Any) -> Document:
        """Turn the list of notes into the stored map from id to note."""
        if "Notes" in data:
            notes = {note.pop("Id"): note for note in data["Notes"]}
            if len(notes) < len(data["Notes"]):
                raise ValidationError("Must contain each note once.", "Notes")
            data["Notes"] = notes
        return data

    def record(self, document: Document) -> Document:
        record = super().record(document)
        # Equal documents are equal records, whatever order MongoDB keeps.
        notes = [
            {"Id": id_, **dict(sorted(note.items()))}
            for id_, note in (record.pop("Notes", None) or {}).items()
        ]
        if not notes:
            return record
        return {**record, "Notes": sorted(notes, key=lambda note: (note["At"], note["Id"]))}


class NotedPlayerRecord(NotedRecord, PlayerRecord):  # type: ignore[misc] # both include the unknown
    omits = "deleted players, letters, guilds and history"


class BagRecord(Record):
    omits = "history"

    Id = Guid(required=True)
    SlotCount = Integer(0, items.LARGEST_BAG, required=True)

    @staticmethod
    def sized_fields(sizes: Mapping[str, int]) -> Document:
        return {"Slots": SlotMap(items.LARGEST_BAG, sizes["STACK_LIMIT"], load_default=dict)}

    @validates_schema(skip_on_field_errors=True)
    def has_room(self, data: Document, **_: Any) -> None:
        if any(int(slot) >= data["SlotCount"] for slot in data["Slots"]):
            raise ValidationError("Must be below SlotCount.", "Slots")

    def document(self, record: Document, now: datetime | None, version: int) -> Document:
        return super().document({**record, "Version": version}, now, version)

    def record(self, document: Document) -> Document:
        return super().record({**document, "Slots": slot_list(document["Slots"])})


class UserRecord(NotedRecord):
    """An account. Password is the SHA-256 of the password; export writes PasswordHash instead."""

    omits = (
        "staff roles, sign-ins, API keys, second factors, company accounts, history, fields that a "
        "game has added, and that an account is disabled"
    )

    Id = Guid(required=True)
    Name = Text(required=True)
    Email = Text(required=True)
    Power = Nested(PowerRecord, load_default=lambda: dict(users.NO_POWER))
    Password = PasswordHash()
    PasswordHash = Text(
        allow_none=True,
        load_default=None,
        validate=validate.Regexp(r"^\$argon2id\$", error="Must be an argon2id hash."),
    )
    IsMuted = Flag(load_default=False)
    MuteReason = Text(allow_none=True, load_default=None)
    MutedUntil = Moment(allow_none=True)
    MutedBy = Text(allow_none=True)
    IsBanned = Flag()
    BanReason = Text(allow_none=True)
    BannedUntil = Moment(allow_none=True)
    BannedBy = Text(allow_none=True)
    BanByAddress = Flag()
    CreationDate = Moment()
    # Accepted and ignored: a code expires within minutes, long before the file is imported.
    PasswordResetCode = Text(allow_none=True)

    @validates("Email")
    def has_a_plausible_email(self, value: str, data_key: str) -> None:
        if not users.is_email(value):
            raise ValidationError("Must be an email address.")

    def document(self, record: Document, now: datetime | None, version: int) -> Document:
        stored = {k: v for k, v in record.items() if k not in ("Password", "PasswordResetCode")}
        return users.user_document({"CreationDate": now, **stored}, version)

    def record(self, document: Document) -> Document:
        power = {**users.NO_POWER, **document["Power"]}
        return super().record({**document, "Power": power})


class ObjectRecord(OpenRecord):
    internal = objects.INTERNAL
    largest = LARGEST_OBJECT

    Id = Guid(required=True)
    Type = OneOf(*objects.TYPES, objects.TIME, required=True)
    Name = Text(required=True)

    @validates("Name")
    def has_a_printable_name(self, value: str, data_key: str) -> None:
        if len(value) > NAME_LENGTH or not value.isprintable():
            raise ValidationError(f"Must be at most {NAME_LENGTH} printable characters.")

    @post_load
    def loads_unknown_fields(self, data: Document, **_: Any) -> Document:
        """Check the fields that the service uses, for the types that have them."""
        loaded = super().loads_unknown_fields(data)
        if loaded["Type"] == "item" and not objects.is_stack_limit(loaded.get("StackLimit")):
            raise ValidationError("Must be a number of 1 or more, or null.", "StackLimit")
        # Without a Value in the record, the stored one stays.
        value = loaded.pop("Value", None) if loaded["Type"] == variables.GLOBAL else None
        if value is not None:
            # Many languages write 100 as 100.0.
            loaded["Value"] = value if isinstance(value, bool) else whole(value)
            if loaded["Value"] is None:
                raise ValidationError("Must be a whole number, true or false.", "Value")
        return loaded

    def document(self, record: Document, now: datetime | None, version: int) -> Document:
        return named_document(record, version)


class ErasureRecord(Record):
    """An erasure: the ids by which db check finds erased people in a restored backup."""

    Id = Guid(required=True)
    BegunAt = Moment(required=True)
    FinishedAt = Moment(allow_none=True, load_default=None)
    By = Guid(allow_none=True, load_default=None)
    Players = List(Guid(), load_default=list)
    Bags = List(Guid(), load_default=list)


RECORDS: dict[str, type[Record]] = {
    "users": UserRecord,
    "players": NotedPlayerRecord,
    "bags": BagRecord,
    "objects": ObjectRecord,
    "erasures": ErasureRecord,
}

"""The records of players, as imports and saves by a game have them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from marshmallow import (
    INCLUDE,
    ValidationError,
    fields,
    post_load,
    validate,
    validates,
    validates_schema,
)

from app.core.errors import Invalid
from app.core.naming import named_document
from app.core.types import Document
from app.http.api import Schema
from app.http.fields import MESSAGES, Guid, Integer, List, VariableValue
from app.players import spells
from app.players.domain import INTERNAL, check_name, defaults
from app.players.items import domain as items
from app.players.items.schemas import SlotMap
from app.players.schemas import PlayerSchema
from app.players.variables import domain as variables
from app.storage.extended_json import from_json, to_json


def integers(length: int) -> List:
    length_check = validate.Length(equal=length, error=f"Must contain {length} numbers.")
    return List(Integer(), validate=length_check)


class RecordMap(fields.Field[Document]):
    """A list of records of two fields, loaded into the stored map from the first to the second.

    Its records are no Nested: a game saves hundreds of them with each player.
    """

    default_error_messages = {
        **MESSAGES,
        "invalid": "Must be a list of records with a valid {name} and a valid {value}.",
        "twice": "Must contain each {name} once.",
    }

    def __init__(self, **pair: fields.Field[Any]) -> None:
        super().__init__()
        self._pair = pair

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Document:
        key, held = self._pair
        invalid = self.make_error("invalid", name=key, value=held)
        if not isinstance(value, list):
            raise invalid
        found = {}
        for record in value:
            if not isinstance(record, dict) or record.keys() != self._pair.keys():
                raise invalid
            try:
                at = str(self._pair[key].deserialize(record[key]))
                found[at] = self._pair[held].deserialize(record[held])
            except ValidationError:
                raise invalid from None
        if len(found) < len(value):
            raise self.make_error("twice", name=key)
        return found


class Record(Schema):
    """A record; the limits of some fields are settings."""

    # The longest line, in bytes; MongoDB limits documents separately.
    largest: int | None = None
    # What a backup has of such documents, and a record does not.
    omits = ""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._declared_fields = {**self._declared_fields, **self.sized_fields(sizes)}
        super().__init__()

    @staticmethod
    def sized_fields(_: Mapping[str, int]) -> Document:
        return {}

    def document(self, record: Document, now: datetime | None, version: int) -> Document:
        """Return the document that a loaded record is stored as."""
        stored = dict(record)
        return {"_id": stored.pop("Id"), **stored}

    def record(self, document: Document) -> Document:
        """Return a stored document with the fields that an import accepts."""
        known = {name: document[name] for name in self.fields if name in document}
        return {**known, "Id": document["_id"]}


class NamedRecord(Record):
    """A record with the name of a player or an account."""

    @validates("Name")
    def has_a_usable_name(self, value: str, data_key: str) -> None:
        try:
            check_name(value)
        except Invalid as error:
            raise ValidationError(str(error)) from None


class OpenRecord(Record):
    """A record whose unknown fields, which games may add, are kept."""

    class Meta(Schema.Meta):
        unknown = INCLUDE

    # Fields that a record must not set.
    internal: Collection[str] = ()

    @validates_schema(pass_original=True)
    def sets_no_internal_field(self, _: Document, original: Document, **__: Any) -> None:
        for name in original:
            is_invalid = not name or name.startswith("$") or "." in name or "\0" in name
            if name in self.internal or name == "_id" or is_invalid:
                raise ValidationError("Is a name that cannot be stored.", name)

    @post_load
    def loads_unknown_fields(self, data: Document, **_: Any) -> Document:
        for name in data.keys() - self.fields.keys():
            try:
                data[name] = from_json(data[name])
            except ValueError:
                raise ValidationError("Does not match its $ type.", name) from None
        return data

    def record(self, document: Document) -> Document:
        """Return a stored document without internal fields, and with unknown ones as JSON."""
        record = {
            name: value if name in self.fields else to_json(value)
            for name, value in document.items()
            if name not in self.internal
        }
        # Overwrites a field 'Id' that a game may have added: the id is _id.
        record["Id"] = record.pop("_id")
        return record


class PlayerRecord(NamedRecord, OpenRecord, PlayerSchema):  # type: ignore[misc] # both include the unknown
    internal = INTERNAL

    BaseStats = integers(5)
    StatPointAllocations = integers(5)
    Variables = RecordMap(VariableId=Guid(), Value=VariableValue())

    @staticmethod
    def sized_fields(sizes: Mapping[str, int]) -> Document:
        return {
            "Inventory": SlotMap(sizes["INVENTORY_SIZE"], sizes["STACK_LIMIT"]),
            "Bank": SlotMap(sizes["BANK_SIZE"], sizes["STACK_LIMIT"]),
            "Spells": RecordMap(Slot=Integer(0, sizes["SPELLS_SIZE"] - 1), SpellId=Guid()),
        }

    def document(self, record: Document, now: datetime | None, version: int) -> Document:
        return named_document({**defaults(now), **record}, version)

    def record(self, document: Document) -> Document:
        record = super().record(document)
        return record | {
            "Inventory": slot_list(record.get("Inventory", {})),
            "Bank": slot_list(record.get("Bank", {})),
            "Spells": spells.known_spells(record.get("Spells", {})),
            "Variables": variables.variable_records(record.get("Variables", {})),
        }


def slot_list(slots: Document) -> list[Document]:
    """Return stored slots as a list; raises ValueError rather than drop an unreadable slot."""
    if not all(items.is_readable(number, slot) for number, slot in slots.items()):
        raise ValueError("a slot cannot be read")
    return items.filled(slots)

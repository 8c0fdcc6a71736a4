"""The marshmallow fields that only records of imports have."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, validate

from app.core.naming import NIL, parse_guid
from app.http.api import Schema
from app.http.fields import INT64, MESSAGES, Flag, Guid, Integer, List, Moment, Text
from app.users import domain as users
from app.users.notes.domain import MOST_NOTES
from app.users.notes.schemas import LONGEST_NOTE


def is_assigned_guid(value: Any) -> bool:
    """Tell whether a value is a guid other than the nil guid, which refers to nothing."""
    return isinstance(value, str) and parse_guid(value) not in (None, NIL)


def integers(length: int) -> List:
    length_check = validate.Length(equal=length, error=f"Must contain {length} numbers.")
    return List(Integer(), validate=length_check)


class SpellList(fields.Field[dict[str, str]]):
    """A list of known spells, loaded into the stored map from slot to spell."""

    default_error_messages = {
        **MESSAGES,
        "invalid": "Must be a list of records with a Slot from 0 to {last} and a SpellId, a guid.",
        "twice": "Must contain each slot and each spell once.",
    }

    def __init__(self, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._size = size

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, str]:
        if not isinstance(value, list) or not all(self._is_spell(spell) for spell in value):
            raise self.make_error("invalid", last=self._size - 1)
        spells = {str(spell["Slot"]): spell["SpellId"].lower() for spell in value}
        if len(set(spells.values())) < len(value):
            raise self.make_error("twice")
        return spells

    def _is_spell(self, spell: Any) -> bool:
        return (
            isinstance(spell, dict)
            and spell.keys() == {"Slot", "SpellId"}
            and type(spell["Slot"]) is int
            and 0 <= spell["Slot"] < self._size
            and is_assigned_guid(spell["SpellId"])
        )


class VariableList(fields.Field[dict[str, int | bool]]):
    """A list of player variables, loaded into the stored map; 1 stays distinct from true."""

    default_error_messages = {
        **MESSAGES,
        "invalid": "Must be a list of records with a guid VariableId and an int64 or bool Value.",
        "twice": "Must contain each variable once.",
    }

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, int | bool]:
        if not isinstance(value, list) or not all(map(self._is_variable, value)):
            raise self.make_error("invalid")
        variables = {record["VariableId"].lower(): record["Value"] for record in value}
        if len(variables) < len(value):
            raise self.make_error("twice")
        return variables

    @staticmethod
    def _is_variable(record: Any) -> bool:
        return (
            isinstance(record, dict)
            and record.keys() == {"VariableId", "Value"}
            and is_assigned_guid(record["VariableId"])
            and type(record["Value"]) in (int, bool)
            and -INT64 <= record["Value"] < INT64
        )


class NoteRecord(Schema):
    """A note, as export writes it."""

    Id = Guid(required=True)
    At = Moment(required=True)
    UserId = Guid(required=True)
    Name = Text(required=True)
    Text = Text(required=True, validate=validate.Length(max=LONGEST_NOTE))
    IsHidden = Flag()


NOTES = NoteRecord(many=True)


class NoteList(fields.Field[dict[str, Any]]):
    """A list of notes, loaded into the stored map from id to note."""

    default_error_messages = {
        **MESSAGES,
        "invalid": "Must be a list of records with an Id, an At, a UserId, a Name and a Text of "
        f"{LONGEST_NOTE} characters at most.",
        "twice": "Must contain each note once.",
        "many": "Must contain at most {most} notes.",
    }

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        if len(value) > MOST_NOTES:
            raise self.make_error("many", most=MOST_NOTES)
        try:
            records = NOTES.load(value)
        except ValidationError:
            raise self.make_error("invalid") from None
        notes = {record.pop("Id"): record for record in records}
        if len(notes) < len(value):
            raise self.make_error("twice")
        return notes

    @staticmethod
    def records(notes: Any) -> list[dict[str, Any]]:
        """Return stored notes as records, the oldest first."""
        records = [order_fields(NOTES, {"Id": id_, **note}) for id_, note in (notes or {}).items()]
        return sorted(records, key=lambda note: (note["At"], note["Id"]))


def order_fields(schema: Schema, record: dict[str, Any]) -> dict[str, Any]:
    """Order the fields, so that equal documents make equal lines whatever order MongoDB keeps."""
    known = [name for name in schema.fields if name in record]
    return {name: record[name] for name in (*known, *sorted(record.keys() - known))}


# There are two sets of names for the Power flags; these names differ.
ALIASES = {"PersonalInformation": "ApiPersonalInformation"}


class PowerField(fields.Field[dict[str, bool]]):
    """Power flags, in either set of names."""

    default_error_messages = {
        **MESSAGES,
        "invalid": "Must be an object of flags, each true or false.",
        "unknown": "Must not contain '{name}'.",
    }

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> dict[str, bool]:
        if not isinstance(value, dict) or not all(isinstance(v, bool) for v in value.values()):
            raise self.make_error("invalid")
        power: dict[str, bool] = {ALIASES.get(k, k): flag for k, flag in value.items()}  # type: ignore[misc]
        for name in power.keys() - users.NO_POWER.keys():
            raise self.make_error("unknown", name=name)
        return {**users.NO_POWER, **power}

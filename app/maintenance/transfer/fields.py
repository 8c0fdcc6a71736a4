"""The marshmallow fields that only records of imports have."""

from __future__ import annotations

from typing import Any

from marshmallow import ValidationError, fields, pre_load, validate

from app.core.types import Document
from app.http.api import Schema
from app.http.fields import MESSAGES, Flag, Guid, Integer, List, Moment, Text
from app.users import domain as users
from app.users.notes import LONGEST_NOTE


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

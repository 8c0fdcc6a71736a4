from __future__ import annotations

from marshmallow import INCLUDE

from app.http.api import Schema
from app.http.examples import USER, USER_ID
from app.http.fields import Guid, Integer, List, Moment, Nested, Text

AT = "2026-01-31T12:00:00Z"


class EraseArgs(Schema):
    """Who is erased, as a confirmation."""

    Confirm = Text(
        required=True,
        example=USER,
        minLength=1,
        unrecorded=True,
        description="The username of the account, to confirm.",
    )


class ErasedPartsSchema(Schema):
    """How much of a person went."""

    Players = Integer(0, example=2)
    Bags = Integer(0, example=1)
    SignIns = Integer(0, example=3)
    Keys = Integer(0, example=0)


class StayedSchema(Schema):
    """What stayed of a person, and why."""

    What = Text(example="history")
    Count = Integer(0, example=24)
    Why = Text(
        example="Changes of items and accounts must stay traceable. Only ids of the person remain."
    )


class ErasureSchema(Schema):
    """What went of a person, and what stayed and why."""

    Id = Guid(example=USER_ID)
    BegunAt = Moment(allow_none=True, example=AT)
    FinishedAt = Moment(allow_none=True, example=AT)
    Gone = Nested(ErasedPartsSchema)
    Stayed = List(Nested(StayedSchema))


class StoredSchema(Schema):
    """A stored record, with whatever the game stores in it."""

    class Meta:
        unknown = INCLUDE

    Id = Text(example=USER_ID)


def stored_list() -> List:
    return List(Nested(StoredSchema), example=[])


class PersonalDataSchema(Schema):
    """All that is stored about a person."""

    User = Nested(StoredSchema)
    Characters = List(Nested(StoredSchema), description="With all that they own and know.")
    DeletedCharacters = stored_list()
    Guilds = stored_list()
    Notes = stored_list()
    Keys = stored_list()
    SignIns = stored_list()
    Actions = stored_list()
    BatchRows = stored_list()
    Batches = stored_list()
    Approvals = stored_list()
    GameEvents = stored_list()
    HistoryAbout = stored_list()
    HistoryBy = stored_list()

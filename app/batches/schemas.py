from __future__ import annotations

from copy import copy
from typing import Any

from marshmallow import ValidationError, missing, validates_schema

from app.batches.domain import MOST_ROWS, STATES, VERDICTS
from app.core.naming import NAME_LENGTH
from app.core.operations import batch_operations, operation_names
from app.core.types import Document
from app.history.schemas import (
    LOOKUP_LENGTH,
    PARTIAL,
    ApproverSchema,
    AuthorSchema,
    SubjectSchema,
)
from app.http.api import Schema
from app.http.examples import BATCH, ITEM, PLAYER, PLAYER_ID, USER, USER_ID
from app.http.fields import (
    Described,
    Flag,
    Guid,
    Integer,
    List,
    MaskedText,
    Moment,
    Nested,
    Object,
    PlainText,
    Text,
)
from app.http.intents import LONGEST_REASON
from app.http.lists import (
    CursorListArgs,
    CursorPageSchema,
    OneOf,
    SearchText,
    page_of,
)

LONGEST_NAME = 100
AT, BEGUN_AT = "2026-01-31T19:04:21.250Z", "2026-01-31T19:05:02.118Z"
NO_CHOICE = "Must contain By, Key, Operation, Item, From or To."


def or_null(field: type[Described], about: str) -> Any:
    """Return a field that is null in the example."""
    return field(allow_none=True, example=None, description=about)


def row_args() -> Any:
    """Return the shape of a row: the player, the operation, and the operation's arguments."""
    known: dict[str, Any] = {
        "Player": Text(
            maxLength=NAME_LENGTH,
            example=PLAYER,
            description="A character's name or id. Not for an undo.",
        ),
        "Operation": OneOf(read=batch_operations, required=True, description="What to do."),
    }
    users: dict[str, list[str]] = {}
    for operation in batch_operations().values():
        for name, field in operation.arguments.fields.items():
            (called,) = operation.history_arguments({name: None})
            users.setdefault(called, []).append(operation.name)
            about = f"Of {' and '.join(users[called])}. {field.metadata.get('description', '')}"
            known[called] = optional = copy(field)
            optional.required, optional.load_default, optional.data_key = False, missing, None
            optional.metadata = {**field.metadata, "description": about.strip()}
    return Schema.from_dict(known, name="RowArgs")


class ChosenChangesArgs(Schema):
    """Which changes to undo; at least one filter is required."""

    error_messages = {"type": NO_CHOICE}

    By = Text(
        example="clerk",
        validate=LOOKUP_LENGTH,
        description="Changes by this username, user id or system user.",
    )
    Key = Text(validate=LOOKUP_LENGTH, description="The API key that made the change.")
    Operation = OneOf(read=operation_names, description="The operation.")
    Item = Guid(description="An item, spell or variable that was requested or changed.")
    From = Moment(example="2026-01-30T00:00:00Z", description="The earliest time.")
    To = Moment(example="2026-01-31T00:00:00Z", description="The latest time, exclusive.")
    Partial = Flag(example=False, description=PARTIAL)

    @validates_schema
    def require_one(self, values: Document, **_: object) -> None:
        if not values.keys() - {"Partial"}:
            raise ValidationError(NO_CHOICE)


class ChosenPlayersArgs(Schema):
    """Which players; without a field, all."""

    Search = SearchText()
    Online = Flag(load_default=False, example=True, description="Only those who are online.")


class BatchHeadArgs(Schema):
    """The name and the reason of a batch."""

    Name = MaskedText(LONGEST_NAME, load_default="", example="Gifts for January")
    Reason = PlainText(
        LONGEST_REASON,
        load_default=None,
        allow_none=True,
        example="The server was down, ticket 4711.",
        description="The reason; by default, the header X-Reason.",
    )
    Undo = Nested(
        ChosenChangesArgs,
        error_messages={"null": NO_CHOICE},
        description="Instead of Rows: undo all these changes, newest first.",
    )
    Players = Nested(
        ChosenPlayersArgs,
        description="Instead of Rows: these players, at most 10,000. Needs Row.",
    )
    Row = Object(description="With Players: the row of each, such as of Rows, without Player.")


class BatchArgs(BatchHeadArgs):
    """A batch: its rows, or which changes to undo."""

    Rows = List(
        Nested(lambda: row_args()()),
        minItems=1,
        maxItems=MOST_ROWS,
        example=[{"Player": PLAYER, "Operation": "give", "ItemId": ITEM, "Quantity": 5}],
    )


class BatchQueryArgs(Schema):
    """The query of a new batch, for CSV, which contains only rows."""

    name = PlainText(LONGEST_NAME, description="The name of the batch, if the body is CSV.")


class ProgressSchema(Schema):
    """The progress of a batch."""

    State = Text(example="running", enum=list(STATES))
    Ready = Integer(0, example=850, description="Rows that are not carried out yet.")
    Done = Integer(0, example=145, description="Rows that were carried out.")
    Refused = Integer(0, example=5, description="Rows that cannot be carried out.")
    Replanned = Integer(
        0, example=2, description="Rows that were checked again because their player had changed."
    )


class BatchSchema(ProgressSchema):
    """A batch: who made it, why, and its progress."""

    Id = Guid(example=BATCH)
    Name = Text(example="Gifts for January")
    Reason = Text(allow_none=True, example="The server was down, ticket 4711.")
    At = Moment(example=AT)
    By = Nested(AuthorSchema)
    Via = Text(example="api", enum=["api", "console", "cli"])
    Undoes = or_null(Guid, "The batch that this one undoes.")
    Retries = or_null(Guid, "The batch whose remaining rows this one tries again.")
    Undo = or_null(Object, "Which changes this one undoes, if it was made from history.")
    Rows = Integer(0, example=1000)
    BegunAt = Moment(allow_none=True, example=BEGUN_AT, description="When it was first run.")
    ApprovedBy = Nested(
        ApproverSchema,
        allow_none=True,
        example=None,
        description="The colleague who approved it, if it was asked for.",
    )
    StartedBy = Nested(
        AuthorSchema,
        allow_none=True,
        example={"UserId": USER_ID, "Name": USER, "Key": None},
        description="Who ran it last. The service continues on behalf of this account.",
    )
    PausedWhy = or_null(Text, "Why the service paused it; null if a person did.")
    EndedAt = or_null(Moment, "When it was done or cancelled.")


class RowSchema(Schema):
    """A row of a batch, and its verdict."""

    Row = Integer(1, example=1, description="Its number, from 1.")
    Player = Text(allow_none=True, example=PLAYER, description="As it was asked for.")
    Subject = Nested(
        SubjectSchema,
        allow_none=True,
        example={"Kind": "player", "Id": PLAYER_ID, "Name": PLAYER},
        description="The player or user; null if there is none.",
    )
    Operation = OneOf(read=batch_operations, allow_none=True, example="give")
    Arguments = Object(example={"ItemId": ITEM, "Quantity": 5})
    Verdict = Text(example="ready", enum=list(VERDICTS))
    Why = or_null(Text, "Why it is refused: the message of the single call.")
    Warning = or_null(Text, "A warning about a row that can be carried out.")
    Version = Integer(
        0,
        allow_none=True,
        example=41,
        description="The Version of the player that it was checked against; null if it is refused.",
    )
    Replanned = Flag(
        example=False, description="Whether it was checked again because the player had changed."
    )
    Entry = or_null(Text, "The history entry; it appears within a second.")


class RowListArgs(CursorListArgs):
    """The query of the rows of a batch."""

    verdict = OneOf(*VERDICTS, "replanned", description="Only rows with this verdict.")
    player = Text(maxLength=NAME_LENGTH, description="Only rows of this character: name or id.")


BatchPageSchema = page_of(BatchSchema, CursorPageSchema)


RowPageSchema = page_of(RowSchema, CursorPageSchema)

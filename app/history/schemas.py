from __future__ import annotations

from marshmallow.validate import Length

from app.core.changes import KINDS
from app.core.naming import NAME_LENGTH
from app.core.operations import operation_names
from app.http.api import Schema
from app.http.examples import ENTRY, ITEM, PLAYER, PLAYER_ID, UNDO_ENTRY, USER, USER_ID
from app.http.fields import Flag, Guid, List, Moment, Nested, Object, Raw, Text
from app.http.lists import CursorListArgs, CursorPageSchema, OneOf, page_of

AT = "2026-01-31T19:04:21.250Z"
LOOKUP_LENGTH = Length(1, NAME_LENGTH, error=f"Must be 1 to {NAME_LENGTH} characters.")


class SubjectSchema(Schema):
    Kind = Text(example="player", enum=list(KINDS))
    Id = Text(example=PLAYER_ID)
    Name = Text(
        allow_none=True, example=PLAYER, description="The name at that time; null for a bag."
    )


class AuthorSchema(Schema):
    UserId = Guid(
        allow_none=True, example=USER_ID, description="Null for changes at the command line."
    )
    Name = Text(
        allow_none=True, example=USER, description="The name of the account or of the system user."
    )
    Key = Text(allow_none=True, example=None, description="The API key that made the change.")


class ApproverSchema(Schema):
    UserId = Guid(example=USER_ID)
    Name = Text(allow_none=True, example="senior")


class FieldChangeSchema(Schema):
    """A changed field. The values of a secret field are not shown."""

    Path = Text(example="Inventory.3")
    Before = Raw(description="Null if there was no value.", example=None)
    After = Raw(
        description="Null if there is no value.",
        example={"ItemId": ITEM, "Quantity": 5},
    )


class EntrySchema(Schema):
    Id = Text(example=ENTRY)
    At = Moment(example=AT)
    Subject = Nested(SubjectSchema)
    Operation = Text(example="give")
    By = Nested(AuthorSchema)
    ApprovedBy = Nested(
        ApproverSchema,
        allow_none=True,
        example=None,
        description="The colleague who approved it, if it was asked for.",
    )
    Via = Text(example="api", enum=["api", "console", "cli", "batch"])
    RequestId = Text(allow_none=True, example="5c8848779587481c9a62")
    Reason = Text(allow_none=True, example="Lost in a crash, ticket 4711.")
    Arguments = Object(
        description="What was asked.",
        example={"ItemId": ITEM, "Quantity": 5, "BankOverflow": False},
    )
    Changes = List(Nested(FieldChangeSchema), description="The result.")
    Undoes = Text(allow_none=True, example=None, description="The entry that this change undid.")
    Warning = Text(allow_none=True, example=None, description="A warning about the change.")
    Batch = Guid(allow_none=True, example=None, description="The batch whose row made the change.")
    UndoneBy = Text(
        allow_none=True, example=None, description="The entry of the change that undid this one."
    )


EntryPageSchema = page_of(EntrySchema, CursorPageSchema)


class UndoSchema(EntrySchema):
    """The entry of an undo; with DryRun, the one that an undo would leave."""

    Id = Text(allow_none=True, example=UNDO_ENTRY, description="Null with DryRun.")
    At = Moment(allow_none=True, example=AT, description="Null with DryRun.")
    Operation = Text(example="undo")
    Arguments = Object(example={"Id": ENTRY})
    Undoes = Text(example=ENTRY, description="The entry that this change undid.")


class SubjectHistoryArgs(CursorListArgs):
    by = Text(description="Changes by this username, user id or system user.")
    key = Text(description="The API key that made the change.")
    operation = OneOf(read=operation_names, description="The operation.")
    item = Guid(description="An item, spell or variable that was requested or changed.")
    reason = Text(description="Words of the reason, in any case and order.")
    since = Moment(data_key="from", description="The earliest time.")
    until = Moment(data_key="to", description="The latest time, exclusive.")


class HistoryArgs(SubjectHistoryArgs):
    player = Text(maxLength=NAME_LENGTH, description="A character's name or id.")
    user = Text(
        maxLength=NAME_LENGTH,
        description="The username or id of the account that was changed.",
    )


PARTIAL = (
    "Undo as much as possible: take back the items that are left, or give back those that fit."
)


class UndoRowArgs(Schema):
    id = Text(required=True, example=ENTRY, validate=LOOKUP_LENGTH)
    is_partial = Flag(
        data_key="partial", history_name="Partial", example=False, description=PARTIAL
    )


class UndoBatchArgs(Schema):
    Partial = Flag(load_default=False, example=False, description=PARTIAL)


class UndoArgs(UndoBatchArgs):
    DryRun = Flag(
        load_default=False,
        example=False,
        description="Change nothing; return in `Changes` what would change.",
    )


class ActivitySchema(Schema):
    Id = Text(example=ENTRY)
    TimeStamp = Moment(example="2026-01-31T19:04:21.250Z")
    UserId = Guid(allow_none=True, example=USER_ID)
    PlayerId = Guid(allow_none=True, example=PLAYER_ID, description="Null in the log of a user.")
    Action = Text(example="give", description="An operation of history, or sign-in.")
    Peer = Text(example="api", description="The interface: API, console or command line.")
    Ip = Text(allow_none=True, example=None, description="Always null: addresses are not kept.")
    # A class attribute Meta would be taken for marshmallow's options.
    meta = Text(
        data_key="Meta",
        example='{"By": {"Name": "demo"}, "Reason": null, "Arguments": {}}',
        description="Details, as JSON text.",
    )


class AddressSchema(Schema):
    Ip = Text(allow_none=True, example=None, description="Always null: addresses are not kept.")
    LastUsed = Moment(example="2026-01-31T19:04:21.250Z", description="When the sign-in began.")
    OtherUsers = Object(description="Always empty: addresses are not kept.", example={})


AddressPageSchema = page_of(AddressSchema)
ActivityPageSchema = page_of(ActivitySchema)

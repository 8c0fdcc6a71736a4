from __future__ import annotations

from app.approvals.domain import LISTS, STATES
from app.core.naming import NAME_LENGTH
from app.history.schemas import ApproverSchema, FieldChangeSchema, SubjectSchema
from app.http.api import Schema
from app.http.examples import BATCH, ITEM, PLAYER
from app.http.fields import Guid, Integer, List, Moment, Nested, Object, PlainText, Text
from app.http.intents import LONGEST_REASON
from app.http.lists import CursorListArgs, CursorPageSchema, OneOf, page_of

AT, ENDS_AT = "2026-01-31T19:04:21.250Z", "2026-02-07T19:04:21.250Z"
ASKED = {"itemid": ITEM, "quantity": 500}


class AskArgs(Schema):
    """What is asked for."""

    Operation = Text(
        required=True,
        example="give",
        description="For example give, take, delete-player, undo, run-batch, erase or set-roles.",
    )
    Subject = PlainText(
        NAME_LENGTH,
        load_default="",
        example=PLAYER,
        description="The name or id of the player or user, or the id of the batch.",
    )
    Arguments = Object(
        load_default=dict,
        example=ASKED,
        description="As in the body of the operation itself.",
    )
    Reason = PlainText(
        LONGEST_REASON,
        load_default="",
        example="Lost in a crash, ticket 4711.",
        description="Why; by default, the header X-Reason.",
    )


class ApproveArgs(Schema):
    Plan = Integer(1, example=1, description="The PlanNumber that you have seen.")


class DeclineArgs(Schema):
    Why = PlainText(LONGEST_REASON, shortest=1, required=True, example="Ask for half of it.")


class ApprovalListArgs(CursorListArgs):
    state = OneOf(*LISTS, description="Only those that wait, or those that were decided.")


class AskedSubjectSchema(SubjectSchema):
    Kind = Text(example="player", enum=["player", "user", "object", "role", "batch"])


class ApprovalSchema(Schema):
    """A request for approval."""

    Id = Guid(example=BATCH)
    State = Text(example="waiting", enum=list(STATES))
    At = Moment(example=AT)
    EndsAt = Moment(example=ENDS_AT, description="Afterwards, nobody can decide on it.")
    Operation = Text(example="give")
    Subject = Nested(AskedSubjectSchema)
    Arguments = Object(example=ASKED)
    By = Nested(ApproverSchema)
    Reason = Text(example="Lost in a crash, ticket 4711.")
    Plan = List(Nested(FieldChangeSchema), description="What would change.")
    PlanNumber = Integer(1, example=1, description="How often it was planned.")
    DecidedBy = Nested(ApproverSchema, allow_none=True, example=None)
    DecidedAt = Moment(allow_none=True, example=None)
    Why = Text(allow_none=True, example=None, description="Why it was declined.")
    Entry = Text(allow_none=True, example=None, description="The history entry of the change.")


ApprovalPageSchema = page_of(ApprovalSchema, CursorPageSchema)

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from marshmallow import ValidationError

from app.http.api import Schema
from app.http.examples import EMAIL, USER, USER_ID
from app.http.fields import Flag, Guid, Nested, PasswordHash, PlainText, Text
from app.http.lists import (
    ASCENDING,
    LegacyPageSchema,
    OneOf,
    PagedListArgs,
    SearchText,
    page_of,
    sort_direction,
)
from app.http.masking import masked
from app.users.domain import is_email, is_username


def require_known(what: str, names: Iterable[str], known: Collection[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        text = f"Contains '{masked(unknown[0][:60])}'; the {what} are {', '.join(known)}."
        raise ValidationError(text)


def must_be_username(text: str) -> None:
    if not is_username(text):
        raise ValidationError("Must be 2 to 20 letters or digits.")


def must_be_email(text: str) -> None:
    if not is_email(text):
        raise ValidationError("Must be an email address.")


def must_be_email_or_empty(text: str) -> None:
    if text:
        must_be_email(text)


# Of a field that is null if it is not given.
OPTIONAL: dict[str, Any] = {"allow_none": True, "load_default": None}
CODE = "The valid reset code, for callers with the role users.manage; else null."
# Not all regex dialects of clients know \p{L}; for ASCII this is the whole rule.
ALPHANUMERIC_ASCII = r"^[^\u0000-/:-@\[-`{-\u007f]*$"
ADDRESS: dict[str, Any] = {"format": "email", "maxLength": 254, "validate": must_be_email}
CURRENT = "The SHA-256 of the user's current password in hex."


class PowerSchema(Schema):
    """The flags that both sets of names share."""

    Editor = Flag(example=False)
    Ban = Flag(example=False)
    Kick = Flag(example=False)
    Mute = Flag(example=False)
    Api = Flag(example=True, description="The role api.")


class QueriedPowerSchema(PowerSchema):
    """What an account may do, as lists and lookups name it."""

    PersonalInformation = Flag(example=False, description="The role users.query.")


class ChangedPowerSchema(PowerSchema):
    """What an account may do, as a change of email names it."""

    ApiPersonalInformation = Flag(example=False, description="The role users.query.")
    ApiUserManagement = Flag(example=False, description="The role users.manage.")


class AccountSchema(Schema):
    """What both forms of a user record share."""

    Id = Guid(required=True, example=USER_ID)
    Name = Text(required=True, example=USER)
    Email = Text(required=True, example=EMAIL)
    PasswordResetCode = Text(allow_none=True, example="K7QF2MZR", description=CODE)
    IsMuted = Flag(example=True)
    MuteReason = Text(allow_none=True, example="Spamming in the market.")


class UserSchema(AccountSchema):
    Power = Nested(QueriedPowerSchema)


class ChangedUserSchema(AccountSchema):
    """An account after its email was changed. A code mailed to the former address stops working."""

    Email = Text(required=True, example="moved@example.com")
    PasswordResetCode = Text(allow_none=True, example=None, description=CODE)

    Power = Nested(ChangedPowerSchema)


UserPageSchema = page_of(UserSchema)


LegacyUserPageSchema = page_of(UserSchema, LegacyPageSchema)


class UserListArgs(PagedListArgs):
    search = SearchText()
    sortBy = OneOf("name", "email", load_default="name", description="The field to sort by.")
    sortDirection = sort_direction(ASCENDING)


class RegisterArgs(Schema):
    username = Text(
        required=True,
        validate=must_be_username,
        example="newcomer",
        description="2 to 20 letters or digits, of any script, and nothing else.",
        unrecorded=True,
        minLength=2,
        maxLength=20,
        pattern=ALPHANUMERIC_ASCII,
    )
    password = PasswordHash(required=True)
    # History has the name as that of the subject, and must not contain the address.
    email = Text(required=True, example="newcomer@example.com", unrecorded=True, **ADDRESS)


class RegisteredSchema(Schema):
    Username = Text(required=True, example="newcomer")
    Email = Text(required=True, example="newcomer@example.com")


class PasswordArgs(Schema):
    password = PasswordHash(required=True)


class MessageSchema(Schema):
    """What came of it."""

    Message = Text(required=True, example="Password Updated")


class RenameUserArgs(Schema):
    name = Text(
        data_key="Name",
        required=True,
        validate=must_be_username,
        example="norunvel2",
        description="The new username.",
    )


class NamedUserSchema(Schema):
    Id = Guid(example=USER_ID)
    Name = Text(example="norunvel2")


class ManageEmailArgs(Schema):
    new = Text(
        required=True,
        example="moved@example.com",
        description="The new address.",
        unrecorded=True,
        **ADDRESS,
    )


class ChangeEmailArgs(ManageEmailArgs):
    authorization = PasswordHash(required=True, description=CURRENT)


class ManagePasswordArgs(Schema):
    new = PasswordHash(required=True, description="The SHA-256 of the new password in hex.")


class ChangePasswordArgs(ManagePasswordArgs):
    authorization = PasswordHash(required=True, description=CURRENT)


class RedeemArgs(ManagePasswordArgs):
    code = Text(required=True, example="K7QF2MZR", description="In any case.", unrecorded=True)


class CompanyAccountArgs(Schema):
    """The claim sub of a company account, which its provider has given it."""

    Subject = PlainText(255, shortest=1, required=True, unrecorded=True)


class ResetSignInArgs(Schema):
    """The new address of somebody who has lost the former; empty: it stays."""

    Email = Text(
        load_default="",
        example="moved@example.com",
        unrecorded=True,
        **{**ADDRESS, "validate": must_be_email_or_empty},
    )


class ResetFactorSchema(Schema):
    """Whose second factor was reset."""

    username = Text(required=True, example="demo")
    MailSent = Flag(
        required=True,
        example=True,
        description="Whether a mail told its owner. If not, tell them yourself.",
    )

from __future__ import annotations

from marshmallow import fields

from app.http.api import Schema
from app.http.fields import Flag, Guid, PasswordHash, Text
from app.http.lists import (
    ASCENDING,
    LegacyPageSchema,
    OneOf,
    PagedListArgs,
    PageSchema,
    SearchText,
    sort_direction,
)


class QueriedPowerSchema(Schema):
    """What an account may do, as lists and lookups name it."""

    Editor = Flag()
    Ban = Flag()
    Kick = Flag()
    Mute = Flag()
    Api = Flag()
    PersonalInformation = Flag()


class ChangedPowerSchema(Schema):
    """What an account may do, as a change of email names it."""

    Editor = Flag()
    Ban = Flag()
    Kick = Flag()
    Mute = Flag()
    Api = Flag()
    ApiPersonalInformation = Flag()
    ApiUserManagement = Flag()


class AccountSchema(Schema):
    """What both forms of a user record share."""

    Id = Guid(required=True)
    Name = Text(required=True)
    Email = Text(required=True)
    PasswordResetCode = Text(
        allow_none=True, metadata={"description": "Shown with the role users.manage, else null."}
    )
    IsMuted = Flag()
    MuteReason = Text(allow_none=True)


class UserSchema(AccountSchema):
    """An account."""

    Power = fields.Nested(QueriedPowerSchema)


class ChangedUserSchema(AccountSchema):
    """An account after its email was changed."""

    Power = fields.Nested(ChangedPowerSchema)


class UserPageSchema(PageSchema):
    """A page of users."""

    Values = fields.List(fields.Nested(UserSchema))


class LegacyUserPageSchema(LegacyPageSchema):
    """A page of users in the former envelope."""

    entries = fields.List(fields.Nested(UserSchema))


class UserListArgs(PagedListArgs):
    """The query of the list of users."""

    search = SearchText(metadata={"description": "3 or more characters of the name."})
    sortBy = OneOf("name", "email", load_default="name")
    sortDirection = sort_direction(ASCENDING)


class RegisterArgs(Schema):
    """A new account."""

    username = Text(required=True, metadata={"description": "2 to 20 letters or digits."})
    password = PasswordHash(required=True)
    email = Text(required=True)


class RegisteredSchema(Schema):
    """The account that was made."""

    Username = Text(required=True)
    Email = Text(required=True)


class PasswordArgs(Schema):
    """A password to check."""

    password = PasswordHash(required=True)


class MessageSchema(Schema):
    """What came of it."""

    Message = Text(required=True)


class ManageEmailArgs(Schema):
    """The new address."""

    new = Text(required=True)


class ChangeEmailArgs(ManageEmailArgs):
    """The new address, and the current password."""

    authorization = PasswordHash(required=True)


class ManagePasswordArgs(Schema):
    """The new password."""

    new = PasswordHash(required=True)


class ChangePasswordArgs(ManagePasswordArgs):
    """The new password, and the current one."""

    authorization = PasswordHash(required=True)


class RedeemArgs(ManagePasswordArgs):
    """The code from the mail, and the new password."""

    code = Text(required=True)

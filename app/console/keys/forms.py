"""The forms that create, rotate and revoke keys: one's own, or anybody's with users.manage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from flask import Response

from app.auth import guard
from app.auth.execution import execute
from app.console.forms.curl import as_number
from app.console.forms.declared import AS_TYPED, NOT_UNDONE, Field, Form, Group
from app.console.forms.object_names import Ambiguous, lines_of, resolve
from app.console.forms.schemas import KEY_DAYS, NewKey, Rotation
from app.console.forms.submissions import Submission
from app.console.frame.pages import done, path_to, see_other
from app.console.stores import users
from app.core.changes import Applied
from app.core.errors import Invalid, InvalidField
from app.core.naming import Lookup
from app.core.permissions import SCOPES, Permission, scope_texts
from app.core.types import Document
from app.http.intents import intent
from app.http.parser import load
from app.users.api_keys.management import create_key, rotate_key
from app.users.api_keys.operations import CREATE_KEY, REVOKE_KEY, ROTATE_KEY
from app.users.api_keys.schemas import LONGEST_NAME, MOST_ITEMS, OVERLAP_HOURS, KeyArgs
from app.users.oauth.sign_ins import owner


def own() -> Lookup:
    return Lookup.parse(guard.caller().id)


def make(sent: Submission, key: Lookup | None = None) -> Applied:
    account = key or own()
    owner(account)
    args = load(KeyArgs(), key_body(sent, item_ids))
    days = sent.args["Days"]
    # The expiry time depends on now, so a repeated form is recognised by the number of days.
    meant = intent(CREATE_KEY, {**args, "Days": days})
    return create_key(account, {**args, "ExpiresAt": users.now() + timedelta(days=days)}, meant)


def rotate(sent: Submission, key_id: str, key: Lookup | None = None) -> Applied:
    account = key or own()
    owner(account)
    hours, days = sent.args["OverlapHours"], sent.args["Days"]
    meant = intent(ROTATE_KEY, {"Id": key_id, "OverlapHours": hours, "Days": days})
    args = {"Id": key_id, "OverlapHours": hours}
    ends = users.now() + timedelta(days=days)
    return rotate_key(account, {**args, "ExpiresAt": ends}, meant._replace(arguments=args))


def revoke(_: Submission, key_id: str, key: Lookup | None = None) -> Applied:
    return execute(REVOKE_KEY, key or own(), {"Id": key_id})


def show_made(made: Applied, sent: Submission, **path: Any) -> Response:
    """Show a new key. Its secret is only in the response to the form, never in a URL."""
    return sent.show(None, made=made, **path)


def after_revoking(
    applied: Applied, _: Submission, key: Lookup | None = None, **__: Any
) -> Response:
    page = ("keys",) if key is None else ("users", key, "keys")
    if guard.caller().may(Permission.USERS_READ):
        return done(applied, path_to(*page))
    # Without the right to see accounts, callers cannot see the entry, even of their own account.
    return see_other(path_to(*page, done="revoked"))


def key_body(sent: Submission, read_items: Callable[[str], list[str]] | None = None) -> Document:
    """Return the body for the API that creates a key, from the typed values."""
    limits = {name: sent.value(name) for name in ("LargestQuantity", "ItemsPerDay")}
    budget: Document = {name: as_number(text) for name, text in limits.items() if text}
    if items := (read_items or lines_of)(sent.value("Items")):
        budget["Items"] = items
    scopes = [name for name in SCOPES if sent.is_checked(name)]
    body: Document = {"Name": sent.value("Name"), "Scopes": scopes}
    if addresses := sent.value("Addresses").replace(",", " ").split():
        body["Addresses"] = addresses
    return {**body, "Budget": budget} if budget else body


def item_ids(text: str) -> list[str]:
    """Return the ids of the items in a text, one per line."""
    lines = lines_of(text)
    if len(lines) > MOST_ITEMS:
        raise InvalidField("Items", f"Must be {MOST_ITEMS} items or fewer.")
    return list(dict.fromkeys(map(item_id, lines)))


def item_id(text: str) -> str:
    try:
        return resolve("Items", "item", text)
    except Ambiguous as error:
        what = (
            f"several items are called {text}" if error.is_shared else f"no item is called {text}"
        )
        fault = f"In the catalogue, {what}: enter the id of the item."
        raise Invalid(fault, {"Items": [fault]}) from None


def endpoint(sent: Submission) -> str:
    """Return the endpoint for keys: one's own, or those of a user."""
    operation: Any = sent.form.operation
    method, path = operation.route
    owner_id = sent.target.record["Owner"]
    of_user = "" if owner_id == guard.caller().id else f"?user={quote(owner_id)}"
    return f"{method} {path}{of_user}"


NAME = Field(
    "Name",
    "Name",
    "What the key is for. History shows this name with each change.",
    html={"maxlength": LONGEST_NAME, "autocomplete": "off"},
)
PERMISSIONS = Field(
    "Scopes",
    "What it may do",
    type="checks",
    options=scope_texts,
)
DAYS = Field(
    "Days", "Days until it expires", value=KEY_DAYS, noun="The number of days", is_required=True
)
NETWORKS = Field(
    "Addresses",
    "Addresses",
    "Networks that may use the key, such as 203.0.113.0/24.",
    noun="The list of addresses",
    html=AS_TYPED,
)
BUDGET = (
    Field("LargestQuantity", "Largest quantity per request"),
    Field("ItemsPerDay", "Items per day", "The total of all items from midnight to midnight, UTC."),
    Field(
        "Items",
        "Only these items",
        "Names or ids, one on each line.",
        type="area",
        noun="The list of items",
        html={"rows": 2, "maxlength": 40000},
    ),
)
HOURS = Field(
    "OverlapHours",
    "Hours until the former secret expires",
    value=OVERLAP_HOURS,
    noun="The number of hours",
    is_required=True,
)
CREATE = Form(
    CREATE_KEY,
    "Create a key",
    "Create the key",
    (NAME, PERMISSIONS, DAYS, NETWORKS, Group("field", BUDGET, legend="Budget")),
    path="",
    act=make,
    api=endpoint,
    schema=NewKey(),
    body=key_body,
    lead=show_made,
    is_sensitive=True,
)
ROTATE = Form(
    ROTATE_KEY,
    "Rotate…",
    "Rotate",
    (HOURS, DAYS),
    name="rotate",
    path="<key_id>/rotate",
    row="key_id",
    act=rotate,
    api=endpoint,
    about=(
        "The key gets a new secret, which is shown once. Name, permissions, addresses and budget "
        "stay the same."
    ),
    schema=Rotation(),
    body=lambda sent: {"OverlapHours": as_number(sent.value("OverlapHours", "HOURS"))},
    replaces="Keys.{key_id}",
    lead=show_made,
    is_sensitive=True,
)
REVOKE = Form(
    REVOKE_KEY,
    "Revoke…",
    "Revoke",
    name="revoke",
    path="<key_id>/revoke",
    row="key_id",
    act=revoke,
    api=endpoint,
    about="Tools that use this key are refused within seconds.",
    confirm=NOT_UNDONE,
    lead=after_revoking,
    is_sensitive=True,
)
FORMS = {"keys": (CREATE, ROTATE, REVOKE)}

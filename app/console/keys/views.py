"""The page of one's own keys, and what shows the keys of anybody with users.manage."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response

from app.console.forms.declared import (
    AS_TYPED,
    NOT_COMPLETED,
    NOT_UNDONE,
    Field,
    Form,
    Group,
    Target,
)
from app.console.forms.places import Place
from app.console.forms.schemas import KEY_DAYS, NewKey, Rotation
from app.console.forms.submissions import Submission, forms_on, submitted
from app.console.frame.pages import PAGE_SIZE, path_to, render
from app.console.history.tables import changes_of, names_in
from app.core.changes import Applied
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.permissions import Permission, scope_texts
from app.core.types import Document, value_at
from app.users.api_keys.management import CREATE_KEY, REVOKE_KEY, ROTATE_KEY, list_keys
from app.users.api_keys.schemas import OVERLAP_HOURS
from app.users.oauth.sign_ins import owner
from app.users.store import users


def own_keys_page(key: Lookup, made: Applied | None = None, **_: Any) -> Response:
    return render("keys/own.html", **keys_part(owner(key), path_to("keys"), made))


def keys_part(account: Document, path: str, made: Applied | None) -> Document:
    """Return the part about the keys of an account; path is that of the page."""
    keys, sent = list_keys(account["_id"]), submitted()
    entries = changes_of("user", account["_id"], PAGE_SIZE)["entries"]
    names = names_in(keys)
    target = partial(Target, record={"Owner": account["_id"]}, entries=entries)
    for key in keys:
        items = value_at(key, "Budget.Items") or ()
        about = target(f"{path}/{key['Id']}", key["Id"], key["Name"])
        key |= {
            "HasEnded": key["ExpiresAt"] <= users.now(),
            "ItemNames": [names.get(id_) or id_ for id_ in items],
            "Forms": forms_on([ROTATE, REVOKE], about, key["Id"]).values(),
        }
    forms = forms_on([CREATE], target(path))
    return {
        "keys": keys,
        "owner_id": account["_id"],
        "made": made,
        # A submitted form of no key that is listed: somebody has revoked it meanwhile.
        "lost": [sent] if sent and not sent.target.path else [],
        "forms": forms,
    }


def find_key(key: Lookup, key_id: str = "") -> Target:
    """Return the account of a key form as its target, with the name of the key."""
    account = owner(key)
    for found in list_keys(account["_id"]):
        if found["Id"] == key_id:
            return Target("", account["_id"], found["Name"])
    raise NotFound("key", key_id)


def endpoint(sent: Submission) -> str:
    operation: Any = sent.form.operation
    method, path = operation.route
    return f"{method} {path}?user={sent.target.record['Owner']}"


key_form = partial(Form, api=endpoint, is_sensitive=True)
row_form = partial(key_form, row="key_id", path_arguments={"Id": "key_id"})
DAYS = Field("Days", "Days until it expires", value=KEY_DAYS, is_required=True)
WHAT_FOR = "What the key is for. History shows this name with each change."
NETWORKS = "Networks that may use the key, such as 203.0.113.0/24."
A_DAY = "The total of all items from midnight to midnight, UTC."
LINES = "Names or ids, one on each line."
AREA = {"rows": 2, "maxlength": 40000}
BUDGET = (
    Field("LargestQuantity", "Largest quantity per request"),
    Field("ItemsPerDay", "Items per day", A_DAY),
    Field("Items", "Only these items", LINES, type="area", object_type="item", html=AREA),
)
OVERLAP = "Hours until the former secret expires"
CREATE = key_form(
    CREATE_KEY,
    "Create a key",
    "Create the key",
    (
        Field("Name", "Name", WHAT_FOR, html=NOT_COMPLETED),
        Field("Scopes", "What it may do", type="checks", options=scope_texts),
        DAYS,
        Field("Addresses", "Addresses", NETWORKS, html=AS_TYPED),
        Group("field", BUDGET, "Budget", "Budget"),
    ),
    path="",
    schema=NewKey(),
    shows_outcome=True,
)
ROTATE = row_form(
    ROTATE_KEY,
    "Rotate…",
    "Rotate",
    (Field("OverlapHours", OVERLAP, value=OVERLAP_HOURS, is_required=True), DAYS),
    name="rotate",
    path="<key_id>/rotate",
    about=(
        "The key gets a new secret, which is shown once. Name, permissions, addresses and budget "
        "stay the same."
    ),
    schema=Rotation(),
    replaces="Keys.{key_id}",
    shows_outcome=True,
)
REVOKE = row_form(
    REVOKE_KEY,
    "Revoke…",
    "Revoke",
    name="revoke",
    path="<key_id>/revoke",
    about="Tools that use this key are refused within seconds.",
    confirm=NOT_UNDONE,
    # Without the permission to see accounts, nobody sees the entry, even of the own account.
    notice="revoked",
)
FORMS = {"keys": (CREATE, ROTATE, REVOKE)}
Place("/keys", FORMS, own_keys_page, find_key, needs=(Permission.KEYS_MANAGE,), is_own=True)

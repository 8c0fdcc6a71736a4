"""The pages of keys: one's own, and with users.manage those of anybody."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response

from app.api_keys.management import Made, list_keys
from app.auth.roles import Role
from app.auth.scopes import ABOUT, Scope
from app.console.forms.declared import Target
from app.console.forms.meanwhile import newer_than, newest
from app.console.forms.places import Found, Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.cards import key_card
from app.console.frame.pages import PAGE_SIZE, path_to, render
from app.console.history.tables import with_names
from app.console.keys.forms import CREATE, FORMS, REVOKE, ROTATE, own
from app.console.users.views import user_page
from app.errors import NotFound
from app.history.access import page as history_page
from app.http.context import current
from app.naming import Lookup
from app.oauth.sign_ins import owner
from app.objects.store import Objects
from app.types import Document
from app.users.store import Users

objects = current(Objects)
users = current(Users)


def own_keys_page(
    _: str = "", sent: Submission | None = None, made: Made | None = None, **__: Any
) -> Response:
    account = owner(own())
    entries = with_names(history_page({}, PAGE_SIZE, ("user",), account["_id"]).values)
    newer = newer_than(sent.seen, entries) if sent and sent.error else []
    changes = {"seen": newest(entries), "newer": newer}
    shown = keys_part(account, changes, path_to("keys"), sent, made)
    return render("keys/own.html", sent=sent, **shown)


def user_keys_page(
    tab: str, sent: Submission | None, key: Lookup, made: Made | None = None, **_: Any
) -> Response:
    def content(user: Document, changes: Document) -> dict[str, Any]:
        return keys_part(user, changes, path_to("users", user["_id"], "keys"), sent, made)

    return user_page(tab, sent, key, content)


def keys_part(
    account: Document, changes: Document, path: str, sent: Submission | None, made: Made | None
) -> dict[str, Any]:
    """Return what pages show of the keys of an account; path is that of the page."""
    records = list_keys(account["_id"])
    names = objects.names_of({id_ for record in records for id_ in items_of(record)})
    now = users.now()
    target = partial(Target, seen=changes["seen"], newer=changes["newer"])
    of_account = {"Owner": account["_id"]}
    keys = []
    for record in records:
        about = target(f"{path}/{record['Id']}", record["Id"], record["Name"], of_account)
        forms = forms_on([ROTATE, REVOKE], about, sent, record["Id"])
        keys.append({**key_card(record, names, now), "Forms": forms.values()})
    # The form of a key that is not among these: somebody has revoked it meanwhile.
    is_lost = sent and sent.form is not CREATE and all(sent not in key["Forms"] for key in keys)
    return {
        "keys": keys,
        "owner_id": account["_id"],
        "made": made and {"record": made.record, "secret": made.secret, "is_new": is_new(made)},
        "scopes": [(scope.value, ABOUT[scope]) for scope in Scope],
        "lost": [sent] if is_lost else [],
        "forms": forms_on([CREATE], target(path, record=of_account), sent),
    }


def items_of(record: Document) -> list[str]:
    items = (record["Budget"] or {}).get("Items")
    return [id_ for id_ in items if isinstance(id_, str)] if isinstance(items, list) else []


def is_new(made: Made) -> bool:
    """Tell whether a key was made, and not rotated."""
    entry = made.applied.entry
    return entry is not None and entry["Operation"] == "create-key"


def find_key(key: Lookup | None = None, key_id: str = "") -> Found:
    """Return the account of some keys, and the name of the key that a form is about."""
    account = owner(key or own())
    names = {record["Id"]: record["Name"] for record in list_keys(account["_id"])}
    if key_id not in names:
        raise NotFound("key", key_id)
    return Found(account["_id"], names[key_id])


register(Place("/keys", ("keys",), FORMS, own_keys_page, find_key, "user"))
register(
    Place(
        "/users/<lookup:key>/keys",
        ("users", "keys"),
        FORMS,
        user_keys_page,
        find_key,
        "user",
        roles=(Role.USERS_QUERY, Role.USERS_MANAGE),
    )
)

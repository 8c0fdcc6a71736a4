"""The pages of keys: one's own, or anybody's with users.manage."""

from __future__ import annotations

from functools import partial
from typing import Any

from flask import Response

from app.console.forms.declared import Target
from app.console.forms.places import Found, Place, register
from app.console.forms.submissions import Submission, forms_on
from app.console.frame.pages import PAGE_SIZE, path_to, render
from app.console.history.tables import changes_of
from app.console.keys.forms import CREATE, FORMS, REVOKE, ROTATE, own
from app.console.stores import objects, users
from app.console.users.views import user_page
from app.core.changes import Applied
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.users.api_keys.management import list_keys
from app.users.api_keys.operations import CREATE_KEY
from app.users.oauth.sign_ins import owner


def own_keys_page(
    _: str = "", sent: Submission | None = None, made: Applied | None = None, **__: Any
) -> Response:
    account = owner(own())
    entries = changes_of("user", account["_id"], PAGE_SIZE)["entries"]
    shown = keys_part(account, entries, path=path_to("keys"), sent=sent, made=made)
    return render("keys/own.html", sent=sent, **shown)


def user_keys_page(
    tab: str, sent: Submission | None, key: Lookup, made: Applied | None = None, **_: Any
) -> Response:
    return user_page(tab, sent, key, partial(keys_part, sent=sent, made=made))


def keys_part(
    account: Document,
    entries: list[Document],
    sent: Submission | None,
    made: Applied | None,
    path: str = "",
) -> dict[str, Any]:
    """Return the part about the keys of an account; path is that of the page."""
    path = path or path_to("users", account["_id"], "keys")
    records = list_keys(account["_id"])
    names = objects.names_of({id_ for record in records for id_ in items_of(record)})
    target = partial(Target, record={"Owner": account["_id"]}, entries=entries)
    keys = []
    for record in records:
        about = target(f"{path}/{record['Id']}", record["Id"], record["Name"])
        keys.append(
            {
                **record,
                "HasEnded": record["ExpiresAt"] <= users.now(),
                "ItemNames": [names.get(id_) or id_ for id_ in items_of(record)],
                "Forms": forms_on([ROTATE, REVOKE], about, sent, record["Id"]).values(),
            }
        )
    # A submitted form whose key is not listed: somebody has revoked it meanwhile.
    is_lost = sent and sent.form is not CREATE and all(sent not in key["Forms"] for key in keys)
    entry = made.entry if made else None
    is_new = bool(entry and entry["Operation"] == CREATE_KEY.name)
    return {
        "keys": keys,
        "owner_id": account["_id"],
        "made": made and {"record": made.answer, "is_new": is_new},
        "lost": [sent] if is_lost else [],
        "forms": forms_on([CREATE], target(path), sent),
    }


def items_of(record: Document) -> list[str]:
    return (record["Budget"] or {}).get("Items") or []


def find_key(key: Lookup | None = None, key_id: str = "") -> Found:
    """Return the account of a key form as its target, with the name of the key."""
    account = owner(key or own())
    names = {record["Id"]: record["Name"] for record in list_keys(account["_id"])}
    if key_id not in names:
        raise NotFound("key", key_id)
    return Found(account["_id"], names[key_id])


MANAGE = (Permission.USERS_READ, Permission.USERS_MANAGE)
PATH, PARTS = "/users/<lookup:key>/keys", ("users", "keys")
register(
    Place(
        "/keys", ("keys",), FORMS, own_keys_page, find_key, "user", needs=(Permission.KEYS_MANAGE,)
    )
)
register(Place(PATH, PARTS, FORMS, user_keys_page, find_key, "user", needs=MANAGE))

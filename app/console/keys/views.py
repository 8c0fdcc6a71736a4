"""The pages of keys: one's own, and with users.manage those of anybody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from flask import Response, request

from app.api_keys.management import (
    Made,
    create_key,
    list_keys,
    revoke_key,
    rotate_key,
    terms_of,
    told,
)
from app.api_keys.operations import CREATE_KEY, REVOKE_KEY, ROTATE_KEY
from app.api_keys.schemas import MOST_ITEMS, OVERLAP_HOURS, KeyArgs
from app.auth import guard
from app.auth.roles import Role
from app.auth.scopes import ABOUT, Scope
from app.console.forms.curl import api_path, as_number, curl
from app.console.forms.forms import (
    Ambiguous,
    Form,
    attempt,
    form_status,
    newer_than,
    newest,
    require_unchanged,
    resolve,
)
from app.console.forms.schemas import KEY_DAYS, LONGEST_KEY_DAYS, NewKey, Rotation
from app.console.frame.cards import key_card
from app.console.frame.pages import (
    PAGE_SIZE,
    blp,
    done,
    path_to,
    render,
    required,
    see_other,
    with_names,
)
from app.console.users.views import manage, user_page
from app.errors import Invalid
from app.history.access import page as history_page
from app.http.context import current
from app.http.intents import intent
from app.http.parser import load
from app.http.path_converters import path_guid
from app.naming import Lookup, name_key
from app.oauth.sign_ins import owner
from app.objects.store import Objects
from app.types import Document
from app.users.store import Users

REVOKED = "revoked"
# What a curl line has in place of a number that nobody has typed.
HOURS = ("OverlapHours", "HOURS")

objects = current(Objects)
users = current(Users)

# A page of keys, with a form that was refused, or with a key that was just made.
Show = Callable[[Form | None, Made | None], Response]


@blp.get("/keys")
@required()
def show_own_keys() -> Response:
    return own_keys_page()


@blp.post("/keys")
@required()
def create_own_key() -> Response:
    return created(own(), own_keys_page)


@blp.post("/keys/<key_id>/rotate")
@required()
def rotate_own_key(key_id: str) -> Response:
    return rotated(own(), key_id, own_keys_page)


@blp.post("/keys/<key_id>/revoke")
@required()
def revoke_own_key(key_id: str) -> Response:
    return revoked(own(), key_id, own_keys_page, "keys")


@blp.get("/users/<lookup:key>/keys")
@manage
def show_user_keys(key: Lookup) -> Response:
    return keys_page_of(key)(None, None)


@blp.post("/users/<lookup:key>/keys")
@manage
def create_user_key(key: Lookup) -> Response:
    return created(key, keys_page_of(key))


@blp.post("/users/<lookup:key>/keys/<key_id>/rotate")
@manage
def rotate_user_key(key: Lookup, key_id: str) -> Response:
    return rotated(key, key_id, keys_page_of(key))


@blp.post("/users/<lookup:key>/keys/<key_id>/revoke")
@manage
def revoke_user_key(key: Lookup, key_id: str) -> Response:
    return revoked(key, key_id, keys_page_of(key), "users", key, "keys")


def own() -> Lookup:
    return Lookup.parse(guard.caller().id)


def own_keys_page(form: Form | None = None, made: Made | None = None) -> Response:
    account = owner(own())
    entries = with_names(history_page({}, PAGE_SIZE, ("user",), account["_id"]).values)
    return render(
        "keys/own.html",
        form_status(form),
        form=form,
        seen=newest(entries),
        newer=newer_than(form.seen, entries) if form and form.error else [],
        **keys_part(account, path_to("keys"), form, made),
    )


def keys_page_of(key: Lookup) -> Show:
    """Return what shows the keys of an account, on the page of its user."""

    def show(form: Form | None, made: Made | None) -> Response:
        def content(user: Document) -> dict[str, Any]:
            return keys_part(user, path_to("users", user["_id"], "keys"), form, made)

        return user_page(key, "keys", form, content)

    return show


def created(key: Lookup, show: Show) -> Response:
    """Make a key. Its text is in the answer to the form, and nowhere else: not in a path."""
    form = Form.posted("create-key")

    def act() -> Made:
        account = owner(key)
        typed = form.load(NewKey())
        args = load(KeyArgs(), wanted_key(form, typed))
        # The end is counted from now: what tells the same form again is the number of days.
        meant = intent(CREATE_KEY, **args, Days=typed["Days"])
        now = users.now()
        args["ExpiresAt"] = now + timedelta(days=typed["Days"])
        terms = terms_of(args, now)
        return create_key(account["_id"], terms, meant._replace(arguments=told(terms)))

    return shown(form, attempt(form, act), show)


def rotated(key: Lookup, key_id: str, show: Show) -> Response:
    id_ = path_guid("id", key_id)
    form = Form.posted(f"rotate-{id_}")

    def act() -> Made:
        account = owner(key)
        typed = form.load(Rotation())
        hours, days = typed["OverlapHours"], typed["Days"]
        require_unchanged(form, changes_of_key(account["_id"], id_), guard.caller().id)
        meant = intent(ROTATE_KEY, Id=id_, OverlapHours=hours, Days=days)
        meant = meant._replace(arguments={"Id": id_, "OverlapHours": hours})
        ends = users.now() + timedelta(days=days)
        return rotate_key(account, id_, timedelta(hours=hours), ends, meant)

    return shown(form, attempt(form, act), show)


def revoked(key: Lookup, key_id: str, show: Show, *page: Any) -> Response:
    id_ = path_guid("id", key_id)
    form = Form.posted(f"revoke-{id_}")

    def act() -> Any:
        account = owner(key)
        held = {record["Id"]: record["Name"] for record in list_keys(account["_id"])}
        if id_ in held:
            require_key_name(form, held[id_])
        return revoke_key(account, id_, intent(REVOKE_KEY, Id=id_))

    applied = attempt(form, act)
    if applied is None:
        return show(form, None)
    if Role.USERS_QUERY in guard.caller().roles:
        return done(applied, path_to(*page))
    # Whoever may not see accounts sees no entry of one, not even of their own.
    return see_other(path_to(*page, done=REVOKED))


def shown(form: Form, made: Made | None, show: Show) -> Response:
    return show(form, None) if made is None else show(None, made)


def require_key_name(form: Form, name: str) -> None:
    """Refuse to revoke a key unless somebody has typed which one."""
    if name_key(form.value("confirm").strip()) != name_key(name.strip()):
        fault = f"Type {name} here: this cannot be undone."
        raise Invalid(fault, {"confirm": [fault]})


def changes_of_key(user_id: str, key_id: str) -> list[Document]:
    entries = history_page({}, PAGE_SIZE, ("user",), user_id).values
    path = f"Keys.{key_id}"
    return [entry for entry in entries if any(c["Path"] == path for c in entry["Changes"])]


def wanted_key(form: Form, typed: Document) -> Document:
    """Return what was typed as the body by which the API makes a key."""
    limits = {name: typed[name] for name in ("LargestQuantity", "ItemsPerDay")}
    budget = {**limits, "Items": item_ids(typed["Items"])}
    has_budget = any(limit is not None for limit in budget.values())
    return {
        "Name": typed["Name"],
        "Scopes": checked_scopes(form),
        "Addresses": addresses_in(typed["Addresses"]) or None,
        "Budget": budget if has_budget else None,
    }


def checked_scopes(form: Form) -> list[str]:
    return [scope.value for scope in Scope if form.is_checked(scope.value)]


def addresses_in(text: str) -> list[str]:
    return text.replace(",", " ").split()


def item_ids(text: str) -> list[str] | None:
    """Return the ids of the items that a text names, one on each line; None if it names none."""
    lines = lines_of(text)
    if len(lines) > MOST_ITEMS:
        fault = f"Must be {MOST_ITEMS} items or fewer."
        raise Invalid(f"The field 'Items' {fault[:1].lower()}{fault[1:]}", {"Items": [fault]})
    return list(dict.fromkeys(map(item_id, lines))) or None


def item_id(text: str) -> str:
    try:
        return resolve("Items", "item", text)
    except Ambiguous as error:
        what = f"several have the name {text}" if error.is_shared else f"nothing is called {text}"
        fault = f"In the catalogue, {what}: write the id of the item."
        raise Invalid(fault, {"Items": [fault]}) from None


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def keys_part(account: Document, path: str, form: Form | None, made: Made | None) -> dict[str, Any]:
    """Return what pages show of the keys of an account; path is that of the page."""
    records = list_keys(account["_id"])
    names = objects.names_of({id_ for record in records for id_ in items_of(record)})
    now = users.now()
    ids = {record["Id"] for record in records}
    posted = form.name.partition("-")[2] if form else ""
    return {
        "keys": [key_card(record, names, now) for record in records],
        "keys_path": path,
        "owner_id": account["_id"],
        "made": made and {"record": made.record, "secret": made.secret, "is_new": is_new(made)},
        "scopes": [(scope.value, ABOUT[scope]) for scope in Scope],
        "days": KEY_DAYS,
        "longest_days": LONGEST_KEY_DAYS,
        "overlap_hours": OVERLAP_HOURS,
        # The form of a key that is not among these: somebody has revoked it meanwhile.
        "lost": form if form and posted not in {*ids, "key"} else None,
        "key_curl": lambda *args: key_curl(account["_id"], *args),
        "rotation_body": lambda posted: {"OverlapHours": as_number(posted.value(*HOURS))},
        "key_body": lambda: key_body(form if form and form.name == "create-key" else None),
    }


def items_of(record: Document) -> list[str]:
    items = (record["Budget"] or {}).get("Items")
    return [id_ for id_ in items if isinstance(id_, str)] if isinstance(items, list) else []


def is_new(made: Made) -> bool:
    """Tell whether a key was made, and not rotated."""
    entry = made.applied.entry
    return entry is not None and entry["Operation"] == "create-key"


def key_curl(
    user_id: str, form: Form, method: str, key_id: str = "", verb: str = "", body: Any = None
) -> str:
    """Return the curl line of a form about the keys of an account."""
    path = filter(None, ("keys", key_id, verb))
    base = request.host_url.rstrip("/")
    of_user = "" if user_id == guard.caller().id else f"?user={quote(user_id)}"
    where = f"{api_path(*path)}{of_user}"
    return curl(base, method, where, body, reason=form.value("reason"))


def key_body(form: Form | None) -> Document:
    """Return the body that makes a key, as far as it was typed."""
    if form is None:
        return {"Name": "", "Scopes": []}
    limits = {name: form.value(name) for name in ("LargestQuantity", "ItemsPerDay")}
    budget: Document = {name: as_number(text) for name, text in limits.items() if text}
    if items := lines_of(form.value("Items")):
        budget["Items"] = items
    body: Document = {"Name": form.value("Name"), "Scopes": checked_scopes(form)}
    if addresses := addresses_in(form.value("Addresses")):
        body["Addresses"] = addresses
    return {**body, "Budget": budget} if budget else body

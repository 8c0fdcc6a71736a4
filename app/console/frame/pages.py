"""Shared by all pages of the console: the blueprint, the frame, the headers and the notices."""

from __future__ import annotations

import functools
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote, urlencode

from flask import Blueprint, Response, current_app, request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from app.approvals.access import filters_of
from app.approvals.store import approvals
from app.auth import guard
from app.console.forms.submissions import submitted
from app.console.frame import times
from app.console.frame.files import file_path
from app.console.game.actions import MARK, cards
from app.console.history import sentences
from app.console.history.tables import is_undoable, names_in
from app.console.session import sessions as session
from app.core.changes import Applied
from app.core.errors import QuartermasterError
from app.core.permissions import Permission
from app.core.texts import short_text, whole_text, words_of
from app.core.types import Document
from app.game.actions.asking import Answer, visible_action
from app.history.access import visible_entry
from app.history.store import history
from app.players.store import players
from app.users.mail import mailer
from app.users.oauth.sign_ins import REVOKE_TOKENS
from app.users.operations import MAIL_RESET_CODE
from app.users.staff.operations import CREATE_ROLE, INVITE
from app.users.store import users

PREFIX = "/console"
SERVICE = "Quartermaster"
PAGE_SIZE = 25
# All files come from the same origin; pages have no inline scripts or styles.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Cookie",
}
# The endpoint of unknown paths.
NOWHERE = "console.nowhere"
# The pages that the menu marks, by the first segment of a path, if their names differ.
OTHER_PAGES = {"": "home", "search": "home", "roles": "staff"}

blp = Blueprint("console", __name__, url_prefix=PREFIX)


required = session.required
# How long a page shows the notice of a form.
NEWS = timedelta(minutes=10)
NEWS_WITHOUT_ENTRY = {
    "nothing": "Nothing changed.",
    "ended": "The sign-in was ended.",
    "revoked": "The key was revoked.",
    "recovery-code": "You signed in with a recovery code. It does not work again.",
    "factor-off": "Your second factor is switched off.",
    "factor-reset": "The second factor was reset. No mail could be sent: tell the person yourself.",
    "asked": "Colleagues who may approve it see your request.",
    "approved": "Approved: the batch can be run by the person who asked.",
    "made": "Approved: the change is made.",
    "declined": "The request was declined.",
    "withdrawn": "The request was withdrawn.",
    "batch-cancelled": "The batch was cancelled.",
    "batch-running": "The batch was started.",
    "batch-paused": "The batch is paused.",
    "batch-done": "No row of the batch is left to run.",
}
# Operations whose entries contain no changes.
WITHOUT_CHANGES = tuple(operation.name for operation in (REVOKE_TOKENS, INVITE, CREATE_ROLE))


def path_to(*parts: Any, **query: Any) -> str:
    """Return a path of the console, percent-encoded."""
    path = "/".join((PREFIX, *(quote(str(part), safe=":") for part in parts)))
    wanted = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def local(path: str, otherwise: str = PREFIX) -> str:
    """Return a path from a form or link if it is within the console, otherwise another."""
    is_ours = path == PREFIX or path.startswith((f"{PREFIX}/", f"{PREFIX}?"))
    # Browsers treat a backslash as a slash, drop control characters, and resolve "..".
    parts = unquote(path.partition("?")[0]).split("/")
    is_plain = path.isprintable() and "\\" not in path and not {".", ".."} & set(parts)
    return path if is_ours and is_plain else otherwise


@functools.cache
def templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("app.console", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    texts = (number, short_number, short_text, whole_text, words_of)
    moments = (times.iso, times.utc_field, times.with_times)
    environment.filters |= {one.__name__: one for one in (*texts, *moments)}
    environment.globals |= {
        "path_to": path_to,
        "file_path": file_path,
        "icon_tag": icon_tag,
        "time_tag": times.time_tag,
        "duration": sentences.duration,
        "Permission": Permission,
        "new_key": lambda: str(uuid.uuid4()),
    }
    return environment


@functools.cache
def icon_tag(name: str, css_class: str = "icon") -> Markup:
    icons: Any = templates().get_template("frame/icons.html").module
    return Markup(
        '<svg class="{}" viewBox="0 0 24 24" aria-hidden="true" focusable="false">'
        '<path d="{}"/></svg>'
    ).format(css_class, icons.icons[name])


def number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def short_number(value: int) -> str:
    """Return an abbreviated number that fits into a slot; the page also has the exact one."""
    if value < 10**7:
        return number(value)
    sizes = ((10**12, "T"), (10**9, "B"), (10**6, "M"))
    size, letter = next(one for one in sizes if value >= one[0])
    parts = value / size
    return f"{parts:,.0f}{letter}" if parts >= 100 else f"{parts:.3g}{letter}"


def render(template: str, status: int | None = None, **context: Any) -> Response:
    """Return a page for a signed-in caller, with the form that was submitted to it, if any."""
    caller, sent = guard.caller(), submitted()
    # Shown beside the pages that the caller may open.
    counts = {"users": users.count(), "players": players.count()}
    if caller.may(Permission.APPROVE):
        counts["approvals"] = approvals.count_waiting(filters_of("waiting"))
    part = request.path.removeprefix(PREFIX).strip("/").partition("/")[0]
    return page(
        template,
        status or (sent.status if sent else 200),
        person=caller,
        may=caller.may,
        opens=opens,
        sees_users=caller.may(Permission.USERS_READ),
        counts=counts,
        form_token=session.form_token(),
        sent=sent,
        notice=current_notice(),
        here=here(),
        page=OTHER_PAGES.get(part, part),
        reason_required=current_app.config["REASON_REQUIRED"],
        query=request.args.get("q", ""),
        **context,
    )


def opens(path: str) -> bool:
    """Tell whether the caller may open a page, by what its view declares."""
    endpoint = endpoint_of(unquote(path.partition("?")[0]))
    view: Any = current_app.view_functions[endpoint]
    return guard.caller().may(*(view.permissions or ()))


def endpoint_of(path: str, method: str = "GET") -> str:
    """Return the endpoint of a path; NOWHERE if there is no such page or form."""
    endpoint: str = current_app.url_map.bind("").match(path, method)[0]
    return endpoint


def here() -> str:
    """Return the path of this page, without the notice of the form before it.

    After a refused form, return the path of the page that the form is on.
    """
    query = [(name, value) for name, value in request.args.items(multi=True) if name != "done"]
    path = quote(request.path if request.method in session.SAFE_METHODS else page_of_form())
    return f"{path}?{urlencode(query)}" if query else path


def page_of_form() -> str:
    """Return the path of the page that a form is on: its own path, or the nearest one above."""
    path = request.path
    while path != PREFIX and endpoint_of(path) == NOWHERE:
        path = path.rpartition("/")[0]
    return path


def page(template: str, status: int = 200, **context: Any) -> Response:
    """Return a page, which may be for somebody who is not signed in."""
    settings = current_app.config
    name = settings["ENVIRONMENT_NAME"] or settings["ENV"]
    default = "red" if settings["ENV"] == "production" else "green"
    # A game without a name of its own has that of the service.
    game = {settings["GAME_NAME"]} - {SERVICE}
    text = (
        templates()
        .get_template(template)
        .render(
            site=" · ".join([*game, SERVICE]),
            environment=" · ".join([*game, name]),
            colour=settings["ENVIRONMENT_COLOUR"] or default,
            **context,
        )
    )
    body = text.encode("utf-8", "replace")
    return Response(body, status, HEADERS, content_type="text/html; charset=utf-8")


def done(outcome: Applied | Answer, to: str) -> Response:
    """Redirect from a form to a page, with a notice of the change, or of the requested action."""
    if isinstance(outcome, Answer):
        return redirect_with_notice(f"{MARK}{outcome.action['_id']}", to)
    return redirect_with_notice(outcome.entry["_id"] if outcome.entry else "nothing", to)


def redirect_with_notice(mark: str, to: str) -> Response:
    return see_other(f"{to}{'&' if '?' in to else '?'}{urlencode({'done': mark})}")


def see_other(path: str) -> Response:
    return Response(status=303, headers={**HEADERS, "Location": path})


def current_notice() -> Document | None:
    """Return the notice of the form before this page, which the query names.

    Its Action is the id of an action that the game has not answered yet.
    """
    mark = request.args.get("done", "")
    notice = {"Text": NEWS_WITHOUT_ENTRY.get(mark), "Undo": None, "Action": None}
    if not mark or notice["Text"]:
        return notice if mark else None
    try:
        if mark.startswith(MARK):
            (record,) = cards([visible_action(mark.removeprefix(MARK))])
            notice["Text"] = record["News"]
            if record["IsPending"]:
                notice["Action"] = record["Id"]
        else:
            record = visible_entry(mark)
            notice["Text"] = entry_text(record)
            if is_undoable(*history.present([record])):
                notice["Undo"] = mark
    except QuartermasterError:
        return None
    # The URL may be old, or somebody else's.
    is_own = record["By"].get("UserId") == guard.caller().id
    return notice if is_own and users.now() - record["At"] <= NEWS else None


def entry_text(entry: Document) -> str:
    if not entry["Changes"] and entry["Operation"] not in WITHOUT_CHANGES:
        return NEWS_WITHOUT_ENTRY["nothing"]
    text = sentences.notice(entry, names_in(entry))
    if entry["Operation"] in (INVITE.name, MAIL_RESET_CODE.name) and mailer.outbox:
        text += f" No mail server is configured: the mail is a file in {mailer.outbox}."
    return text

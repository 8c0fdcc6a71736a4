"""Shared by all pages of the console: frame, files, headers, notices and error pages."""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import islice
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

from flask import Blueprint, Response, current_app, request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from app.approvals.access import filters_of
from app.approvals.store import approvals
from app.auth import guard
from app.console.forms.submissions import query_text, submitted, typed
from app.console.frame import times
from app.console.game.actions import MARK, cards
from app.console.history import sentences
from app.console.history.tables import is_undoable, names_in
from app.console.session import sessions as session
from app.core.changes import Applied
from app.core.errors import (
    NotFound,
    PermissionMissing,
    QuartermasterError,
    RoleMissing,
    Unauthorized,
)
from app.core.permissions import Permission
from app.core.texts import short_text, whole_text, words_of
from app.core.types import Document
from app.game.actions.asking import Answer, visible_action
from app.history.access import sees_users, visible_entry
from app.history.store import history
from app.http import errors
from app.http.errors import headers_of, http_sentence, note, status_of
from app.http.tracing import request_id
from app.players.store import players
from app.storage.errors import DatabaseError, explain
from app.users.mail import mailer
from app.users.oauth.sign_ins import REVOKE_TOKENS
from app.users.operations import MAIL_RESET_CODE
from app.users.staff.operations import CREATE_ROLE, INVITE
from app.users.staff.store import roles
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
FILES = {
    path.name: path.read_bytes() for path in sorted(Path(__file__).with_name("files").iterdir())
}
# Of all files. It is part of their paths: files of another release do not fit the page.
DIGEST = hashlib.sha256(repr(FILES).encode()).hexdigest()[:12]
FILE_HEADERS = {
    # A changed file has another digest and so another path: browsers may cache it for ever.
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
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
WITHOUT_CHANGES = (REVOKE_TOKENS.name, INVITE.name, CREATE_ROLE.name)


def path_to(*parts: Any, **query: Any) -> str:
    """Return a path of the console, percent-encoded."""
    path = "/".join((PREFIX, *(quote(str(part), safe=":") for part in parts)))
    return with_query(path, query.items())


def with_query(path: str, query: Iterable[tuple[str, Any]]) -> str:
    """Return a path with what is not empty of a query."""
    text = urlencode([(name, value) for name, value in query if value not in (None, "")])
    return f"{path}?{text}" if text else path


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
        "files": path_to("files", DIGEST),
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
        sees_users=sees_users(),
        counts=counts,
        form_token=session.form_token(),
        sent=sent,
        notice=current_notice(),
        here=here(),
        page=OTHER_PAGES.get(part, part),
        reason_required=current_app.config["REASON_REQUIRED"],
        query=query_text("q"),
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
    """Return the path of this page, or of the page that a form is on, without an earlier notice."""
    path = request.path
    # A form is at the path of its page, or below it.
    while path != PREFIX and endpoint_of(path) == NOWHERE:
        path = path.rpartition("/")[0]
    query = (pair for pair in request.args.items(multi=True) if pair[0] != "done")
    return with_query(quote(path), query)


def page(template: str, status: int = 200, **context: Any) -> Response:
    """Return a page, which may be for somebody who is not signed in."""
    settings = current_app.config
    name = settings["ENVIRONMENT_NAME"] or settings["ENV"]
    default = "red" if settings["ENV"] == "production" else "green"
    # A game without a name of its own has that of the service.
    game = {settings["GAME_NAME"]} - {SERVICE}
    found = templates().get_template(template)
    text = found.render(
        site=" · ".join([*game, SERVICE]),
        environment=" · ".join([*game, name]),
        colour=settings["ENVIRONMENT_COLOUR"] or default,
        **context,
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
    mark = query_text("done")
    if not mark:
        return None
    notice: Document = {"Text": NEWS_WITHOUT_ENTRY.get(mark), "Undo": None, "Action": None}
    if notice["Text"]:
        return notice
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


@blp.get(f"/files/{DIGEST}/<name>")
@guard.without_database
def get_file(name: str) -> Response:
    if name not in FILES:
        raise NotFound("file", name, "There is no such file.")
    return Response(FILES[name], headers=FILE_HEADERS, mimetype=guess_type(name)[0])


@blp.route("/<path:rest>", methods=["GET", "POST"])
@guard.without_database
def nowhere(rest: str) -> Response:
    """Redirect from the URL of a form, which a browser shows after a refusal, to its page."""
    if request.method in session.SAFE_METHODS and endpoint_of(request.path, "POST") != NOWHERE:
        return see_other(here())
    raise NotFound("page", rest, "There is no such page.")


def error_page(error: QuartermasterError) -> Response:
    """Return the page of an error; without a session, the sign-in page."""
    is_unknown, ask = isinstance(error, Unauthorized), []
    if request.method in session.SAFE_METHODS:
        if is_unknown:
            return see_other(path_to("sign-in", back=here()))
        if isinstance(error, session.FactorMissing):
            return see_other(path_to("second-factor"))
    note(error)
    if isinstance(error, PermissionMissing | RoleMissing) and session.current_session():
        # Some who manage staff.
        ask = [str(user.get("Name")) for user in islice(roles.administrators(), 5)]
    text = "You are no longer signed in. Nothing was changed." if is_unknown else str(error)
    # Every page would refuse somebody without a role.
    has_ended = is_unknown or isinstance(error, session.AccessEnded)
    answer = problem_page(status_of(error), text, has_ended, ask)
    answer.headers.update(headers_of(error))
    return answer


def http_error_page(error: HTTPException) -> Response:
    return problem_page(error.code or 500, http_sentence(error))


def problem_page(
    status: int, text: str, sign_in: bool = False, ask: Sequence[str] = ()
) -> Response:
    """Return a page about an error, with the typed values, so that they are not lost.

    It shows only what was read, and nothing is read before authentication.
    """
    return page(
        "frame/problem.html",
        status,
        code=status,
        text=text,
        ask=ask,
        kept=typed(),
        is_form=request.method not in session.SAFE_METHODS,
        sign_in_path=path_to("sign-in", back=here()),
        sign_in=sign_in or not session.cookie(session.COOKIE),
        request_id=request_id(),
    )


errors.register(blp, DatabaseError, explain, error_page, http_error_page)

"""What every page of the console shares: its blueprint, its frame, its headers and its errors."""

from __future__ import annotations

import functools
import gzip
import logging
import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from flask import Blueprint, Response, current_app, redirect, request
from jinja2 import Environment, PackageLoader, StrictUndefined
from werkzeug.exceptions import HTTPException

from app.auth import guard
from app.auth.roles import Role
from app.changes import Applied
from app.console.forms.meanwhile import newer_than, newest
from app.console.forms.reading import resent, typed
from app.console.forms.submissions import Submission, page_status
from app.console.frame import times
from app.console.frame.files import accepts_gzip, file_path, files
from app.console.frame.icons import ICONS
from app.console.game.action_cards import MARK, find_marked
from app.console.history import sentences
from app.console.session import sessions as session
from app.errors import QuartermasterError, Unauthorized
from app.game.actions.asking import Answer
from app.history.access import page as history_page
from app.history.access import visible_entry
from app.history.domain import CannotUndo, inverse_of
from app.history.store import History
from app.http.context import current
from app.http.cursors import Cursors
from app.http.errors import BUG, SENTENCES, headers_of, note, status_of
from app.http.tracing import request_id
from app.objects.store import Objects
from app.players.store import Players
from app.storage.errors import DatabaseError, explain
from app.types import Document
from app.users.store import Users

log = logging.getLogger("quartermaster")

PREFIX = "/console"
PAGE_SIZE = 50
# Below this, compressing saves no packet.
SMALLEST_COMPRESSED = 1000
# Everything is of the same origin. Neither scripts nor styles stand in a page itself.
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
    "Vary": "Accept-Encoding, Cookie",
}
# The endpoint of paths that are none.
NOWHERE = "console.nowhere"
# The pages of forms whose own path is that of another page.
FORM_PAGES = {f"{PREFIX}/batches": f"{PREFIX}/batches/new"}
# For how long a page tells what a form has done.
NEWS = timedelta(minutes=10)
NOTHING = "Nothing had to be changed."
NEWS_WITHOUT_ENTRY = {
    "nothing": NOTHING,
    "ended": "The sign-in has ended.",
    "revoked": "The key was revoked.",
    "cancelled": "The batch was cancelled.",
    "batch-runs": "The batch runs.",
    "paused": "The batch is paused.",
    "batch-done": "The batch is done.",
    "batch-refused": "All rows were refused: nothing was done.",
}
# Of what changes then, history tells nothing.
UNTOLD = ("revoke-tokens",)
UNTOLD_VALUE = "not kept"
DEFAULT_COLOURS = {"production": "red"}

blp = Blueprint("console", __name__, url_prefix=PREFIX)

cursors = current(Cursors)
history = current(History)
objects = current(Objects)
players = current(Players)
users = current(Users)

required = session.required


def path_to(*parts: Any, **query: Any) -> str:
    """Return a path of the console, percent-encoded."""
    path = "/".join((PREFIX, *(quote(str(part), safe=":") for part in parts)))
    wanted = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def local(path: str, otherwise: str) -> str:
    """Return a path of the console that a form or a link holds; another is no place to go to."""
    is_ours = path == PREFIX or path.startswith((f"{PREFIX}/", f"{PREFIX}?"))
    # A browser takes a backslash for a slash, drops control characters, and follows two dots.
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
    environment.filters |= {"number": number, "short": short_number}
    environment.filters |= {"shown": sentences.shown, "whole_text": sentences.whole_text}
    for time_filter in (times.moment, times.clock, times.iso, times.utc_field, times.with_times):
        environment.filters[time_filter.__name__] = time_filter
    environment.globals |= {
        "path_to": path_to,
        "file_path": file_path,
        "icons": ICONS,
        "files_digest": files().digest,
        "duration": sentences.duration,
        "Role": Role,
        "new_key": lambda: str(uuid.uuid4()),
    }
    return environment


def number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def short_number(value: int) -> str:
    """Return a number that fits into a slot; the page has the exact one as well."""
    for size, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if value >= 10 * size or (value >= size > 10**6):
            parts = value / size
            return f"{parts:,.0f}{letter}" if parts >= 100 else f"{parts:.3g}{letter}"
    return number(value)


def render(
    template: str, status: int | None = None, sent: Submission | None = None, **context: Any
) -> Response:
    """Return a page for somebody who is signed in, with the form that was sent to it, if any."""
    caller = guard.caller()
    counts = {"players": players.count()}
    sees_users = Role.USERS_QUERY in caller.roles
    if sees_users:
        counts["users"] = users.count()
    context.setdefault("page", "")
    shared = {
        "person": caller,
        "person_roles": ", ".join(sorted(role.value for role in caller.roles)),
        "sees_users": sees_users,
        "manages_users": Role.USERS_MANAGE in caller.roles,
        "counts": counts,
        "form_token": session.form_token(),
        "sent": sent,
        "notice": notice(),
        "here": here(),
        "reason_required": current_app.config["REASON_REQUIRED"],
        "query": request.args.get("q", ""),
    }
    return page(template, page_status(sent) if status is None else status, **shared, **context)


def here() -> str:
    """Return the path of this page, without what the form before it has done.

    After a form that was refused, it is the path of the page that the form is on.
    """
    query = [(name, value) for name, value in request.args.items(multi=True) if name != "done"]
    path = quote(request.path if request.method in session.SAFE_METHODS else page_of_form())
    return f"{path}?{urlencode(query)}" if query else path


def page_of_form() -> str:
    """Return the path of the page that a form is on: its own, or the nearest one above it."""
    adapter = current_app.url_map.bind("")
    path = FORM_PAGES.get(request.path, request.path)
    while path != PREFIX and adapter.match(path, "GET")[0] == NOWHERE:
        path = path.rpartition("/")[0]
    return path


def is_form() -> bool:
    """Tell whether the path of this request is that of a form, to which a form is sent."""
    endpoint: str = current_app.url_map.bind("").match(request.path, "POST")[0]
    return endpoint != NOWHERE


def page(template: str, status: int = 200, **context: Any) -> Response:
    """Return a page, also for somebody who is not signed in."""
    settings = current_app.config
    name = settings["ENVIRONMENT_NAME"] or settings["ENV"]
    colour = settings["ENVIRONMENT_COLOUR"] or DEFAULT_COLOURS.get(settings["ENV"], "green")
    frame = {"game": settings["GAME_NAME"], "environment": name, "colour": colour}
    text = templates().get_template(template).render(**frame, **context)
    return html_response(text, status)


def html_response(text: str, status: int) -> Response:
    body = text.encode("utf-8", "replace")
    response = Response(body, status, HEADERS, content_type="text/html; charset=utf-8")
    if len(body) >= SMALLEST_COMPRESSED and accepts_gzip():
        response.data = gzip.compress(body, compresslevel=5, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
    return response


def done(applied: Applied, to: str) -> Response:
    """Lead from a form that was carried out to a page that says so, and offers to undo it."""
    return marked(applied.entry["_id"] if applied.entry else "nothing", to)


def asked(answer: Answer, to: str) -> Response:
    """Lead from a form that has asked the game for something to a page with what came of it."""
    return marked(f"{MARK}{answer.action['_id']}", to)


def marked(mark: str, to: str) -> Response:
    parts = urlsplit(to)
    query = "&".join(filter(None, [parts.query, urlencode({"done": mark})]))
    return see_other(f"{parts.path}?{query}")


def see_other(path: str) -> Response:
    response: Any = redirect(path, 303)
    response.headers.update(HEADERS)
    checked: Response = response
    return checked


def notice() -> Document | None:
    """Return what the form before this page has done, as its path says."""
    mark = request.args.get("done", "")
    if not mark:
        return None
    if mark in NEWS_WITHOUT_ENTRY:
        return told(NEWS_WITHOUT_ENTRY[mark])
    return action_notice(mark) if mark.startswith(MARK) else entry_notice(mark)


def told(text: str, undo: str | None = None, action: str | None = None) -> Document:
    """Return a notice; an action is one that the game has not answered yet."""
    return {"Text": text, "Undo": undo, "Action": action}


def action_notice(mark: str) -> Document | None:
    action = find_marked(mark)
    if action is None or not is_news(action):
        return None
    return told(action["News"], action=action["Id"] if action["IsPending"] else None)


def entry_notice(entry_id: str) -> Document | None:
    try:
        entry = visible_entry(entry_id)
    except QuartermasterError:
        return None
    if not is_news(entry):
        return None
    if not entry["Changes"] and entry["Operation"] not in UNTOLD:
        return told(NOTHING)
    text = sentences.notice(entry, objects.names_of(sentences.ids_in([entry])))
    (shown,) = history.serve([entry])
    return told(text, undo=entry_id if is_undoable(shown) else None)


def is_news(record: Document) -> bool:
    """Tell whether the caller has just done something: the address may be kept, or another's."""
    is_own = record["By"].get("UserId") == guard.caller().id
    return is_own and users.now() - record["At"] <= NEWS


def is_undoable(entry: Document) -> bool:
    """Tell whether it makes sense to offer an undo of a served entry."""
    try:
        inverse_of({**entry, "_id": entry["Id"]})
    except CannotUndo:
        return False
    return entry["UndoneBy"] is None


def changes_part(
    kind: str, id_: str, size: int, sent: Submission | None, after: str = ""
) -> dict[str, Any]:
    """Return what pages show of the changes of a document: the last ones, or a page of all.

    With them comes what a form remembers of them, and what has come since a refused one was shown.
    """
    found = history_page({"after": after}, size, (kind,), id_)
    entries = with_names(found.values)
    return {
        "entries": entries,
        "seen": newest(entries),
        "newer": newer_than(sent.seen, entries) if sent and sent.error else [],
        "next": cursors.write(found.next),
    }


def with_names(entries: Any) -> list[Document]:
    """Return served entries with what a table shows of them."""
    shown = list(entries)
    names = objects.names_of(sentences.ids_in(shown)) if shown else {}
    return [
        {
            **entry,
            "Lines": sentences.lines(entry, names),
            "CanUndo": is_undoable(entry),
            "Changes": [_with_texts(change, names) for change in entry["Changes"]],
        }
        for entry in shown
    ]


def _with_texts(change: Document, names: sentences.Names) -> Document:
    if change["Before"] is None and change["After"] is None:
        # History keeps neither value of a secret, of a note and of a key.
        return {"Path": change["Path"], "Before": UNTOLD_VALUE, "After": UNTOLD_VALUE}
    texts = {name: sentences.held(change[name], names) for name in ("Before", "After")}
    return {"Path": change["Path"], **texts}


def register_errors() -> None:
    """Answer the errors of pages by pages."""
    blp.register_error_handler(QuartermasterError, error_page)
    blp.register_error_handler(DatabaseError, database_error_page)
    blp.register_error_handler(HTTPException, http_error_page)


def error_page(error: QuartermasterError) -> Response:
    """Return the page of an error; who is not signed in is asked to do so."""
    if isinstance(error, Unauthorized):
        return sign_in_page()
    note(error)
    page = problem_page(status_of(error), str(error))
    page.headers.update(headers_of(error))
    return page


def sign_in_page() -> Response:
    if request.method in session.SAFE_METHODS:
        back = request.full_path.rstrip("?")
        return see_other(path_to("sign-in", back=None if back == PREFIX else back))
    return problem_page(401, "You are no longer signed in. Nothing was changed.", sign_in=True)


def database_error_page(error: Exception) -> Response:
    known = explain(error)  # type: ignore[arg-type] # registered for DatabaseError alone
    if known is None:
        raise error
    known.__cause__ = error
    return error_page(known)


def http_error_page(error: HTTPException) -> Response:
    status = error.code or 500
    if getattr(error, "original_exception", None) is not None:
        text = BUG
    elif status == 415:
        text = "The console takes forms alone."
    else:
        text = SENTENCES.get(status) or error.description or error.name
    return problem_page(status, text)


def problem_page(status: int, text: str, sign_in: bool = False) -> Response:
    """Return a page about an error, with what was typed, so that it is not lost.

    As far as it was read, and nothing is before the caller is known. Only a form that is known to
    be from a page of this session is offered again: the page adds a token that makes it so.
    """
    is_read = request.method in session.SAFE_METHODS
    again = resent() if status == 503 and session.current_session() else {}
    return page(
        "frame/problem.html",
        status,
        code=status,
        text=text,
        kept=typed(),
        again=again,
        is_form=not is_read,
        action=request.path,
        sign_in_path=path_to("sign-in", back=None if is_read else here()),
        form_token=session.form_token() if again else "",
        sign_in=sign_in or not session.cookie(session.COOKIE),
        request_id=request_id(),
    )

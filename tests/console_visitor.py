"""Somebody at the console, without a browser: a client that keeps cookies and sends forms."""

from __future__ import annotations

import html
import io
import json
import re
import shlex
import uuid
from functools import lru_cache

from bs4 import BeautifulSoup

from app.console.session.sessions import COOKIE, HOST_PREFIX
from app.core.errors import Unavailable
from app.core.permissions import Role
from app.users.oauth.store import RefreshTokens
from tests.applications import service

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
TOKEN = re.compile(r'name="token" value="([^"]+)"')
PASSWORD = "correct horse"


def page_of(answer):
    """Return the text of a page as its reader has it."""
    return html.unescape(re.sub(r"<[^>]+>", "", answer.text))


def markup_of(answer):
    """Return a page as parsed HTML, to select elements from."""
    return parsed(answer.text)


@lru_cache(maxsize=4)
def parsed(text):
    return BeautifulSoup(text, "html.parser")


def texts_in(answer, selector):
    """Return the texts of the elements that a CSS selector finds."""
    return [element.get_text(" ", strip=True) for element in markup_of(answer).select(selector)]


def fields_in(answer, selector):
    """Return what a browser would send of the form that a CSS selector finds."""
    sent = {}
    for field in markup_of(answer).select_one(selector).select("input[name], textarea[name]"):
        if field.name == "textarea":
            sent[field["name"]] = field.get_text()
        elif field.get("type") not in ("checkbox", "radio") or field.has_attr("checked"):
            sent[field["name"]] = field.get("value", "")
    return sent


def commands_of(answer, within=""):
    """Return the curl lines of a page as the words that a shell would make of them."""
    lines = markup_of(answer).select(f"{within} details.curl pre")
    return [shlex.split(line.get_text().replace("\\\n", " ")) for line in lines]


def body_of(command):
    return json.loads(command[command.index("-d") + 1])


def database_away(*_, **__):
    """Stand in for a function that asks the database, when it does not answer."""
    raise Unavailable("The database does not answer.")


class WatchedBody(io.BytesIO):
    """A body that counts how much of it was read."""

    taken = 0

    def read(self, size=-1):
        piece = super().read(size)
        self.taken += len(piece)
        return piece


class Visitor:
    """A browser: a client with cookies of its own."""

    def __init__(self, app, base="http://localhost"):
        self.app = app
        self._client = app.test_client()
        self._base = base
        self._token = None

    def get(self, path="", **headers):
        return self._client.get(f"/console{path}", base_url=self._base, headers=headers)

    def send(self, path, fields, headers=SAME_ORIGIN):
        """Send a form as it is."""
        return self._client.post(
            f"/console{path}", data=fields, base_url=self._base, headers=headers
        )

    def stream(self, path, body, content_type, is_chunked=False):
        """Send a body as it is."""
        headers = {**SAME_ORIGIN, "Content-Type": content_type}
        headers |= {"Transfer-Encoding": "chunked"} if is_chunked else {}
        return self._client.post(
            f"/console{path}", input_stream=body, base_url=self._base, headers=headers
        )

    def sign_in(self, name, password=PASSWORD, back=""):
        token = TOKEN.search(self.get("/sign-in").text)[1]
        fields = {"token": token, "username": name, "password": password, "back": back}
        self._token = None
        return self.send("/sign-in", fields)

    def begin_session(self):
        """Begin a session of the user, whose password nobody asks for."""
        is_secure = self._base.startswith("https")
        issued = service(self.app, RefreshTokens).begin_session(self.user["_id"], 0, 3600, "Tests")
        name = f"{HOST_PREFIX}{COOKIE}" if is_secure else COOKIE
        path = "/" if is_secure else "/console"
        self._client.set_cookie(name, issued.token, path=path, secure=is_secure)

    def token(self):
        """Return a form token of the session, from a page that everybody may see."""
        self._token = self._token or TOKEN.search(self.get("/sign-ins").text)[1]
        return self._token

    def post(self, path, key=None, **fields):
        """Send a form of the console, with all that its page would hold."""
        hidden = {"token": self.token(), "key": key or str(uuid.uuid4())}
        return self.send(path, {**hidden, **fields})

    def submit(self, path, status, key=None, **fields):
        """Send a form, whose answer must have the status, and return that."""
        answer = self.post(path, key, **fields)
        assert answer.status_code == status, (path, answer.status_code, page_of(answer))
        return answer

    def led_to(self, answer):
        """Return the page that a form leads to."""
        assert answer.status_code == 303, page_of(answer)
        return self.get(answer.headers["Location"].removeprefix("/console"))

    def read(self, path="", status=200):
        """Return the text of a page as its reader has it."""
        answer = self.get(path)
        assert answer.status_code == status, (path, answer.status_code, page_of(answer))
        return page_of(answer)

    def set_cookie(self, name, value):
        self._client.set_cookie(name, value, path="/console")

    def cookie(self, name):
        return self._client.get_cookie(name, path="/console") or self._client.get_cookie(name)


def visitor(app, world, *roles, **options):
    """Sign in as somebody with these roles, in short: without the form."""
    somebody = Visitor(app, **options)
    somebody.user = world.add_user(PASSWORD, roles=roles or (Role.API,))
    somebody.begin_session()
    return somebody


def console_of(app, caller):
    """Return the console of a caller of the API."""
    somebody = Visitor(app)
    somebody.user = caller.user
    somebody.begin_session()
    return somebody

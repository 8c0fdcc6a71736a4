"""Feeds secrets through every door, to wherever a careless client or a hostile one puts them."""

from __future__ import annotations

import itertools
import json
import secrets
from typing import NamedTuple
from urllib.parse import quote

from app.auth.api_keys import new_secret
from tests.endpoint_table import CODE, NEW_PASSWORD, PASSWORD
from tests.factories import sha256

# What these say comes back by contract: they name things.
NAMES = {"username", "email", "itemid", "spellid", "mapid", "Name", "Game", "Message", "Reason"}
NAMES |= {"to", "Subject", "Id"}
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
JSON = {"Content-Type": "application/json"}
HEADERS = (
    *("Bearer {}", "Basic {}", "{}", "Bearer{}", "Bearer {0}, Bearer {0}", "Digest username={}"),
    "Bearer {}x",
)
# What is echoed or kept of headers.
ECHOED = ("X-Request-ID", "Idempotency-Key", "X-Reason")
STRAYS = ("Cookie", "Referer", "User-Agent", "X-Api-Key", "Proxy-Authorization", "Accept")
KINDS = ("application/x-www-form-urlencoded", "text/plain", "application/octet-stream")


class Ask(NamedTuple):
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes | None = None


class Known:
    """Everything that must not come out, each made for this run alone."""

    def __init__(self):
        self.word, self.new_word = (f"pw{secrets.token_hex(8)}" for _ in range(2))
        self.password, self.new_password = sha256(self.word), sha256(self.new_word)
        self.code = "".join(secrets.choice(LETTERS) for _ in range(8))
        self.key, self.former_key = (f"key{secrets.token_hex(20)}" for _ in range(2))
        self.mongodb, self.mail = (f"pw{secrets.token_hex(8)}" for _ in range(2))
        self.access = self.refresh = ""
        self.api_key = new_secret()
        self.all = {text for text in vars(self).values() if text}

    def add(self, *texts):
        self.all.update(texts)

    def signed_in(self, tokens):
        """Take over a pair of tokens; what signs one is as good as the whole."""
        self.access, self.refresh = tokens["access_token"], tokens["refresh_token"]
        self.add(self.access, self.access.rpartition(".")[2], self.refresh)

    @property
    def shaped(self):
        """Those that look like nothing but a secret, wherever they stand."""
        return [self.password, self.new_password.upper(), self.access, self.api_key]

    @property
    def fed(self):
        return [*self.shaped, self.word, self.code, self.refresh]

    def found_in(self, text, allowed=()):
        """Return which of the secrets a text holds, in whatever case."""
        lower = text.lower()
        return {one for one in self.all - set(allowed) if one.lower() in lower}

    def body(self, door):
        """Return the right body of a door, with the secrets of this run."""
        real = {PASSWORD: self.password, NEW_PASSWORD: self.new_password, CODE: self.code}
        return {
            name: real.get(value, value) if isinstance(value, str) else value
            for name, value in door.body.items()
        }


def right_ask(door, known):
    """Return the request of a door that is answered with 200, or with 404 for want of a token."""
    headers = {"Authorization": f"Bearer {known.access}"}
    path = door.path_with({"own": known.refresh, "token": known.refresh})
    if door.body is None:
        return Ask(door.method, path, headers)
    return Ask(door.method, path, {**headers, **JSON}, json.dumps(known.body(door)).encode())


def wrong_asks(door, known, turn):
    """Yield requests that are wrong in every way, or right with something too many.

    What a door reads by itself, its fields and its path, is fed every secret. What the same code
    reads for all doors is fed one of them, at each turn another.
    """
    right = right_ask(door, known)
    if door.body is not None:
        yield from wrong_bodies(door, known, right)
    yield from wrong_paths(door, known, right, turn)
    yield from wrong_headers(known, right, turn)


def wrong_bodies(door, known, right):
    body = known.body(door)
    for name in body:
        is_name = name in NAMES or (name == "new" and "email" in door.route)
        fed = known.shaped if is_name else known.fed
        for one in fed:
            yield right._replace(content=json.dumps({**body, name: one}).encode())
        nested = [{one: one} for one in fed]
        yield right._replace(content=json.dumps({**body, name: nested}).encode())
    names = json.dumps(dict.fromkeys(known.shaped, 1)).encode()
    values = json.dumps(known.fed).encode()
    for content in (names, values, values[:-1], b'{"password": ' + values, b"\xff" + values):
        yield right._replace(content=content)
    form = "&".join(f"password={one}&refresh_token={one}&code={one}" for one in known.fed).encode()
    for kind in KINDS:
        yield right._replace(headers={**right.headers, "Content-Type": kind}, content=form)


def wrong_paths(door, known, right, turn):
    """Put secrets behind the path, into its variable parts, and into what is echoed of headers."""
    shaped = known.shaped
    query = "&".join(f"{quote(one)}={quote(one)}&access_token={quote(one)}" for one in known.fed)
    yield right._replace(path=f"{door.path}?{query}")
    for one in shaped:
        yield right._replace(path=f"{door.path}/{quote(one)}")
        for name in door.variables:
            yield right._replace(path=door.path_with({name: quote(one)}))
    for number, header in enumerate(ECHOED, turn):
        echoed = {**right.headers, header: shaped[number % len(shaped)]}
        yield right._replace(path=door.path, headers=echoed)


def wrong_headers(known, right, turn):
    """Show secrets in two of the ways to get the header wrong; the turns go through all of them."""
    ways = [*itertools.product(HEADERS, known.fed)]
    for number in (2 * turn, 2 * turn + 1):
        way, one = ways[number % len(ways)]
        strays = dict.fromkeys(STRAYS, one) if number % 2 else {}
        yield right._replace(headers={**right.headers, "Authorization": way.format(one), **strays})


def misframed(known):
    """Yield what gunicorn itself refuses, with secrets in it."""
    for one in known.fed:
        yield f"GET /api/oauth/token/Alice/{one} HTTP/9.9\r\n\r\n"
        yield f"GET /api/v1/players HTTP/1.1\r\nHost: x\r\nAuthorization Bearer {one}\r\n\r\n"
        yield f"GET /api/v1/players HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {one}\0\r\n\r\n"
        yield f"GET /api/v1/players HTTP/1.1\r\nHost: x\r\nX: 1\r\n Bearer {one}\r\n\r\n"
        # What is longer than its sender says begins the next request.
        yield (
            "POST /api/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
            f'{{"password": "{one}", "code": "{one}"}}\r\n\r\n'
        )
        yield f"POST /api/oauth/token HTTP/1.1\r\nTransfer-Encoding: {one}\r\n\r\n{one}\r\n\r\n"
        yield f"GET /{one * 2000} HTTP/1.1\r\n\r\n"

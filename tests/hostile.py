"""The table of hostile requests, with what each must be answered.

Most rows are made from the OpenAPI document: every hostile value meets every field, path part and
query parameter that there is, so a new one is covered as soon as it is documented. Whatever is
refused must leave the database as it was.
"""

import gzip
import json
from functools import cache
from typing import NamedTuple
from urllib.parse import quote

from app.core.errors import Invalid
from app.core.naming import is_visible
from app.http import examples
from app.http.fields import LINES, NO_CONTROLS
from app.players.domain import check_name
from tests.openapi_document import OPERATIONS, SPEC

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
FORGED = "evil.example"
NIL = "00000000-0000-0000-0000-000000000000"

# As they stand in a body: operators, and what is no JSON at all.
OBJECTS = [
    *('{"$ne": null}', '{"$gt": ""}', '{"$where": "sleep(9999)"}', '{"$regex": "^"}'),
    *('{"$in": ["a"]}', '["$ne"]', '{"__proto__": {"Api": true}}', '{"a.b": 1}', "null"),
]
NUMBERS = [
    *("1e999", "-1e999", "1.5", "1e2", "NaN", "Infinity", "-Infinity", "0x10", "01", "9" * 400),
    *("-9223372036854775809", "9223372036854775808"),
]
TEXTS = [
    *("$ne", "$where", "a.b", "a.$.b", "__proto__", "a\0b", "\0", "' || '1'=='1", "{$ne:1}"),
    *("\r\nBcc: all@example.com", "\x1b[2J", "\u202e\u2066", "{{7*7}}", "x" * 100_000),
    # Joined to their letter by somebody who is not careful, these take seconds.
    "a" + "\u0301\u0323" * 50_000,
]
KEYS = [
    *("$where", "$set", "$ne", "a.b", "a\0", "__proto__", "constructor", "", "_id", "Version"),
    *("Power", "PasswordHash"),
]
BODIES = [
    *(b"[" * 100_000, b'{"a":' * 100_000, b'{"a":"\xff"}', b'{"a":"\\ud800"}', b"\xff\xfe{\0}\0"),
    *(b'{"a":1', b"{}{}", b"{'a':1}", b"\xef\xbb\xbf{}", b"NaN", b"null", b'"$ne"', b"[]", b"\0"),
    *(b" ", b"\r\n", b"\x0b", gzip.compress(b"{}", mtime=0)),
]
TYPES = ["text/plain", "text/xml", "multipart/form-data; boundary=x", "application/jsonp", "json"]
# As they stand in a path, encoded; the last are no UTF-8, or longer than any name.
SEGMENTS = [
    *(quote(text, safe="") for text in TEXTS if len(text) < 100),
    *('{"$ne":null}', "[$ne]", "..", ".", "%2524ne", "%2500", "%EF%BC%84ne", "-1", "9" * 5000),
    *("%FF", "%C0%AE%C0%AE", "%ED%A0%80", "x" * 5000),
]
NOT_INTEGERS = ["$ne", "1e2", "0x10", "NaN", "1.0", "%201", "%D9%A1", "9" * 5000, "-1", "", "%00"]
NOT_CHOICES = ["$natural", "__proto__", "name%00", "NameKey", "", "1;name"]
NOT_SEARCHES = ["", "ab", "a%00b", "%1B[2J", "[" * 256, "[" * 40_000]
NOT_CURSORS = ["$ne", "%00", "x.y", "{}", "%FF.%FF", "%ED%A0%80", "x" * 5000, "." * 5000]
SEARCHES = [
    ".*.*",
    "^...",
    "(a%2B)%2B$",
    "[a-z]{3}",
    "%7C%7C%7C",
    "$where",
    "%5Cw%5Cw%5Cw",
    "(((((",
]
# Filters that take any text, and must not find anything by these.
FREE_TEXTS = ("by", "key", "reason")
# Of the list of rows, a row that is none is refused alone; and the parser of streams makes a
# question mark of half a surrogate pair.
TAKEN_IN_BATCHES = ('["$ne"]', '"\\ud800"')
REASON_HEADERS = {"$ne": 200, '{"$ne":1}': 200, "é": 400, "x" * 501: 400, "%00": 400, "%": 400}
KEY_HEADERS = {"$ne": 200, "a.b": 200, '{"$ne":1}': 200, "é": 400, "x" * 256: 400, "": 400}
OVERRIDES = ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"]
HOSTS = ["Host", "X-Forwarded-Host", "X-Host", "X-Forwarded-Server", "X-Original-URL"]


class Hostile(NamedTuple):
    """A request, and the status that it must be answered with."""

    operation: str
    name: str
    method: str
    path: str
    status: int
    body: bytes | None = None
    type: str | None = None
    headers: dict[str, str] = {}
    # How many records a list must find.
    count: int | None = None
    # What the refusal must name.
    field: str | None = None


class Operation:
    """A documented operation, as its examples ask for it."""

    def __init__(self, name):
        path, method, self.document = OPERATIONS[name]
        self.name, self.method, self._path = name, method.upper(), path
        self.parts = {p["name"]: p for p in self.document["parameters"] if p["in"] == "path"}
        self.query = {p["name"]: p for p in self.document["parameters"] if p["in"] == "query"}
        # What is documented as a form is taken as JSON too.
        media = next(iter(self.document.get("requestBody", {}).get("content", {}).values()), None)
        self.example = media["example"] if media else None
        name = media["schema"]["$ref"].rpartition("/")[2] if media else None
        schema = SPEC["components"]["schemas"][name] if media else {}
        self.fields, self.required = schema.get("properties", {}), schema.get("required", [])

    def path(self, **given):
        """Return the path with these parts, and otherwise those of the examples."""
        return self._path.format(**{n: p["example"] for n, p in self.parts.items()} | given)

    def row(self, about, status, body=None, path=None, type=JSON, **more):
        body = json.dumps(self.example).encode() if body is None and self.example else body
        kind = type if body is not None else None
        name = f"{self.name} {about}"
        path = path or self.path()
        return Hostile(self.name, name, self.method, path, status, body, kind, **more)

    def with_field(self, name, raw):
        """Return the example with one field as it is written here, JSON or not."""
        others = {key: value for key, value in self.example.items() if key != name}
        if self.name == "createToken" and name == "refresh_token":
            others = {"grant_type": "refresh_token"}
        return (json.dumps({**others, name: "@@"}).replace('"@@"', raw)).encode()


ALL = [Operation(name) for name in OPERATIONS]
WITH_BODY = [operation for operation in ALL if operation.example]
# To read them changes nothing; asking for a code makes one.
# What is read and leaves no entry in history.
READS = [
    op for op in ALL if op.method == "GET" and op.name not in ("sendResetCode", "getPersonalData")
]


def label(text):
    text = text.decode("latin1") if isinstance(text, bytes) else text
    return ascii(text if len(text) < 40 else f"{text[:20]}... {len(text)}")


def fields():
    """Yield every hostile value in every field of every body."""
    for operation in WITH_BODY:
        for name in operation.fields:
            # A code is any text; one that was never mailed is wrong, not malformed.
            wrong = 403 if name == "code" else 400
            raws = [(raw, 400) for raw in [*OBJECTS, *NUMBERS, '"\\ud800"']]
            if is_nullable(operation.fields[name]):
                raws.remove(("null", 400))
            if name == "Result":  # whatever object a game likes
                raws = [(raw, status) for raw, status in raws if not raw.startswith("{")]
            if operation.name == "planBatch":
                raws = [(raw, status) for raw, status in raws if raw not in TAKEN_IN_BATCHES]
            for text in TEXTS:
                if not is_accepted(operation, name, text):
                    raws.append((json.dumps(text), wrong))
                elif name == "Subject":  # well formed, but nobody has this name
                    raws.append((json.dumps(text), 404))
            for raw, status in raws:
                body = operation.with_field(name, raw)
                yield operation.row(f"field {name} {label(raw)}", status, body)


def beyond(schema):
    """Return values just beyond the limits of a field, and of types that are nearly its own."""
    kind = schema.get("type")
    if kind == "integer":
        ends = [schema.get("minimum", 0) - 1] if "minimum" in schema else []
        ends += [schema["maximum"] + 1] if "maximum" in schema else []
        return [*ends, True, "1", 1.0]
    if kind == "boolean":
        return [1, "true"]
    if kind != "string":
        return []
    ends = [""] if schema.get("minLength") else []
    ends += ["x" * (schema["maxLength"] + 1)] if "maxLength" in schema else []
    ends += [NIL, "potion"] if schema.get("format") == "uuid" else []
    return [*ends, *(["dance"] if "enum" in schema else []), 5]


def limits():
    """Yield what each body lacks, and what is just beyond the limits of each of its fields."""
    for operation in WITH_BODY:
        if operation.name in ("createToken", "planBatch"):  # refused in another shape, row by row
            continue
        for name, schema in operation.fields.items():
            if name in operation.required:
                body = {key: value for key, value in operation.example.items() if key != name}
                lacking = json.dumps(body).encode()
                yield operation.row(f"without {name}", 400, lacking, field=name)
            # A game may say by zeros that there is none.
            values = [v for v in beyond(schema) if v != NIL or operation.name != "savePlayer"]
            for value in values:
                body = operation.with_field(name, json.dumps(value))
                about = f"field {name} beyond {label(json.dumps(value))}"
                yield operation.row(about, 400, body, field=name)


def is_nullable(schema):
    """Tell whether a field may be null."""
    return any(one.get("nullable") for one in (schema, *schema.get("anyOf", ())))


def is_accepted(operation, name, text):
    """Tell whether a field takes any text: then a hostile one is kept as it is."""
    schema = operation.fields[name]
    if operation.name == "savePlayer":
        # The game may call its sprites and maps what it likes, and players all that can be shown.
        is_text = schema["type"] == "string" and "format" not in schema
        return is_text and (name != "Name" or is_name(text))
    plain = {f"^{pattern.pattern}$": pattern for pattern in (NO_CONTROLS, LINES)}
    pattern = plain.get(schema.get("pattern"))
    if not pattern or len(text) > schema["maxLength"] or not pattern.fullmatch(text):
        return False
    return is_visible(text) or not schema.get("minLength")


def is_name(text):
    try:
        check_name(text)
    except Invalid:
        return False
    return True


def keys():
    """Yield every hostile key beside the fields of every body; OAuth says to ignore those."""
    for operation in WITH_BODY:
        for key in KEYS:
            status = 200 if operation.name == "createToken" else 400
            body = json.dumps({**operation.example, key: {"$ne": 1}}).encode()
            named = key if status == 400 else None
            yield operation.row(f"key {label(key)}", status, body, field=named)


def bodies():
    for operation in WITH_BODY:
        for body in BODIES:
            yield operation.row(f"body {label(body)}", 400, body)
        for kind in TYPES:
            yield operation.row(f"type {kind}", 415, type=kind)


def paths():
    """Yield every hostile text in every part of every path."""
    for operation in ALL:
        for name, part in operation.parts.items():
            status = 400 if part["schema"].get("format") == "uuid" else 404
            for text in SEGMENTS:
                path = operation.path(**{name: text})
                yield operation.row(f"path {name} {label(text)}", status, path=path)


def queries():
    for operation in ALL:
        for name, parameter in operation.query.items():
            at = f"{operation.path()}?{name}"
            # What changes something does so only once.
            for ignored in ("[$ne]=1", "[]=x", ".a=1", "%00=1") if operation in READS else ():
                yield operation.row(f"query {name}{ignored}", 200, path=at + ignored)
            for text, status, count in refused_texts(name, parameter["schema"]):
                about = f"query {name}={label(text)}"
                more = {"count": count, "field": name if status == 400 else None}
                yield operation.row(about, status, path=f"{at}={text}", **more)


def refused_texts(name, schema):
    """Return what a query parameter must refuse, or for a search, what it must not find."""
    if name == "search":
        return [(t, 200, 0) for t in SEARCHES] + [(t, 400, None) for t in NOT_SEARCHES]
    if name == "after":
        return [(text, 400, None) for text in NOT_CURSORS]
    if name in ("player", "user"):
        return [(text, 404, None) for text in NOT_CHOICES]
    if name == "name":
        return [(text, 400 if "%00" in text else 200, None) for text in NOT_CHOICES]
    if name in FREE_TEXTS:
        return [(text, 200, 0) for text in (*SEARCHES, *NOT_CHOICES) if text]
    wrong = NOT_INTEGERS if schema["type"] == "integer" else NOT_CHOICES
    return [(text, 400, None) for text in wrong]


def headers():
    for operation in READS:
        for name in OVERRIDES:
            yield operation.row(f"header {name}", 200, headers={name: "DELETE"})
        yield operation.row("query _method", 200, path=f"{operation.path()}?_method=DELETE")
        for name in HOSTS:
            yield operation.row(f"header {name}", 200, headers={name: FORGED})
    for operation in ALL:
        for name in OVERRIDES:
            # PATCH is no method here; the path must not become one of another method.
            row = operation.row(f"PATCH with {name}", 405, headers={name: operation.method})
            yield row._replace(method="PATCH")
    give = Operation("giveItem")
    for key, status in KEY_HEADERS.items():
        about = f"header Idempotency-Key {label(key)}"
        yield give.row(about, status, headers={"Idempotency-Key": key})
    for reason, status in REASON_HEADERS.items():
        yield give.row(f"header X-Reason {label(reason)}", status, headers={"X-Reason": reason})


def forms():
    """Yield hostile forms, which the request for a token takes."""
    token = Operation("createToken")
    hashed = token.example["password"]
    for form in (
        "grant_type[$ne]=x&username[$ne]=x&password[$ne]=x",
        "grant_type=password&username[$gt]=&password[$gt]=",
        f"grant_type=password&username=demo&username=demo&password={hashed}",
        f"grant_type=password&username=demo%00&password={hashed}",
        f"grant_type=password&username=%24ne&password={hashed}",
        f"grant_type=password&username=%FF%FE&password={hashed}",
        *("&" * 500 + "a=1", "a=1&" * 200, "%", "\xff", "grant_type=%00"),
    ):
        yield token.row(f"form {label(form)}", 400, form.encode("latin1"), type=FORM)


def csv_files():
    """Yield hostile files of rows; what is wrong with one row alone does not refuse the others."""
    plan = Operation("planBatch")
    first = b"Player,Operation,ItemId,Quantity\n"
    row = first + f"{examples.PLAYER},give,{examples.ITEM},1\n".encode()
    for file, status in {
        **dict.fromkeys((b"", b"\n\n", first, first + b",,,\n", b"\xff" + row), 400),
        **dict.fromkeys(
            (row + b"\xff", first + b'"a', b'"Pla\nyer",Operation\n', b"[" * 2**18), 400
        ),
        **dict.fromkeys((b"Player,player,Operation\na,b,give\n", b"\xff\xfeP\0"), 400),
        **dict.fromkeys((first + b"a\0b,give,$ne,1\n", first + b"=cmd(),$where,,\n"), 200),
        **dict.fromkeys((row + b"\n,,,\n", b"$set\n1\n", b"[]\n{}\n", row[:-1] + b",$ne\n"), 200),
    }.items():
        yield plan.row(f"file {label(file)}", status, file, type="text/csv")


def doubled():
    """Yield bodies that say a thing twice: the last one counts, as most readers of JSON have it."""
    variable = Operation("setVariable")
    yield variable.row("doubled, the last one good", 200, b'{"value": "$ne", "value": 294}')
    yield variable.row("doubled, the last one bad", 400, b'{"value": 294, "value": "$ne"}')


GROUPS = (fields, limits, keys, bodies, paths, queries, headers, forms, csv_files, doubled)


@cache
def all_rows():
    """Return the whole table; only those who send it wait until it is made."""
    return [row for group in GROUPS for row in group()]

"""Hostile requests that no HTTP library would make, byte by byte, with what each is answered.

Each is sent to gunicorn and to nginx in front of it. Many hide a second request where one of the
two might look for one: ``SMUGGLED`` must never arrive at the application.
"""

from typing import NamedTuple

HOST = b"Host: x\r\n"
CLOSE = b"Connection: close\r\n"
SMUGGLED = "/api/v1/smuggled"
HIDDEN = f"GET {SMUGGLED} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(HIDDEN)


class Raw(NamedTuple):
    """A request in bytes, and the status of its answer at each door.

    0 is no answer but the end of the connection, and 9 an answer in HTTP 0.9, which is bare.
    """

    name: str
    sent: bytes
    gunicorn: int
    nginx: int


def get(headers=b"", path=b"/healthz", version=b"HTTP/1.1", host=HOST):
    return b"GET %s %s\r\n%s%s%s\r\n" % (path, version, host, CLOSE, headers)


def post(headers, body=HIDDEN, host=HOST):
    """Ask for a token, with headers that do not agree on where the body ends."""
    start = b"POST /api/oauth/token HTTP/1.1\r\n"
    return start + host + CLOSE + JSON + headers + b"\r\n" + body


def chunk(size, data=HIDDEN, end=b"\r\n"):
    return b"%s\r\n%s%s0\r\n\r\n" % (size, data, end)


SIZE = b"%x" % len(HIDDEN)
LINES = [
    Raw("no request at all", b"NONSENSE\r\n\r\n", 400, 400),
    Raw("HTTP 0.9", b"GET /healthz\r\n\r\n", 400, 9),
    Raw("HTTP 9.9", get(version=b"HTTP/9.9"), 400, 400),
    Raw("a method in small letters", b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400, 400),
    Raw("a method with a NUL", b"GE\0T / HTTP/1.1\r\n" + HOST + b"\r\n", 400, 400),
    Raw("TRACE", b"TRACE /healthz HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n", 405, 405),
    Raw("CONNECT", b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n", 404, 400),
    Raw("OPTIONS *", b"OPTIONS * HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n", 404, 400),
    Raw("an absolute path", get(path=b"http://evil.example/healthz"), 200, 200),
    Raw("a NUL in the path", get(path=b"/health\0z"), 400, 400),
    Raw("a space in the path", get(path=b"/health z"), 400, 400),
    Raw("a tab in the path", get(path=b"/health\tz"), 400, 400),
    Raw("bytes in the path", get(path=b"/\xff\xfe"), 400, 400),
    Raw("a path of 9000 bytes", get(path=b"/" + b"a" * 9000), 414, 414),
    Raw("a query of 9000 bytes", get(path=b"/healthz?" + b"a" * 9000), 414, 414),
    Raw("HTTP/2 in the clear", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 400),
    Raw("an upgrade", get(b"Upgrade: h2c\r\nConnection: Upgrade\r\n"), 200, 200),
    Raw("lines that end in LF", get().replace(b"\r\n", b"\n"), 400, 200),
    Raw("a line that ends in CR", get(b"X: y\rZ: w\r\n"), 400, 400),
]
HEADERS = [
    Raw("a header of 9000 bytes", get(b"X: " + b"a" * 9000 + b"\r\n"), 431, 431),
    Raw("200 headers", get(b"X: y\r\n" * 200), 200, 200),
    Raw("a header without a colon", get(b"nonsense\r\n"), 400, 200),
    Raw("a header without a name", get(b": x\r\n"), 400, 400),
    Raw("a space before the colon", get(b"X : y\r\n"), 400, 400),
    Raw("a NUL in a header", get(b"X: a\0b\r\n"), 400, 400),
    Raw("a folded header", get(b"X: a\r\n b\r\n"), 400, 400),
    Raw("two hosts", get(b"Host: evil.example\r\n"), 400, 400),
    Raw("no host", get(host=b""), 200, 400),
    Raw("a host with a path", get(host=b"Host: x/../y\r\n"), 200, 400),
    Raw("a host with a user", get(host=b"Host: a@evil.example\r\n"), 200, 200),
    Raw("HTTPS or not", get(b"X-Forwarded-Proto: https\r\nX-Forwarded-Ssl: off\r\n"), 200, 200),
    Raw("SCRIPT_NAME", get(b"SCRIPT_NAME: /x\r\n"), 200, 200),
    Raw("PATH-INFO", get(b"PATH-INFO: /x\r\nScript-Name: /x\r\n"), 200, 200),
    Raw("an expectation", get(b"Expect: nothing\r\n"), 417, 200),
]
BODIES = [
    Raw("a length that is a word", post(b"Content-Length: x\r\n"), 400, 400),
    Raw("a negative length", post(b"Content-Length: -1\r\n"), 400, 400),
    Raw("a length with a sign", post(b"Content-Length: +5\r\n"), 400, 400),
    Raw("a length in hex", post(b"Content-Length: 0x5\r\n"), 400, 400),
    Raw("a length with an underscore", post(b"Content-Length: 1_0\r\n"), 400, 400),
    Raw("a length of two numbers", post(b"Content-Length: 5, 5\r\n"), 400, 400),
    Raw("an empty length", post(b"Content-Length: \r\n"), 400, 400),
    Raw("a length beyond all numbers", post(b"Content-Length: " + b"9" * 40 + b"\r\n"), 413, 400),
    Raw("two lengths", post(b"Content-Length: 5\r\n" + LENGTH), 400, 400),
    Raw("the same length twice", post(LENGTH + LENGTH), 400, 400),
    Raw("a length and chunks", post(LENGTH + CHUNKED, b"0\r\n\r\n" + HIDDEN), 400, 400),
    Raw("chunks and a length", post(CHUNKED + b"Content-Length: 5\r\n", chunk(SIZE)), 400, 400),
    Raw("chunks twice", post(CHUNKED + CHUNKED, chunk(SIZE)), 400, 400),
    Raw("chunks, then as it is", post(b"Transfer-Encoding: chunked, identity\r\n"), 400, 400),
    Raw("almost chunks", post(LENGTH + b"Transfer-Encoding: xchunked\r\n"), 501, 400),
    Raw("quoted chunks", post(LENGTH + b'Transfer-Encoding: "chunked"\r\n'), 501, 400),
    Raw("chunks behind a space", post(LENGTH + b"Transfer-Encoding : chunked\r\n"), 400, 400),
    Raw("chunks behind a tab", post(LENGTH + b"Transfer-Encoding:\x0bchunked\r\n"), 400, 400),
    Raw("folded chunks", post(LENGTH + b"Transfer-Encoding:\r\n chunked\r\n"), 400, 400),
    Raw("chunks with an underscore", post(LENGTH + b"Transfer_Encoding: chunked\r\n"), 400, 400),
    Raw("chunks in HTTP 1.0", post(CHUNKED, chunk(SIZE)).replace(b"1.1", b"1.0", 1), 400, 400),
    Raw("gzip", post(b"Transfer-Encoding: gzip\r\n"), 400, 400),
    Raw("a chunk of a wrong size", post(CHUNKED, chunk(b"zz")), 400, 400),
    Raw("a chunk of a negative size", post(CHUNKED, chunk(b"-5")), 400, 400),
    Raw("a chunk without a size", post(CHUNKED, chunk(b"")), 400, 400),
    Raw("a chunk in Python's hex", post(CHUNKED, chunk(b"0x" + SIZE)), 400, 400),
    Raw("a chunk beyond all numbers", post(CHUNKED, chunk(b"f" * 20)), 400, 400),
    Raw("a chunk longer than it says", post(CHUNKED, chunk(b"5")), 400, 400),
    Raw("a chunk without an end", post(CHUNKED, chunk(SIZE, end=b"")), 400, 400),
    Raw("chunks that end in LF", post(CHUNKED, chunk(SIZE).replace(b"\r\n", b"\n")), 400, 0),
    Raw("a chunk with an extension", post(CHUNKED, chunk(SIZE + b";x=" + b"y" * 50)), 400, 400),
    Raw("a body that stops", post(LENGTH, HIDDEN[:20]), 400, 0),
    Raw("a chunk that stops", post(CHUNKED, SIZE + b"\r\n" + HIDDEN[:20]), 400, 0),
    Raw("chunks that stop", post(CHUNKED, SIZE + b"\r\n" + HIDDEN + b"\r\n"), 400, 0),
    Raw("a body of a GET", get(LENGTH) + HIDDEN, 200, 200),
    Raw("chunks of a GET", get(CHUNKED) + chunk(SIZE), 200, 200),
]
ROWS = [*LINES, *HEADERS, *BODIES]
DOORS = ("gunicorn", "nginx")


def count():
    return len(ROWS) * len(DOORS)

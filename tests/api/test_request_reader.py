"""Whether a request is complete: what the loop says, beside what gunicorn's own parser reads."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import (
    InvalidChunkSize,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
)
from gunicorn.http.parser import RequestParser
from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.server.request_reader import (
    FRAMING_BYTES,
    HEAD_BYTES,
    BodyLimits,
    IncompleteError,
    RequestReader,
)

CFG = Config()
CLIENT = ("192.0.2.1", 5000)
MOST_BODY = 4000
CHUNKED = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"


def reader(most_body=MOST_BODY):
    return RequestReader(CFG, CLIENT, BodyLimits(most_body, most_body, 1.0))


def chunk(data, size=None, extension=b""):
    return b"%s%s\r\n%s\r\n" % (size or b"%x" % len(data), extension, data)


def whole(request):
    """Return what a request is, with its body or what kept it from being read."""
    try:
        body = request.body.read()
    except IncompleteError:
        raise AssertionError("gunicorn asked for more than a complete request") from None
    except Exception:
        body = None
    return request.method, request.uri, request.headers, body


def read_by_gunicorn(stream):
    """Return all requests of a stream, as gunicorn alone reads them."""
    parser, found = RequestParser(CFG, iter([stream]), CLIENT), []
    try:
        for request in parser:
            found.append(whole(request))
    except Exception:
        found.append("refused")
    return found


def read_in_pieces(pieces):
    """Return all requests of a stream, as they come, and after how many bytes each is found."""
    parser, found, places, came = reader(), [], [], 0
    is_open = True
    for piece in [*pieces, None]:
        if piece is None:
            parser.received.has_ended = True
        else:
            parser.received.feed(piece)
            came += len(piece)
        while is_open and parser.is_ready():
            places.append(came)
            is_open = take(parser, found)
    return found, places


def take(parser, found):
    try:
        request = next(parser)
    except StopIteration:
        return False
    except IncompleteError:
        raise AssertionError("gunicorn asked for more than a complete head") from None
    except Exception:
        found.append("refused")
        return False
    found.append(whole(request))
    return not request.should_close() and parser.finish_body()


def split(stream, cuts):
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(places)]


TOKENS = st.sampled_from([b"a", b"x-y", b"Accept", b"Content-Type", b"Expect"])
VALUES = st.sampled_from([b"", b"1", b"close", b"keep-alive", b"a b", b"chunked", b"\xff", b"7"])
HEADERS = st.lists(st.builds(lambda n, v: n + b": " + v + b"\r\n", TOKENS, VALUES), max_size=3)
BODIES = st.binary(max_size=40) | st.sampled_from(
    [b"\r\n\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
CHUNKS = st.lists(
    st.builds(chunk, BODIES.filter(len), extension=st.sampled_from([b"", b";a=b", b" ;q"])),
    max_size=4,
)
TRAILERS = st.sampled_from(
    [b"", b"", b"X: y\r\n", b"X: y\r\nZ: \r\n", b"Host: x\r\n", b"nonsense\r\n"]
)


@st.composite
def requests(draw):
    head = draw(st.sampled_from([b"", b"", b"", b"\r\n"]))
    kind = draw(st.sampled_from(["none", "length", "chunks"]))
    version = b"HTTP/1.1" if kind == "chunks" else draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.0"]))
    head += b"POST /%s %s\r\n" % (kind.encode(), version) + b"".join(draw(HEADERS))
    if kind == "none":
        return head + b"\r\n"
    if kind == "length":
        body = draw(BODIES)
        return head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    body = b"".join(draw(CHUNKS)) + b"0\r\n" + draw(TRAILERS) + b"\r\n"
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + body


STREAMS = st.lists(requests(), min_size=1, max_size=4).map(b"".join)
CUTS = st.lists(st.integers(0, 1000), max_size=12)
# What breaks framing: another end of a line, another size, a header that is not what it seems.
DAMAGE = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b" ", b"0", b"f", b";", b"\0", b":", b"-", b"x", b""]
)


@st.composite
def damaged(draw):
    stream = draw(STREAMS)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(stream)))
        gone = draw(st.integers(0, 3))
        stream = stream[:place] + draw(DAMAGE) + stream[place + gone :]
    return stream


@given(STREAMS | damaged(), CUTS)
@example(b"\r\n\r\n", [1, 2, 3])
@example(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", [])
@example(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", list(range(80)))
@example(CHUNKED + b"5 \t;x\r\nhello\r\n00\r\nX: y\r\n\r\nGET / HTTP/1.1\r\n\r\n", list(range(100)))
@example(CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", [60])
@example(CHUNKED + b"5\r\nhelloXX0\r\n\r\n", [60])
@example(CHUNKED + b"0\r\nX: y\n\r\n\r\n", [55, 56])
def test_in_pieces_the_same_requests_are_read_as_gunicorn_reads(stream, cuts):
    found, _ = read_in_pieces(split(stream, cuts))
    assert found == read_by_gunicorn(stream)


@given(requests(), requests())
def test_a_request_is_complete_with_its_last_byte_and_not_before(first, second):
    assume(read_by_gunicorn(first) != ["refused"])
    stream = first + second
    _, places = read_in_pieces([stream[at : at + 1] for at in range(len(stream))])
    assert places[0] == len(first)


@given(STREAMS, st.integers(0, 50))
def test_a_body_that_nobody_reads_is_left_behind(stream, some):
    expected = [found[:3] for found in read_by_gunicorn(stream) if found != "refused"]
    parser, found = reader(), []
    parser.received.feed(stream)
    while parser.is_ready():
        try:
            request = next(parser)
        except Exception:
            break
        found.append((request.method, request.uri, request.headers))
        with contextlib.suppress(ParseException):
            request.body.read(some)
        if request.should_close() or not parser.finish_body():
            break
    assert found == expected


def fed(*pieces):
    parser = reader()
    for piece in pieces:
        parser.received.feed(piece)
        if parser.is_ready():
            return parser
    return None


def test_a_head_without_an_end_is_refused():
    line = b"GET / HTTP/1.1\r\n"
    parser = fed(line, *[b"X: y\r\n"] * (HEAD_BYTES // 6 + 1))
    with pytest.raises(LimitRequestHeaders):
        next(parser)


def test_a_line_without_an_end_is_refused():
    parser = fed(*[b"x" * 1000] * 100)
    with pytest.raises(LimitRequestLine):
        next(parser)


def test_a_length_beyond_the_limit_is_not_waited_for():
    parser = fed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4001\r\n\r\n")
    request = next(parser)
    assert request.should_close()
    assert not parser.expects_continue()
    assert not parser.finish_body()


def test_chunks_beyond_the_limit_are_not_waited_for():
    parser = fed(CHUNKED, *[chunk(b"x" * 1000)] * 10)
    request = next(parser)
    assert request.should_close()
    assert len(request.body.read(MOST_BODY + 1)) == MOST_BODY + 1


def test_chunks_of_one_byte_are_refused_after_a_bounded_number():
    parser, count = reader(1024 * 1024), 0
    parser.received.feed(CHUNKED)
    while not parser.is_ready():
        parser.received.feed(chunk(b"x"))
        count += 1
    assert count <= FRAMING_BYTES // 5 + 1
    with pytest.raises(InvalidChunkSize):
        next(parser)


@pytest.mark.parametrize("line", [b"1;" + b"x" * 100, b"0" * 100 + b"1"])
def test_lines_around_chunks_are_bounded_together(line):
    parser, count = reader(), 0
    parser.received.feed(CHUNKED)
    while not parser.is_ready():
        parser.received.feed(line + b"\r\nx\r\n")
        count += 1
    assert count <= FRAMING_BYTES // 100 + 1


def test_trailers_without_an_end_are_refused():
    parser = fed(CHUNKED, b"0\r\n", *[b"X: y\r\n"] * (FRAMING_BYTES // 6 + 1))
    with pytest.raises(InvalidChunkSize):
        next(parser)


def test_a_size_without_an_end_is_refused():
    parser = fed(CHUNKED, *[b"0" * 1000] * 9)
    request = next(parser)
    assert request.should_close()
    with pytest.raises(InvalidChunkSize):
        request.body.read()


def test_a_client_that_waits_for_a_word_is_found_once():
    parser = reader()
    parser.received.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert not parser.is_ready()
    assert parser.expects_continue()
    assert not parser.expects_continue()
    parser.received.feed(b"{}")
    assert parser.is_ready()
    assert not next(parser)._expected_100_continue

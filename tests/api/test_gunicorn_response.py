"""Answers as gunicorn puts them on the wire."""

from __future__ import annotations

import itertools
import socket
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest
from gunicorn import util
from gunicorn.config import Config
from gunicorn.http import wsgi

import app.server.worker  # noqa: F401 (it must change nothing of gunicorn)
from app.server.connection import MAX_AHEAD_BYTES, NonBlockingSocket
from app.server.patches import patch_gunicorn
from app.server.response import OnePieceResponse, write_error


class Wire:
    """Keeps the pieces that were sent."""

    def __init__(self):
        self.pieces = []

    def sendall(self, data):
        self.pieces.append(data)

    def wait_for_client(self, waited):
        return waited


@pytest.fixture
def wire():
    return Wire()


def respond(wire, parts, *headers, method="GET", status="200 OK"):
    request = SimpleNamespace(method=method, version=(1, 1), should_close=lambda: False)
    response = OnePieceResponse(request, wire, SimpleNamespace(protocol="http"))
    response.start_response(status, list(headers))
    for part in parts:
        response.write(part)
    response.close()
    head, _, body = b"".join(wire.pieces).partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def test_head_and_body_are_one_piece(wire):
    head, body = respond(wire, [b"{}"], ("Content-Length", "2"), ("X-Request-ID", "7"))
    assert len(wire.pieces) == 1
    assert (head[0], body) == ("HTTP/1.1 200 OK", b"{}")
    assert {"Content-Length: 2", "X-Request-ID: 7", "Connection: keep-alive"} <= set(head)


def test_a_body_in_parts_follows_its_head(wire):
    _, body = respond(wire, [b"a", b"b", b"c"], ("Content-Length", "3"))
    assert (body, [len(piece) for piece in wire.pieces[1:]]) == (b"abc", [1, 1])


def test_an_answer_to_head_is_its_head(wire):
    head, body = respond(wire, [], ("Content-Length", "2"), method="HEAD")
    assert (len(wire.pieces), body) == (1, b"")
    assert "Content-Length: 2" in head


def test_an_answer_without_content_is_its_head(wire):
    head, body = respond(wire, [], status="204 No Content")
    assert (len(wire.pieces), head[0], body) == (1, "HTTP/1.1 204 No Content", b"")


def test_a_body_of_unknown_length_is_sent_in_chunks(wire):
    head, body = respond(wire, [b"hello", b"", b"you"])
    assert "Transfer-Encoding: chunked" in head
    assert body == b"5\r\nhello\r\n3\r\nyou\r\n0\r\n\r\n"


def test_an_answer_that_nobody_reads_is_not_made_to_its_end():
    made = itertools.count()
    pieces = (b"x" * 1000 for _ in made)
    near, far = socket.socketpair()
    with closing(near), closing(far), pytest.raises(BrokenPipeError):
        respond(NonBlockingSocket(near, send_seconds=0.01), pieces)
    assert next(made) * 1000 < 4 * MAX_AHEAD_BYTES


def test_an_answer_that_is_read_slowly_is_made_to_its_end():
    size = 4 * MAX_AHEAD_BYTES
    near, far = socket.socketpair()
    read = bytearray()

    def read_all():
        while len(read) < size:
            read.extend(far.recv(5000))

    reader = threading.Thread(target=read_all)
    reader.start()
    with closing(near), closing(far):
        wire = NonBlockingSocket(near, send_seconds=60)
        request = SimpleNamespace(method="GET", version=(1, 1), should_close=lambda: False)
        response = OnePieceResponse(request, wire, SimpleNamespace(protocol="http"))
        response.start_response("200 OK", [])
        for _ in range(size // 1024):
            response.write(b"x" * 1024)
        assert len(wire.unsent) <= MAX_AHEAD_BYTES + 2048
        while wire.unsent:
            wire.flush()
        reader.join()


def test_gunicorn_is_patched_by_a_call_and_not_by_an_import(monkeypatch):
    assert wsgi.Response.__module__ == "gunicorn.http.wsgi"
    assert util.write_error.__module__ == "gunicorn.util"
    monkeypatch.setattr(wsgi, "Response", wsgi.Response)
    monkeypatch.setattr(util, "write_error", util.write_error)
    cfg = Config()
    patch_gunicorn(cfg)
    assert wsgi.Response is OnePieceResponse
    assert util.write_error is write_error
    assert vars(cfg)["keepalive"] == Config().keepalive

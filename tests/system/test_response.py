"""Bodies and lines of any length at real gunicorn; what is no proper request: test_hostile.py."""

import json
import socket

import pytest

from tests.factories import sha256
from tests.system.programs import serving

CREDENTIALS = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
BODY = json.dumps(CREDENTIALS).encode()
POST = b"POST /api/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory, database):
    folder = tmp_path_factory.mktemp("response")
    with serving(folder, "--demo", LOG_FORMAT="json", **database) as server:
        yield server


def send(server, *parts, half_close=False):
    """Send bytes as they are, and return the status, the headers and the body of the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile("rb")
        status = int(answer.readline().split()[1])
        headers = {}
        while line := answer.readline().strip():
            name, _, value = line.decode("latin1").partition(": ")
            headers[name.lower()] = value
        body = answer.read(int(headers.get("content-length", 0)))
        answer.close()
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["x-request-id"]
    return status, headers, json.loads(body)


def chunked(*chunks):
    framed = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks)
    return POST + b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


def test_a_chunked_body_is_as_good_as_any(server):
    status, _, body = send(server, chunked(BODY[:20], BODY[20:]))
    assert (status, body["token_type"]) == (200, "bearer")


def test_a_client_that_asks_first_is_told_to_send_its_body(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        length = f"Content-Length: {len(BODY)}\r\n\r\n".encode()
        connection.sendall(POST + b"Expect: 100-continue\r\n" + length)
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY[:10])
        connection.sendall(BODY[10:])
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(("version", "connection"), [("1.0", "close"), ("1.1", "keep-alive")])
def test_both_versions_of_http_end_as_they_should(server, version, connection):
    request = f"GET /healthz HTTP/{version}\r\nHost: x\r\n\r\n".encode()
    status, headers, _ = send(server, request)
    assert (status, headers["connection"]) == (200, connection)


@pytest.mark.parametrize("filler", [b" ", b"x"])
def test_a_chunked_body_over_the_limit_is_a_413_and_not_cut(server, filler):
    status, _, body = send(server, chunked(BODY, *[filler * 65536] * 20))
    assert (status, body["Message"]) == (413, "The request body is too large.")


def test_a_chunked_form_over_the_limit_is_a_413(server):
    form = b"&".join(f"{k}={v}".encode() for k, v in CREDENTIALS.items())
    request = chunked(form, *[b"&" * 65536] * 20).replace(
        b"application/json", b"application/x-www-form-urlencoded"
    )
    assert send(server, request)[0] == 413


def test_a_body_shorter_than_it_claims_is_a_400(server):
    claim = f"Content-Length: {len(BODY) + 100}\r\n\r\n".encode()
    status, _, body = send(server, POST + claim + BODY, half_close=True)
    assert (status, body["Message"]) == (
        400,
        "The request body is shorter than its Content-Length.",
    )


def test_two_long_names_of_another_script_fit_into_a_path(server):
    name = "%E7%8E%A9" * 255
    request = f"GET /api/v1/players/{name} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert send(server, request)[0] == 401

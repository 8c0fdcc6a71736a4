"""The table of hostile bytes, at real gunicorn and at real nginx with the configuration we ship."""

import json
import socket

import pytest
from pymongo import MongoClient

from tests.hostile_bytes import DOORS, ROWS, SMUGGLED
from tests.system import nginx
from tests.system.nginx import parsed, proxying, read_all
from tests.system.programs import serving

pytestmark = pytest.mark.skipif(not nginx.NGINX, reason=nginx.MISSING)

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Gunicorn:
    """gunicorn's own socket, without a proxy in front of it."""

    def __init__(self, path):
        self._path = path

    def send(self, request):
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(20)
            stream.connect(self._path)
            stream.sendall(request)
            stream.shutdown(socket.SHUT_WR)
            return read_all(stream)


@pytest.fixture(scope="module")
def server(tmp_path_factory, mongodb_uri):
    folder = tmp_path_factory.mktemp("hostile")
    settings = {
        "MONGODB_URI": mongodb_uri,
        "MONGODB_DATABASE": "hostile_bytes",
        "SOCKET": str(folder / "app.sock"),
        "TRUSTED_PROXIES": "1",
        "LOG_FORMAT": "json",
    }
    with serving(folder, **settings) as server:
        yield server
    with MongoClient(mongodb_uri) as client:
        client.drop_database("hostile_bytes")


@pytest.fixture(scope="module")
def doors(server, tmp_path_factory):
    patience = {"client_body_timeout": "client_body_timeout 1s;"}
    with proxying(tmp_path_factory.mktemp("door"), server.socket, **patience) as site:
        yield {"gunicorn": Gunicorn(server.socket), "nginx": site}


def answered(answer, door):
    """Return the status of an answer, as the table has it, having looked at its shape."""
    if not answer.startswith(b"HTTP/1.1 "):
        return 9 if answer else 0
    # A second answer would be that to a request that nobody should have seen.
    assert answer.count(b"HTTP/1.1 ") == 1
    status, headers, body = parsed(answer)
    if headers["content-type"] == "text/html" and door == "gunicorn":
        return status  # gunicorn's own page; nginx lets none of these requests through
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["x-request-id"]
    if status >= 400:
        assert json.loads(body)["Message"].endswith(".")
    return status


@pytest.mark.parametrize("door", DOORS)
def test_hostile_bytes_are_answered_once_and_the_next_client_is_served(doors, server, door):
    wrong = {}
    for row in ROWS:
        seen = answered(doors[door].send(row.sent), door), answered(doors[door].send(HEALTH), door)
        if seen != (getattr(row, door), 200):
            wrong[row.name] = seen
    assert wrong == {}
    assert SMUGGLED not in server.output.read_text()

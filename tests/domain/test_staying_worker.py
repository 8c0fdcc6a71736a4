"""A thread stays with a busy connection, as long as no other connection needs it."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.workers.gthread import ThreadWorker

from app.server.staying_worker import StayingWorker


@pytest.fixture
def client(monkeypatch):
    """A client whose requests are lines; the worker answers each, and closes after a bye."""
    near, far = socket.socketpair()

    def handle(self, conn):
        line = conn.sock.recv(4)
        conn.sock.sendall(line)
        return line != b"bye\n"

    monkeypatch.setattr(ThreadWorker, "handle", handle)
    with near, far:
        yield SimpleNamespace(near=near, conn=SimpleNamespace(sock=far))


@pytest.fixture
def worker():
    """A worker as gunicorn makes it, so that a renamed attribute is noticed."""
    config = Config()
    config.set("threads", 8)
    worker = StayingWorker(1, 1, [], None, 30, config, None)
    worker.nr_conns = 8
    yield worker
    worker.tmp.close()


@pytest.mark.parametrize(
    ("text", "is_kept"), [(b"one\n", True), (b"one\ntwo\n", True), (b"one\nbye\n", False)]
)
def test_a_thread_answers_what_follows_at_once(client, worker, text, is_kept):
    client.near.sendall(text + b"late" * (not is_kept))
    assert worker.handle(client.conn) is is_kept
    assert client.near.recv(99) == text


@pytest.mark.parametrize(
    "names", [{"alive": False}, {"nr_conns": 9}, {"cfg": SimpleNamespace()}], ids=str
)
def test_a_thread_leaves_a_connection_if_others_wait_or_names_differ(client, worker, names):
    vars(worker).update(names)
    client.near.sendall(b"one\ntwo\n")
    assert worker.handle(client.conn) is True
    assert client.near.recv(99) == b"one\n"


def test_a_thread_leaves_a_closed_connection(client, worker):
    client.near.sendall(b"one\n")
    client.conn.sock.close()
    assert not worker._has_next(client.conn)

"""The worker's signals, without a master."""

from __future__ import annotations

import logging
import os
import signal
import threading

from gunicorn.config import Config

from app.server.worker import Worker


def test_a_quit_ends_a_worker_that_is_starting_a_thread(monkeypatch):
    worker = Worker(1, os.getpid(), [], None, 30, Config(), logging.getLogger("gunicorn.error"))
    worker.tpool = worker.get_thread_pool()
    ended = []

    def submit():
        try:
            worker.tpool.submit(print)
        except SystemExit as end:
            ended.append(end.code)

    loop = threading.Thread(target=submit, daemon=True)
    start = threading.Thread.start

    def start_or_quit(thread):
        # The pool holds its lock while it starts a thread; the signal arrives at that moment.
        if threading.current_thread() is loop:
            worker.handle_quit(signal.SIGQUIT, None)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_quit)
    loop.start()
    loop.join(10)
    if not ended:
        worker.tpool._shutdown_lock.release()  # else the interpreter would wait for it, too
    worker.tmp.close()
    assert ended == [0], "the worker waits for a lock that it holds itself"

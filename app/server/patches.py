"""The one place where gunicorn is changed at run time, in the process that serves."""

from __future__ import annotations

from typing import Any

from gunicorn import util
from gunicorn.http import wsgi

from app.server.response import OnePieceResponse, write_error


def patch_gunicorn(cfg: Any) -> None:
    """Replace what gunicorn has no setting for. The worker calls it once, after the fork.

    ``util.write_error``, by which gunicorn answers requests that it cannot parse: its HTML becomes
    our JSON, with a request id, a log line and a count.

    ``wsgi.Response``, by which gunicorn writes answers: head and body are sent by one system call.

    The properties of the configuration: each request reads dozens of settings, and gunicorn looks
    each up in a dict of objects. No setting changes in a worker, so they become plain attributes.
    """
    util.write_error = write_error
    wsgi.Response = OnePieceResponse
    cfg.__dict__.update({name: setting.get() for name, setting in cfg.settings.items()})

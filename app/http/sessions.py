"""Flask's sessions, which this application does without."""

from __future__ import annotations

from flask import Flask, Request
from flask.sessions import SessionInterface


class NoSessions(SessionInterface):
    """Opens no session: callers send a token with every request, and no cookies."""

    def open_session(self, app: Flask, request: Request) -> None:
        """Open none. Flask then has an empty one, which refuses to be changed."""

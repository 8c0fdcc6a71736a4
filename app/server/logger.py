"""The logger of gunicorn's own messages."""

from __future__ import annotations

import re
from typing import Any

import gunicorn.glogging

# gunicorn's warning about an invalid request: the reason, followed by the invalid part.
_REFUSED = re.compile(r"(Invalid request from ip=\S*: [^:]*).*", re.DOTALL)


class GunicornLogger(gunicorn.glogging.Logger):
    """gunicorn's logger without an access log: the application logs requests itself."""

    def access(self, *_: Any) -> None:
        """Log nothing."""

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log an invalid request without its content, which may be a password."""
        super().warning(_REFUSED.sub(r"\1", msg), *args, **kwargs)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log a failed request by its path, without the query string."""
        super().exception(msg, *(str(arg).partition("?")[0] for arg in args), **kwargs)

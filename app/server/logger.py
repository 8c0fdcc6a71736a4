"""gunicorn's log of itself."""

from __future__ import annotations

import re
import sys
from typing import Any

import gunicorn.glogging

# What gunicorn says of a request that it refuses: the reason, and then the part at fault.
_REFUSED = re.compile(r"(Invalid request from ip=\S*: [^:]*).*", re.DOTALL)


class GunicornLogger(gunicorn.glogging.Logger):
    """gunicorn's account of itself, without a word on requests: the application has logged them."""

    access_log_enabled = False

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Tell of a request that was refused, but not what stood in it: it may be a password."""
        super().warning(_REFUSED.sub(r"\1", msg), *args, **kwargs)

    def exception(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Tell of a request that failed, by its path alone."""
        if isinstance(sys.exc_info()[1], BlockingIOError):
            self.info("A client stopped amid a request, and its connection was closed.")
        else:
            super().exception(msg, *(str(arg).partition("?")[0] for arg in args), **kwargs)

"""Times on pages and in their filters. Pure.

A page is rendered in UTC. The module times.js converts its times and time fields to the time zone
of the reader. It submits UTC, so a URL means the same moment to everybody.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any

from markupsafe import Markup, escape

_IN_TEXT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC")


def time_tag(at: Any, relative: bool = True) -> Markup:
    """Return a time in UTC, for browsers without scripts; times.js converts it to local time."""
    if not isinstance(at, datetime):
        return Markup("never")
    text, mark = f"{at:%Y-%m-%d %H:%M} UTC", " data-relative" if relative else ""
    tag = f'<time datetime="{iso(at)}" title="{text}"{mark}>{text}</time>'
    return Markup(tag)  # nosec B704 # noqa: S704 (digits and signs)


def iso(value: Any) -> str:
    if not isinstance(value, datetime):
        return ""
    return value.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parsed(text: str) -> datetime | None:
    """Return the time in a field or a URL; UTC if it has no time zone."""
    try:
        at = datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text))
        return at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def as_utc(text: str) -> str:
    """Return a typed time in the format of the API; other text unchanged, so that it is refused."""
    return iso(parsed(text)) or text


def utc_field(text: str) -> str:
    """Return a time as the value of a datetime-local field, in UTC."""
    return as_utc(text).removesuffix("Z")


def with_times(text: str) -> Markup:
    """Return a text with the times that whole_text has formatted marked up for times.js."""
    time = r'<time datetime="\1T\2Z" title="\g<0>">\g<0></time>'
    return Markup(_IN_TEXT.sub(time, str(escape(text))))  # nosec B704 # noqa: S704 (it is escaped)

"""Secrets are not repeated: what looks like one is left out of log lines and of answers."""

from __future__ import annotations

import re

MASK = "***"
_SECRET = re.compile(
    # A SHA-256, as passwords travel and as refresh tokens are stored.
    r"[0-9a-f]{64,}"
    # What MongoDB would not store, as its refusal quotes it.
    r"|(?<=, full error: )\{.*\}"
    # A password as it is stored.
    r"|\$argon2[\w$=,+/.-]*"
    # An access token, or the beginning of one: all of them are base64 of [" and a guid.
    r"|(?-i:Wy[IJ])[\w-]{20,}[\w.-]*",
    re.ASCII | re.IGNORECASE,
)


def masked(text: str) -> str:
    """Return a text without what can be nothing but a secret."""
    return _SECRET.sub(MASK, text)

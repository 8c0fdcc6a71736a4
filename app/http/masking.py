"""Masks everything that looks like a secret in log lines and responses. Pure."""

from __future__ import annotations

import re

MASK = "***"
_SECRET = re.compile(
    # A SHA-256: a password as it is sent, or a refresh token as it is stored.
    r"[0-9a-f]{64,}"
    # A document in an error message of MongoDB.
    r"|(?<=, full error: )\{.*\}"
    # A stored password hash.
    r"|\$argon2[\w$=,+/.-]*"
    # An access token, or its beginning: each starts with [" and a guid, in base64.
    r"|(?-i:Wy[IJ])[\w-]{20,}[\w.-]*"
    # What is encrypted: the secret of a second factor, or the state between two requests.
    r"|(?-i:gAAAA)[\w-]{20,}=*"
    # A JSON Web Token, such as an ID token of the company's provider.
    r"|(?-i:eyJ)[\w-]{10,}\.[\w.-]*"
    # An API key, or most of one.
    r"|(?-i:qm_)[0-9A-Za-z]{20,}",
    re.ASCII | re.IGNORECASE,
)


def masked(text: str) -> str:
    """Return a text with all secrets masked."""
    return _SECRET.sub(MASK, text)

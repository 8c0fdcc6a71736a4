"""The curl command that does the same as a form. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote


def curl(
    base: str,
    method: str,
    path: str,
    body: Mapping[str, Any] | None = None,
    key: str | None = None,
    reason: str = "",
    file: tuple[str, str] | None = None,
) -> str:
    """Return a shell command, one option per line; file is a media type and a file name."""
    parts = [f"curl -X {method}" if method != "GET" else "curl"]
    parts.append('-H "Authorization: Bearer $TOKEN"')
    if key:
        parts.append(f"-H {quoted(f'Idempotency-Key: {key}')}")
    if reason:
        parts.append(f"-H {quoted(f'X-Reason: {quote(reason)}')}")
    if body is not None:
        parts.append('-H "Content-Type: application/json"')
        parts.append(f"-d {quoted(json.dumps(body, ensure_ascii=False))}")
    if file:
        parts.append(f"-H {quoted(f'Content-Type: {file[0]}')}")
        parts.append(f"--data-binary {quoted(f'@{file[1]}')}")
    parts.append(quoted(f"{base}{path}"))
    return " \\\n  ".join(parts)


def api_path(*parts: str) -> str:
    """Return a path of the API with its parts percent-encoded."""
    return "/api/v1/" + "/".join(quote(part, safe=":") for part in parts)


def quoted(text: str) -> str:
    """Return a text as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"

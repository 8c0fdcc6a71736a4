"""The activity log of a user or a player: entries of history, and sign-ins of the user."""

from __future__ import annotations

import hashlib
import json

from app.core.paging import Page, Window
from app.core.types import Document
from app.history.store import filters_of, history
from app.users.oauth.store import refresh_tokens as tokens

SIGN_IN = "sign-in"


def of_user(user_id: str, window: Window) -> Page:
    """Return a page of the log of a user, the newest line first."""
    lines = [
        _line(
            {
                # Not the chain itself, which the tokens of the sign-in contain.
                "_id": f"{SIGN_IN}:{hashlib.sha256(sign_in['Id'].encode()).hexdigest()[:32]}",
                "At": sign_in["At"],
                "Operation": SIGN_IN,
                "Via": sign_in["Via"],
            },
            user_id,
        )
        for sign_in in tokens.stored_sign_ins(user_id)
    ]
    about = filters_of({}, ("user",), user_id)
    total = history.count(about) + len(lines)
    # Few changes are about an account, so all up to this page are read.
    entries = history.walk(about, limit=window.start + window.limit)
    lines += [_line(entry, user_id) for entry in entries]
    lines.sort(key=lambda line: (line["TimeStamp"], line["Id"]), reverse=True)
    return Page(total, lines[window.start :][: window.limit])


def of_player(player_id: str, user_id: str | None, window: Window) -> Page:
    """Return a page of the log of a player, the newest line first."""
    about = filters_of({}, ("player",), player_id)
    entries = history.walk(about, window.start, window.limit)
    return Page(history.count(about), [_line(entry, user_id, player_id) for entry in entries])


def sign_ins(user_id: str, window: Window) -> Page:
    """Return a page of the sign-ins of a user that are kept, the newest first."""
    found = tokens.stored_sign_ins(user_id)
    values: list[Document] = [
        {"Ip": None, "LastUsed": sign_in["At"], "OtherUsers": {}}
        for sign_in in found[window.start :][: window.limit]
    ]
    return Page(len(found), values)


def _line(entry: Document, user_id: str | None, player_id: str | None = None) -> Document:
    meta = {name: entry[name] for name in ("By", "Reason", "Arguments") if name in entry}
    return {
        "Id": entry["_id"],
        "TimeStamp": entry["At"],
        "UserId": user_id,
        "PlayerId": player_id,
        "Action": entry["Operation"],
        "Peer": entry["Via"],
        # IP addresses are not stored.
        "Ip": None,
        "Meta": json.dumps(meta, default=str, ensure_ascii=False),
    }

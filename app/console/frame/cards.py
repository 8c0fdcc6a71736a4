"""Players and users as pages show them, whatever a game has stored of them. Pure.

A game writes these documents too, and a field may be missing or be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.types import Document, whole


def player_card(record: Mapping[str, Any]) -> Document:
    """Return what pages show of a player's record."""
    return {
        "Id": record["Id"],
        "Name": _text(record.get("Name")) or str(record["Id"]),
        "Level": _number(record.get("Level")),
        "ClassName": _text(record.get("ClassName")),
        "MapName": _text(record.get("MapName")),
        "X": _number(record.get("X")),
        "Y": _number(record.get("Y")),
        "Online": bool(record.get("Online")),
        "LastOnline": _moment(record.get("LastOnline")),
        "CreationDate": _moment(record.get("CreationDate")),
        "PlayTimeSeconds": _number(record.get("PlayTimeSeconds")),
        "UserId": record.get("UserId"),
        # Where somebody was found by it.
        "FormerName": None,
    }


def user_card(user: Mapping[str, Any]) -> Document:
    """Return what pages show of an account, with the fields that rules ask for."""
    power = user.get("Power")
    shown = {
        "Name": _text(user.get("Name")) or str(user["_id"]),
        "Email": _text(user.get("Email")),
        "Power": power if isinstance(power, dict) else {},
        "Reset": _reset(user.get("Reset")),
        "CreationDate": _moment(user.get("CreationDate")),
        "FormerName": None,
    }
    return {**user, **shown}


def key_card(record: Mapping[str, Any], names: Mapping[str, str], now: datetime) -> Document:
    """Return what pages show of a key; names are those of items, by id."""
    budget = record["Budget"] or {}
    items = budget.get("Items")
    shown = {
        "HasEnded": record["ExpiresAt"] <= now,
        "Addresses": _texts(record["Addresses"]),
        "Budget": {
            "LargestQuantity": whole(budget.get("LargestQuantity")),
            "ItemsPerDay": whole(budget.get("ItemsPerDay")),
            "Items": [names.get(id_) or id_ for id_ in _texts(items)],
        },
        "HasAddresses": record["Addresses"] is not None,
        "HasBudget": record["Budget"] is not None,
    }
    return {**record, **shown}


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _reset(value: Any) -> Document | None:
    """Return a mailed code, if it is one."""
    has_code = isinstance(value, dict) and isinstance(value.get("Code"), str)
    return value if has_code and isinstance(value.get("ExpiresAt"), datetime) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return whole(value) or 0


def _moment(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None

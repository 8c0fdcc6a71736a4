"""The history of a seeded world: a year of changes. Pure.

In every world, one person makes the same number of changes in one evening, among many other
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from bson import ObjectId

from app.changes import entry_id
from app.demo import world as names
from app.storage.search_fields import history_document

Document = dict[str, Any]

YEAR = timedelta(days=365)
BEGIN = names.EPOCH - YEAR
PER_PLAYER = 5
# The evening: the person, the beginning, the length, and the number of changes.
PERSON, AUTHORS = 7, 50
EVENING, EVENING_HOURS, EVENING_ENTRIES = BEGIN + timedelta(days=200, hours=18), 5, 80
REASONS = ("Lost in a crash, ticket {}.", "Won the quiz of week {}.", "Bought twice, order {}.")


@cache
def author(number: int) -> Document:
    return {"UserId": names.guid("author", number), "Name": f"support{number:02}"}


def entries(players: int, is_written: Callable[[int], bool]) -> Iterator[Document]:
    """Yield some entries for each player; those of a written player go to the one before."""
    for round_ in range(PER_PLAYER):
        for number in range(players):
            player = number - 1 if is_written(number) else number
            who, at = _who_and_when(round_ * players + number, PER_PLAYER * players)
            yield _entry(player, 2 * round_ + 1 + is_written(number), who, at)


def _who_and_when(number: int, count: int) -> tuple[int, datetime]:
    if number < EVENING_ENTRIES:
        return PERSON, EVENING + timedelta(hours=EVENING_HOURS) * (number / EVENING_ENTRIES)
    at = BEGIN + YEAR * (number / count)
    is_evening = EVENING <= at < EVENING + timedelta(hours=EVENING_HOURS)
    who = number % AUTHORS
    return (who + 1 if who == PERSON and is_evening else who), at


def _entry(player: int, version: int, who: int, at: datetime) -> Document:
    id_, item = names.guid("player", player), names.ITEM_IDS[names.STACKS[player % 20]]
    slot = {"ItemId": item, "Quantity": 3}
    entry = {
        "_id": entry_id("player", id_, version),
        "At": at.replace(microsecond=at.microsecond // 1000 * 1000),
        "Subject": {"Kind": "player", "Id": id_, "Name": names.player_name(player)},
        "Operation": "give",
        "By": author(who),
        "Via": "api",
        "RequestId": f"{player:020}",
        "Reason": REASONS[player % 3].format(player) if player % 2 else None,
        "Arguments": {"ItemId": item, "Quantity": 2, "BankOverflow": False},
        "Changes": [
            {"Path": f"Inventory.{player % 30}", "Before": slot, "After": {**slot, "Quantity": 5}}
        ],
        "Version": version,
        "Stamp": ObjectId(),
        "Number": version,
    }
    return history_document(entry, None)

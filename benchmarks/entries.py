"""The history of a seeded world: a year of changes. Pure.

In every world, one person makes the same number of changes in one evening, among many other
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from app.maintenance.demo import world as names
from app.storage.bulk import batches
from app.storage.search_fields import history_document, words

Document = dict[str, Any]

YEAR = timedelta(days=365)
BEGIN = names.EPOCH - YEAR
# The evening: the person, the beginning, the length, and the number of changes.
PERSON, AUTHORS = 7, 50
EVENING, EVENING_HOURS, EVENING_ENTRIES = BEGIN + timedelta(days=200, hours=18), 5, 80
# Every so many players, the item and its slot repeat.
SIMILAR = 60
REASONS = ("Lost in a crash, ticket {}.", "Won the quiz of week {}.", "Bought twice, order {}.")


@cache
def author(number: int) -> Document:
    return {"UserId": names.guid("author", number), "Name": f"support{number:02}"}


def entries(players: int, per_player: int, is_written: Callable[[int], bool]) -> Iterator[Document]:
    """Yield some entries for each player; those of a written player go to the one before."""
    for block in batches(range(players)):
        subjects = [_subject(number - is_written(number)) for number in block]
        for round_ in range(per_player):
            for number, subject in zip(block, subjects, strict=True):
                version = 2 * round_ + 1 + is_written(number)
                made = round_ * players + number
                who, at = _who_and_when(made, per_player * players)
                yield {
                    **_template((number - is_written(number)) % SIMILAR, who),
                    **subject,
                    "_id": f"{made:024x}",
                    "At": at.replace(microsecond=at.microsecond // 1000 * 1000),
                    "Version": version,
                }


def _subject(player: int) -> Document:
    """Return the fields that all entries of a player share, and no other player has."""
    id_, name = names.guid("player", player), names.player_name(player)
    reason = REASONS[player % 3].format(player) if player % 2 else None
    return {
        "Subject": {"Kind": "player", "Id": id_, "Name": name},
        "RequestId": f"{player:020}",
        "Reason": reason,
        **({"Words": words(reason)} if reason else {}),
    }


def _who_and_when(number: int, count: int) -> tuple[int, datetime]:
    if number < EVENING_ENTRIES:
        return PERSON, EVENING + timedelta(hours=EVENING_HOURS) * (number / EVENING_ENTRIES)
    at = BEGIN + YEAR * (number / count)
    is_evening = EVENING <= at < EVENING + timedelta(hours=EVENING_HOURS)
    who = number % AUTHORS
    return (who + 1 if who == PERSON and is_evening else who), at


@cache
def _template(player: int, who: int) -> Document:
    """Return the fields of an entry that do not depend on its subject or its time."""
    item = names.ITEM_IDS[names.STACKS[player % 20]]
    slot = {"ItemId": item, "Quantity": 3}
    entry = {
        "Subject": {"Kind": "player"},
        "Operation": "give",
        "By": author(who),
        "Via": "api",
        "Reason": None,
        "Arguments": {"ItemId": item, "Quantity": 2, "BankOverflow": False},
        "Changes": [
            {"Path": f"Inventory.{player % 30}", "Before": slot, "After": {**slot, "Quantity": 5}}
        ],
    }
    return history_document(entry, None)

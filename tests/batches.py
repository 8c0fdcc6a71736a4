"""Batches as they are stored, for tests of what serves and carries them out."""

from __future__ import annotations

from app.batches.domain import row_id
from app.batches.store import NEVER
from tests.factories import NOW, guid

ITEM = "11111111-0000-4000-8000-000000000000"


def make_batch(**fields):
    """Return a batch of one row that was planned."""
    return {
        **{"_id": guid(), "Name": "Gifts", "Reason": None, "At": NOW},
        **{"By": {"UserId": guid(), "Name": "clerk"}, "Via": "api", "Needs": []},
        **{"State": "planned", "Rows": 1},
        **{"Counts": {"Ready": 1, "Done": 0, "Refused": 0, "Replanned": 0}},
        **fields,
    }


def make_batch_row(batch, player, number=1, **fields):
    """Return a row that gives a player something, and that is ready."""
    return {
        **{"_id": row_id(batch["_id"], number), "Batch": batch["_id"], "Part": 0},
        "Player": player["Name"],
        "Subject": {"Kind": "player", "Id": player["_id"], "Name": player["Name"]},
        "Operation": "give",
        "Arguments": {"itemid": ITEM, "quantity": 1, "bankoverflow": False},
        **{"Verdict": "ready", "Why": None, "Version": 0, "Replanned": False},
        **fields,
    }


def add_batch(db, id_, player, **fields):
    """Store a batch of one row, which is ready, or done if the batch is."""
    batch = make_batch(_id=id_, **fields)
    is_done = batch["State"] == "done"
    if is_done:
        batch["Counts"] |= {"Ready": 0, "Done": 1}
    db.batches.insert_one(batch)
    row = make_batch_row(batch, player, Verdict="done" if is_done else "ready")
    db.batch_rows.insert_one(row)
    if not is_done:
        part = {"_id": f"{id_}:000000", "Batch": id_, "Part": 0, "LeasedUntil": NEVER}
        db.batch_parts.insert_one(part)

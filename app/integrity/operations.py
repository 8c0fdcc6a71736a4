"""Repairing damaged documents."""

from __future__ import annotations

from app.operations import ANY, Operation

REPAIR = Operation(
    name="repair",
    subject=ANY,
    needs=None,
    arguments=None,
    prepare="app/integrity/repairs, which writes whole documents",
    inverse="what was repaired was damaged before",
    moves=None,
    batch=None,
    sentence="Repaired",
)

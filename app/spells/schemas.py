from __future__ import annotations

from app.http.api import Schema
from app.http.fields import Guid, Integer


class KnownSpellSchema(Schema):
    """A spell that a player knows."""

    Slot = Integer(0)
    SpellId = Guid()


class SpellArgs(Schema):
    """Which spell."""

    spellid = Guid(required=True)


class SpellSchema(Schema):
    """The spell that was taught or forgotten."""

    SpellId = Guid()

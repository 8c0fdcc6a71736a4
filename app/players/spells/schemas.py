from __future__ import annotations

from app.http.api import Schema
from app.http.fields import Guid, Integer
from app.http.openapi.examples import KNOWN_SPELL, SPELL


class KnownSpellSchema(Schema):
    Slot = Integer(0, example=0)
    SpellId = Guid(example=KNOWN_SPELL)


class SpellArgs(Schema):
    spellid = Guid(required=True, example=SPELL, history_name="SpellId", object_type="spell")


class SpellSchema(Schema):
    SpellId = Guid(example=SPELL)

"""Eve, with what a look-up does not need switched off: links, entity tags, and XML.

It serves the record and the inventory of a player. Its lists and its updates are of another kind
than the contract's envelope and the give of an item, so it does not take part there.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from eve import Eve
from eve.auth import TokenAuth
from flask import request

from benchmarks.peers.shared import DATABASE, SECRET, URI, Document, inventory
from benchmarks.peers.tokens import is_good

READ_ONLY = {"resource_methods": ["GET"], "item_methods": ["GET"]}
TEXT = {"type": "string"}
RECORD = (
    *("Name", "UserId", "ClassId", "ClassName", "Gender", "Level", "Exp", "ExperienceToNextLevel"),
    *("StatPoints", "Vitals", "MaxVitals", "BaseStats", "StatPointAllocations", "Equipment"),
    *("MapId", "MapName", "X", "Y", "Dir", "Sprite", "Face", "Online", "InBank", "LastOnline"),
    *("LastSeen", "CreationDate", "PlayTimeSeconds"),
)
BY_NAME = {"url": 'regex("[^/]+")', "field": "NameKey"}


class Tokens(TokenAuth):
    """Checks the token of each request."""

    def authorized(self, allowed_roles: Any, resource: Any, method: Any) -> bool:
        return is_good(request.headers.get("Authorization", ""), SECRET)


def resource(*fields: str) -> Document:
    """Return a view of the players that serves these fields, and asks MongoDB for no others."""
    return {
        **READ_ONLY,
        "schema": {"_id": TEXT, "NameKey": TEXT, **{name: {} for name in fields}},
        "datasource": {"source": "players", "projection": dict.fromkeys(fields, 1)},
        "item_lookup": True,
        "item_url": 'regex("[0-9a-f-]{36}")',
        "additional_lookup": BY_NAME,
    }


SETTINGS = {
    "URL_PREFIX": "api",
    "API_VERSION": "v1",
    "MONGO_URI": URI,
    "MONGO_DBNAME": DATABASE,
    "HATEOAS": False,
    "IF_MATCH": False,
    "RENDERERS": ["eve.render.JSONRenderer"],
    "DATE_FORMAT": "%Y-%m-%dT%H:%M:%S.%fZ",
    "DOMAIN": {
        "players": resource(*RECORD),
        "inventories": resource("Inventory"),
    },
}


def fold_name(_request: Any, lookup: Document) -> None:
    if "NameKey" in lookup:
        lookup["NameKey"] = unicodedata.normalize("NFC", lookup["NameKey"]).casefold()


def serve_slots(response: Document) -> None:
    response["Inventory"] = inventory(response["Inventory"])


app = Eve(settings=SETTINGS, auth=Tokens)
app.on_pre_GET_players += fold_name
app.on_pre_GET_inventories += fold_name
app.on_fetched_item_inventories += serve_slots

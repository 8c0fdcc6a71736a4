"""flask-smorest as its documentation shows it: method views, schemas, every answer dumped.

Documents are read whole and schemas pick what is served. A give reads the player, changes its
inventory and writes it, if nobody else has changed the player meanwhile.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from flask import Flask, request
from flask.views import MethodView
from flask_smorest import Api, Blueprint, abort
from marshmallow import Schema, fields, validate
from pymongo import MongoClient

from benchmarks.peers.shared import (
    CLIENT,
    DATABASE,
    PAGE_SIZE,
    SECRET,
    SLOTS,
    URI,
    Document,
    given,
    inventory,
    page,
    record,
)
from benchmarks.peers.tokens import is_good

players = MongoClient(URI, tz_aware=True, **CLIENT)[DATABASE]["players"]

blp = Blueprint("players", __name__, url_prefix="/api/v1/players")


class PlayerSchema(Schema):
    Id = fields.String()
    Name = fields.String()
    UserId = fields.String()
    ClassId = fields.String()
    ClassName = fields.String()
    Gender = fields.Integer()
    Level = fields.Integer()
    Exp = fields.Integer()
    ExperienceToNextLevel = fields.Integer()
    StatPoints = fields.Integer()
    Vitals = fields.List(fields.Integer())
    MaxVitals = fields.List(fields.Integer())
    BaseStats = fields.List(fields.Integer())
    StatPointAllocations = fields.List(fields.Integer())
    Equipment = fields.List(fields.Integer())
    MapId = fields.String()
    MapName = fields.String()
    X = fields.Integer()
    Y = fields.Integer()
    Dir = fields.Integer()
    Sprite = fields.String()
    Face = fields.String()
    Online = fields.Boolean()
    InBank = fields.Boolean()
    LastOnline = fields.AwareDateTime(allow_none=True)
    LastSeen = fields.AwareDateTime(allow_none=True)
    CreationDate = fields.AwareDateTime()
    PlayTimeSeconds = fields.Integer()


class PageArgs(Schema):
    page = fields.Integer(load_default=0)
    pageSize = fields.Integer(load_default=PAGE_SIZE)


class PageSchema(Schema):
    Total = fields.Integer()
    Page = fields.Integer()
    PageSize = fields.Integer()
    Count = fields.Integer()
    Values = fields.List(fields.Nested(PlayerSchema))


class SlotSchema(Schema):
    Slot = fields.Integer()
    BagId = fields.String(allow_none=True)
    ItemId = fields.String()
    Quantity = fields.Integer()
    StatBuffs = fields.List(fields.Integer())


class GiveArgs(Schema):
    itemid = fields.UUID(required=True)
    quantity = fields.Integer(required=True, validate=validate.Range(1))


class CountsSchema(Schema):
    total = fields.Integer()
    bank = fields.Integer()
    inventory = fields.Integer()


class GivenSchema(Schema):
    id = fields.String()
    quantity = fields.Nested(CountsSchema)


@blp.route("")
class PlayerList(MethodView):
    @blp.arguments(PageArgs, location="query")
    @blp.response(200, PageSchema)
    def get(self, args: Document) -> Document:
        """List players"""
        number, size = args["page"], args["pageSize"]
        found = players.find(sort=[("NameKey", 1)]).skip(number * size).limit(size)
        total = players.estimated_document_count()
        return page(list(found), total, datetime.now(timezone.utc), number, size)


@blp.route("/<name>")
class Player(MethodView):
    @blp.response(200, PlayerSchema)
    def get(self, name: str) -> Document:
        """Get one player"""
        return record(find(name), datetime.now(timezone.utc))


@blp.route("/<name>/items/inventory")
class Inventory(MethodView):
    @blp.response(200, SlotSchema(many=True))
    def get(self, name: str) -> list[Document]:
        """Get a player's inventory"""
        return inventory(find(name)["Inventory"])


@blp.route("/<name>/items/give")
class Give(MethodView):
    @blp.arguments(GiveArgs)
    @blp.response(200, GivenSchema)
    def post(self, args: Document, name: str) -> Document:
        """Give an item to a player"""
        item = str(args["itemid"])
        while True:
            player = find(name)
            add(player["Inventory"], item, args["quantity"])
            unchanged = {"_id": player["_id"], "Version": player["Version"]}
            change = {"$set": {"Inventory": player["Inventory"]}, "$inc": {"Version": 1}}
            if players.update_one(unchanged, change).matched_count:
                return given(player, item)


def find(name: str) -> Document:
    player = players.find_one({"NameKey": name.casefold()})
    if player is None:
        abort(404)
    return player


def add(slots: Document, item: str, quantity: int) -> None:
    """Add to the first plain stack, or fill the first empty slot."""
    for slot in sorted(slots, key=int):
        held = slots[slot]
        if held["ItemId"] == item and not held.get("StatBuffs") and not held.get("BagId"):
            held["Quantity"] += quantity
            return
    empty = next((str(slot) for slot in range(SLOTS) if str(slot) not in slots), None)
    if empty is None:
        abort(409)
    slots[empty] = {"ItemId": item, "Quantity": quantity}


def require_token() -> None:
    if not is_good(request.headers.get("Authorization", ""), SECRET):
        abort(401)


def create_app() -> Flask:
    app = Flask(__name__)
    settings: dict[str, Any] = {
        "API_TITLE": "Players",
        "API_VERSION": "v1",
        "OPENAPI_VERSION": "3.0.3",
    }
    app.config.update(settings)
    app.before_request(require_token)
    Api(app).register_blueprint(blp)
    return app


app = create_app()

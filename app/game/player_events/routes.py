"""What a game reports of its players: storing and listing it, and giving back what was lost."""

from __future__ import annotations

from flask import Response

from app.auth.execution import change_route
from app.auth.spending import OverBudget, refuse_unknown, unaskable
from app.auth.views import read_route
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.game.player_events.access import restore_item, served_events
from app.game.player_events.domain import AlreadyGivenBack, NotLost
from app.game.player_events.schemas import GameEventPageSchema, ReportedSchema, ReportEventsArgs
from app.game.player_events.store import events
from app.http.api import Blueprint
from app.http.cursors import cursors
from app.http.examples import BAG, ENTRY, EVENT, ITEM
from app.http.intents import answer
from app.http.lists import CursorListArgs, cursor_response, page_size
from app.players.items.domain import no_room
from app.players.items.operations import GIVE_BACK
from app.players.items.schemas import TakenSchema
from app.players.items.undo import BagIsElsewhere
from app.players.store import players

REPORTING = "reporting items"

of_game = Blueprint("GameEvents", __name__, url_prefix="/api/v1/game", group="Game")
of_players = Blueprint("PlayerEvents", __name__, url_prefix="/api/v1/players", group="Players")


@read_route(
    of_game,
    "/events",
    ReportedSchema,
    Permission.GAME_ACT,
    args=ReportEventsArgs(),
    method="POST",
    refuses=(OverBudget("shop", f"{REPORTING} is not for a key with a budget", "Budget"),),
)
def report_events(args: Document) -> Document:
    """Report what happened to players

    At most 1000 events. An event whose `Id` is known changes nothing, so a report can be repeated.
    Events are kept for `QM_GAME_EVENT_DAYS`, and are no history entries. A person with limits, or a
    key with a budget, cannot report items, because a lost item can be given back.
    """
    if any(event.get("Items") for event in args["Events"]):
        with unaskable():  # a lost item can be given back, with any properties
            refuse_unknown(REPORTING)
    return events.add([{"_id": event.pop("Id"), **event} for event in args["Events"]])


@read_route(
    of_players,
    "/<player:key>/events",
    GameEventPageSchema,
    Permission.HISTORY_READ,
    args=CursorListArgs(),
)
def list_player_events(args: Document, key: Lookup) -> Response:
    """List what the game reported of a player

    Newest first. `Items` has what the player got or, with a Quantity below 0, lost.
    """
    after = cursors.read(args.get("after", ""))
    found = events.list(players.get_id_ever(key), page_size(args), after)
    return cursor_response(found._replace(values=served_events(found.values)))


@change_route(
    of_players,
    GIVE_BACK,
    "/<player:key>/items/give-back",
    TakenSchema,
    NotFound("event", EVENT),
    NotLost(EVENT, 0),
    AlreadyGivenBack(ENTRY),
    no_room(ITEM, 5, 2, bank=False),
    BagIsElsewhere(BAG),
)
def give_back_item(args: Document, key: Lookup) -> Response:
    """Give back an item that a player lost in the game

    The item of an event, with its properties, once: it counts and can be undone like a give. A bag
    comes back with what is in it, unless somebody carries it; if it no longer exists, the item
    comes back without it, and the answer has a `Warning`.
    """
    return answer(restore_item(key, args))

"""Lists the events of a player, and gives back what the player lost by one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

from app.auth.spending import Moved, spend, unaskable
from app.changes import Applied
from app.errors import AlreadyUndone
from app.game_events.domain import (
    BAG_GONE,
    AlreadyGivenBack,
    event_items,
    give_back,
    lost_slot,
    public_event,
    restoration_id,
)
from app.game_events.store import GameEvents
from app.history.store import History
from app.http.context import current
from app.http.intents import keyed_intent
from app.items.domain import FILLED_BAG, bag_of
from app.items.operations import GIVE_BACK
from app.items.store import Bags, Catalogue
from app.items.undo import CONTAINERS
from app.naming import Lookup
from app.players.store import Players
from app.storage.limits import Marks
from app.types import Document

bags = current(Bags)
catalogue = current(Catalogue)
events = current(GameEvents)
history = current(History)
marks = current(Marks)
players = current(Players)


def served_events(found: Sequence[Document]) -> list[Document]:
    """Return events as they are served, with the entries that gave back their items."""
    ids = [
        restoration_id(event["_id"], number)
        for event in found
        for number, _ in enumerate(event_items(event))
    ]
    subjects = list({event["Player"] for event in found})
    restored = history.restored_by(ids, subjects) if ids else {}
    return [public_event(event, restored) for event in found]


@unaskable()
def restore_item(key: Lookup, args: Document) -> Applied:
    """Give back an item of an event, once, within the limits of a give."""
    player_id = players.get_id(key)
    event = events.get(args["event"], player_id)
    held, warning = lost_slot(event, args["item"]), None
    if (bag := bag_of(held)) and not bags.exists(bag):
        held, warning = {name: held[name] for name in held if name != "BagId"}, BAG_GONE
    moved = {"ItemId": held["ItemId"], "Quantity": held["Quantity"]}
    undoes = {"_id": restoration_id(event["_id"], args["item"])}
    meant = keyed_intent(GIVE_BACK, {**args, **moved}, undoes)._replace(warning=warning)
    rule = partial(
        give_back,
        held=held,
        bankoverflow=args["bankoverflow"],
        limits_of=catalogue.limits,
        is_carried=bags.is_carried,
    )
    where = Lookup.parse(player_id)
    change = partial(players.change, where, CONTAINERS, rule, meant)
    try:
        count: Moved = {held["ItemId"]: held["Quantity"]}
        if (bag := bag_of(held)) and bags.is_filled(bag):
            count = FILLED_BAG
        with marks.hold("bag", bag) if bag else nullcontext():
            return spend(count, change, partial(players.find_earlier, where, meant))
    except AlreadyUndone as error:
        raise AlreadyGivenBack(error.by) from None

"""Lists the events of a player, and gives back what the player lost by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from app.auth.spending import spend, unaskable
from app.core.changes import Applied, Intent
from app.core.errors import AlreadyUndone
from app.core.naming import Lookup
from app.core.operations import Moved
from app.core.types import Document
from app.game.player_events.domain import (
    BAG_GONE,
    AlreadyGivenBack,
    event_items,
    give_back,
    lost_slot,
    public_event,
    restoration_id,
)
from app.game.player_events.store import GameEvents
from app.history.store import History
from app.http.context import current
from app.http.intents import intent
from app.players.items.domain import FILLED_BAG, bag_of
from app.players.items.operations import GIVE_BACK
from app.players.items.store import Bags, Catalogue
from app.players.items.undo import CONTAINERS
from app.players.store import Players

bags = current(Bags)
catalogue = current(Catalogue)
events = current(GameEvents)
history = current(History)
players = current(Players)


def served_events(found: Sequence[Document]) -> list[Document]:
    """Return events as they are served, with the entries that gave back their items."""
    ids = [
        restoration_id(event["_id"], number)
        for event in found
        for number, _ in enumerate(event_items(event))
    ]
    restored = history.undone(ids) if ids else {}
    return [public_event(event, restored) for event in found]


@unaskable()
def restore_item(key: Lookup, args: Document) -> Applied:
    """Give back an item of an event, once, within the limits of a give."""
    player_id, held = events.in_transaction(partial(_lost_item, key, args))
    moved = {"ItemId": held["ItemId"], "Quantity": held["Quantity"]}
    undoes = {"_id": restoration_id(args["event"], args["item"])}
    meant = intent(GIVE_BACK, {**args, **moved}, undoes)
    where, bag = Lookup.parse(player_id), bag_of(held)
    change = partial(_give_back, where, held, args["bankoverflow"], meant)
    count: Moved = {held["ItemId"]: held["Quantity"]}
    if bag and bags.is_filled(bag):
        count = FILLED_BAG
    try:
        return spend(
            count,
            partial(players.in_transaction, change, meant),
            partial(events.in_transaction, partial(_find_earlier, where, meant)),
        )
    except AlreadyUndone as error:
        raise AlreadyGivenBack(error.by) from None


def _lost_item(key: Lookup, args: Document) -> tuple[str, Document]:
    """Return the id of a player, and the item of an event as a slot held it."""
    player_id = players.get_id(key)
    return player_id, lost_slot(events.get(args["event"], player_id), args["item"])


def _find_earlier(where: Lookup, intent: Intent) -> Applied | None:
    """Return the result of the same request; raise if another one has given the item back."""
    if earlier := players.find_earlier(where, intent):
        return earlier
    if intent.undoes:
        history.require_not_undone(intent.undoes["_id"])
    return None


def _give_back(where: Lookup, held: Document, bankoverflow: bool, intent: Intent) -> Applied:
    """Give back an item, in a transaction: of two with the same bag at once, one runs again."""
    if earlier := players.find_earlier(where, intent):
        return earlier
    bag = bag_of(held)
    if bag and not bags.exists(bag):
        bag, intent = None, intent._replace(warning=BAG_GONE)
        held = {name: held[name] for name in held if name != "BagId"}
    rule = partial(
        give_back,
        held=held,
        bankoverflow=bankoverflow,
        limits_of=catalogue.limits,
        is_carried=bags.is_carried,
    )
    decision = players.decide(where, CONTAINERS, rule, intent)
    if bag:
        bags.write(bag)
    return players.write(decision)

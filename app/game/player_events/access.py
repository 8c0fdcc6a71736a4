"""Lists the events of a player, and gives back what the player lost by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from app.auth.spending import spend, unaskable
from app.core.changes import Applied, Change
from app.core.errors import AlreadyUndone
from app.core.naming import Lookup
from app.core.operations import Moved
from app.core.types import Document
from app.game.player_events.domain import (
    BAG_GONE,
    AlreadyGivenBack,
    lost_slot,
    public_event,
    restoration_id,
)
from app.game.player_events.store import events
from app.history.store import history
from app.http.intents import intent
from app.players.items.domain import CONTAINERS, FILLED_BAG, bag_of, receive
from app.players.items.operations import GIVE_BACK
from app.players.items.store import bags, catalogue
from app.players.items.undo import BagIsElsewhere
from app.players.store import players


def served_events(found: Sequence[Document]) -> list[Document]:
    """Return events as they are served, with the entries that gave back their items."""
    ids = [
        restoration_id(event["_id"], number)
        for event in found
        for number, _ in enumerate(event.get("Items", []))
    ]
    restored = history.undone(ids)
    return [public_event(event, restored) for event in found]


@unaskable()
def restore_item(key: Lookup, args: Document) -> Applied:
    """Give back an item of an event, once, within the limits of a give."""
    player_id = players.get_id(key)
    lost = lost_slot(events.get(args["event"], player_id), args["item"])
    answer = {"ItemId": lost["ItemId"], "Quantity": lost["Quantity"]}
    undoes = {"_id": restoration_id(args["event"], args["item"])}
    meant = intent(GIVE_BACK, {**args, **answer}, undoes)
    where, bag = Lookup.parse(player_id), bag_of(lost)

    def give_back() -> Applied:
        # Of two transactions with the same bag at once, one runs again.
        held = lost
        warning: str | None = None
        if bag and not bags.exists(bag):
            held = {name: lost[name] for name in lost if name != "BagId"}
            warning = BAG_GONE
        elif bag and bags.is_carried(bag):
            raise BagIsElsewhere(bag)

        def rule(player: Document) -> Change:
            bank, limits = args["bankoverflow"], catalogue.limits
            change = receive(player, held=[held], bankoverflow=bank, limits_of=limits)
            return change._replace(answer=answer, warning=warning)

        decision = players.decide(where, CONTAINERS, rule, meant)
        if bag:
            bags.write(bag)
        return players.write(decision)

    moved: Moved = FILLED_BAG if bag and bags.is_filled(bag) else GIVE_BACK.moves(answer)
    try:
        change = partial(players.once, where, give_back, meant)
        return spend(moved, change, partial(players.find_earlier, where, meant))
    except AlreadyUndone as error:
        raise AlreadyGivenBack(error.by) from None

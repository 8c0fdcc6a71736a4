"""Moves items between two players: both change, each with an entry, in one transaction."""

from __future__ import annotations

from functools import partial

from app.auth.spending import refuse_unknown
from app.core.changes import Applied, Change, Intent
from app.core.errors import Conflict, InvalidField
from app.core.naming import Lookup
from app.core.types import Document
from app.players.items.domain import CONTAINERS, FILLED_BAG, bags_in, receive, take
from app.players.items.store import bags, catalogue
from app.players.items.undo import moves_of, undo
from app.players.store import players
from app.storage.changes import Decision
from app.storage.client import storage
from app.storage.history import HISTORY


class PairIncomplete(Conflict):
    code = "CANNOT_UNDO"
    sentence = "The transfer cannot be undone: the change of the other player is no longer kept."


def transfer(key: Lookup, args: Document, intent: Intent) -> Applied:
    """Move items from a player to another one."""

    def step() -> Applied:
        sender, receiver = players.get_id(key), players.get_id(Lookup.parse(args["to"]))
        if sender == receiver:
            raise InvalidField("to", "Must be another player.")
        answer = {"ItemId": args["itemid"], "Quantity": args["quantity"], "To": receiver}

        def send(player: Document) -> Change:
            change = take(player, itemid=args["itemid"], quantity=args["quantity"])
            gone = bags_in(player) - bags_in({**player, **change.fields})
            if not intent.is_preview and any(map(bags.is_filled, gone)):
                # Not for whoever may move a limited number of items, who may still ask for it.
                refuse_unknown(FILLED_BAG)
            return change._replace(answer=answer)

        named = {name: value for name, value in intent.arguments.items() if name != "To"}
        sent = intent._replace(arguments={**named, "To": receiver})
        got = _without_key(intent)._replace(arguments={**named, "From": sender})
        taken = players.decide(Lookup.parse(sender), CONTAINERS, send, sent)
        moves = moves_of(_entry_of(taken)["Changes"])
        bring = partial(
            receive,
            held=[{**move.held, "Quantity": -move.quantity} for move in moves],
            bankoverflow=args["bankoverflow"],
            limits_of=catalogue.limits,
        )
        brought = players.decide(Lookup.parse(receiver), CONTAINERS, bring, got)
        return _write(taken, brought, sender)

    return players.once(key, step, intent)


def undo_transfer(entry: Document, intent: Intent) -> Applied:
    """Move the items of a transfer back, from either of its entries."""
    named, about = entry["Subject"]["Id"], entry["Transfer"]

    def reverse(one: Document) -> Decision:
        # Only the named change has the caller's key.
        own = intent if one is entry else _without_key(intent)
        meant = own._replace(undoes=one, arguments={**intent.arguments, "Id": one["_id"]})
        rule = partial(undo, changes=one["Changes"], limits_of=catalogue.limits, has_bags=True)
        return players.decide(Lookup.parse(one["Subject"]["Id"]), CONTAINERS, rule, meant)

    def step() -> Applied:
        other = storage.db[HISTORY.name].find_one({"_id": about.get("Entry")})
        if other is None:
            raise PairIncomplete
        # Who got the items now sends them.
        sender, receiver = (other, entry) if about["Sent"] else (entry, other)
        return _write(reverse(sender), reverse(receiver), named)

    return players.once(Lookup.parse(named), step, intent)


def _write(sender: Decision, receiver: Decision, named: str) -> Applied:
    """Write both changes, whose entries name each other; return that of the named player."""
    for one, other in ((sender, receiver), (receiver, sender)):
        about = {"Player": other.document["_id"], "Entry": _entry_of(other)["_id"]}
        _entry_of(one)["Transfer"] = {**about, "Sent": one is sender}
    outcomes = {one.document["_id"]: players.write(one) for one in (sender, receiver)}
    return outcomes[named]


def _entry_of(decision: Decision) -> Document:
    """Return the entry of a change that moves items, and so always has one."""
    return decision.outcome.entry or {}


def _without_key(intent: Intent) -> Intent:
    return intent._replace(key=None, fingerprint=None)

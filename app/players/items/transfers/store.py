"""Moves items between two players: both change, each with an entry, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.core.changes import Applied, Intent, Origin, Rule
from app.core.errors import InvalidField
from app.core.naming import Lookup
from app.core.types import Document
from app.players.items.store import Catalogue
from app.players.items.transfers.domain import PairIncomplete, receive, take_any, take_back
from app.players.items.undo import CONTAINERS
from app.players.store import Players
from app.storage.changes import Decision
from app.storage.client import Storage
from app.storage.history import HISTORY

NOBODY = Origin(None, "", "")


class Transfers:
    """Moves items between the players of one application."""

    def __init__(self, storage: Storage, players: Players, catalogue: Catalogue) -> None:
        self._players = players
        self._history = storage.db[HISTORY.name]
        self._limits = catalogue.limits
        self.find_earlier = players.find_earlier

    def preview(self, key: Lookup, args: Document) -> list[Document]:
        """Return how moving items to another player would change the sender; raise if it cannot."""
        meant, taken = Intent("", NOBODY), {name: args[name] for name in ("itemid", "quantity")}
        rules: tuple[Rule, Rule] = (partial(take_any, **taken), self._probe(args))
        sent, _ = (
            self._players.preview(Lookup.parse(id_), CONTAINERS, rule, meant)
            for id_, rule in zip(self._ids(key, args), rules, strict=True)
        )
        changes: list[Document] = sent["Changes"]
        return changes

    def _probe(self, args: Document) -> Rule:
        """Return the rule by which a receiver has room for plain items."""
        held = {"ItemId": args["itemid"], "Quantity": args["quantity"]}
        return self._receiving([{"Path": "Inventory.0", "Before": held, "After": None}], args)

    def _receiving(self, changes: list[Document], args: Document) -> Rule:
        """Return the rule by which a receiver gets what the sender has lost."""
        bank, limits = args["bankoverflow"], self._limits
        return partial(receive, changes=changes, bankoverflow=bank, limits_of=limits)

    def _ids(self, key: Lookup, args: Document) -> tuple[str, str]:
        """Return the ids of the sender and of the receiver."""
        sender, receiver = self._players.get_id(key), self._players.get_id(Lookup.parse(args["to"]))
        if sender == receiver:
            raise InvalidField("to", "Must be another player.")
        return sender, receiver

    def make(
        self, key: Lookup, args: Document, intent: Intent, checked: Callable[[Rule], Rule]
    ) -> Applied:
        """Move items from a player to another one; checked may wrap the rule of the sender."""
        step = partial(self._make, key, args, intent, checked)
        return self._players.in_transaction(step, intent)

    def _make(
        self, key: Lookup, args: Document, intent: Intent, checked: Callable[[Rule], Rule]
    ) -> Applied:
        if earlier := self.find_earlier(key, intent):
            return earlier
        sender, receiver = self._ids(key, args)
        named = {name: value for name, value in intent.arguments.items() if name != "To"}
        answer = {"ItemId": args["itemid"], "Quantity": args["quantity"], "To": receiver}
        take = partial(take_any, itemid=args["itemid"], quantity=args["quantity"])
        sent = intent._replace(arguments={**named, "To": receiver})
        got = intent._replace(arguments={**named, "From": sender})
        # Who has no room is told first.
        self._players.preview(Lookup.parse(receiver), CONTAINERS, self._probe(args), got)
        taken = self._decide(sender, checked(partial(take, answer=answer)), sent)
        bring = self._receiving(_entry_of(taken)["Changes"], args)
        return self._write(taken, self._decide(receiver, bring, _without_key(got)), sender)

    def _decide(self, player_id: str, rule: Rule, intent: Intent) -> Decision:
        return self._players.decide(Lookup.parse(player_id), CONTAINERS, rule, intent)

    def _write(self, sender: Decision, receiver: Decision, named: str) -> Applied:
        """Write both changes, whose entries name each other; return that of the named player."""
        for one, other in ((sender, receiver), (receiver, sender)):
            about = {"Player": other.document["_id"], "Entry": _entry_of(other)["_id"]}
            _entry_of(one)["Transfer"] = {**about, "Sent": one is sender}
        outcomes = {one.document["_id"]: self._players.write(one) for one in (sender, receiver)}
        return outcomes[named]

    def undo(self, entry: Document, intent: Intent) -> Applied:
        """Move the items of a transfer back, from either of its entries."""
        step = partial(self._undo, entry, intent)
        return self._players.in_transaction(step, intent)

    def _undo(self, entry: Document, intent: Intent) -> Applied:
        sent, got = self._pair(entry)
        # Before 0.4.0, whoever sent the items back had the caller's key.
        for one in (entry, sent, got):
            if earlier := self.find_earlier(Lookup.parse(one["Subject"]["Id"]), intent):
                return earlier
        # Who got the items now sends them. Only the named change has the caller's key.
        sender, receiver = (
            self._decide(*self._reversed(one, intent if one is entry else _without_key(intent)))
            for one in (got, sent)
        )
        return self._write(sender, receiver, entry["Subject"]["Id"])

    def preview_undo(self, entry: Document, intent: Intent) -> Document:
        """Return the entry that moving the items back would have."""
        previews = {}
        for one in self._pair(entry):
            id_, rule, meant = self._reversed(one, intent)
            previews[id_] = self._players.preview(Lookup.parse(id_), CONTAINERS, rule, meant)
        return previews[entry["Subject"]["Id"]]

    def _reversed(self, entry: Document, intent: Intent) -> tuple[str, Rule, Intent]:
        """Return who undoes an entry of a transfer, by which rule, and the intent of that."""
        rule = partial(take_back, changes=entry["Changes"], limits_of=self._limits)
        arguments = {**intent.arguments, "Id": entry["_id"]}
        return entry["Subject"]["Id"], rule, intent._replace(undoes=entry, arguments=arguments)

    def _pair(self, entry: Document) -> tuple[Document, Document]:
        """Return the entries of both players, the sender's first."""
        about = entry["Transfer"]
        # Before 0.4.0, entries named each other by their keys.
        by_key = {"IdempotencyKey": about.get("Key"), "Subject.Id": about["Player"]}
        where = {"_id": about["Entry"]} if "Entry" in about else by_key
        other = self._history.find_one(where)
        if other is None:
            raise PairIncomplete
        return (entry, other) if about["Sent"] else (other, entry)


def _entry_of(decision: Decision) -> Document:
    """Return the entry of a change that moves items, and so always has one."""
    return decision.outcome.entry or {}


def _without_key(intent: Intent) -> Intent:
    return intent._replace(key=None, fingerprint=None)

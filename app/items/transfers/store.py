"""Moves items between two players in MongoDB: both change, or none (app/storage/unfinished.py).

1. A swap moves the items from the sender's slots into its mark.
2. A swap gives them to the receiver, with an entry. Its key is unique to the transfer, so that this
   happens once, whoever does it.
3. A swap removes the mark, and adds the sender's entry.

If the receiver refuses in step 2, for example because its inventory is full by now, the items go
back to the sender, and there is no entry. Nobody may give them to the receiver after that. So first
the mark is set to Refused, and then the receiver gets a new stamp: whoever has read the receiver
before cannot write it, and whoever reads it later finds the mark refused. If the receiver has the
entry nevertheless, the transfer is settled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from app.changes import Applied, Change, Intent, Origin, Rule
from app.errors import (
    Busy,
    Conflict,
    InvalidField,
    NotFound,
    OutcomeUnknown,
    QuartermasterError,
    Unavailable,
)
from app.items.store import Catalogue
from app.items.transfers.domain import (
    PairIncomplete,
    Side,
    Withdrawn,
    loaded_intent,
    receive,
    send,
    settle,
    stored_intent,
    take_any,
    take_back,
    withdraw,
)
from app.items.undo import CONTAINERS
from app.naming import Lookup
from app.players.domain import SUBJECT, TRANSFER, BeingTransferred
from app.players.store import PLAYERS, TRANSFERRING, Players
from app.storage.client import Storage
from app.storage.committed import majority_holds
from app.storage.decisions import fresh_stamp
from app.storage.errors import explain
from app.storage.history_entries import entries_of
from app.storage.unfinished import Unfinished
from app.types import Document

ATTEMPTS = 50
PAUSE_SECONDS = 0.02
READS = (*CONTAINERS, TRANSFER)
NOBODY = Origin(None, "", "")
BEGUN = "The transfer has begun and will be finished or withdrawn; please try again."


class Transfers:
    """Moves items between the players of one application."""

    def __init__(self, storage: Storage, players: Players, catalogue: Catalogue) -> None:
        self._store = players
        self._players = storage.db[PLAYERS.name]
        self._committed = storage.journals.committed(SUBJECT)
        self._journals = storage.journals
        self._swapper = storage.swapper(SUBJECT)
        self._limits = catalogue.limits

    def unfinished(self) -> Unfinished:
        return Unfinished("transfer of items", self._marked, self.finish)

    def _marked(self) -> Sequence[str]:
        return [player["_id"] for player in self._players.find(TRANSFERRING, ["_id"])]

    def preview(self, key: Lookup, args: Document) -> list[Document]:
        """Return how moving items to another player would change the sender; raise if it cannot."""
        meant, taken = Intent("", NOBODY), {name: args[name] for name in ("itemid", "quantity")}
        rules: tuple[Rule, Rule] = (partial(take_any, **taken), self._probe(args))
        sent, _ = (
            self._store.preview(Lookup.parse(id_), CONTAINERS, rule, meant)
            for id_, rule in zip(self._ids(key, args), rules, strict=True)
        )
        changes: list[Document] = sent["Changes"]
        return changes

    def _ids(self, key: Lookup, args: Document) -> tuple[str, str]:
        """Return the ids of the sender and of the receiver."""
        sender, receiver = self._store.get_id(key), self._store.get_id(Lookup.parse(args["to"]))
        if sender == receiver:
            raise InvalidField("to", "Must be another player.")
        return sender, receiver

    def make(
        self,
        key: Lookup,
        args: Document,
        intent: Intent,
        checked: Callable[[Rule], Rule] = lambda rule: rule,
    ) -> Applied:
        """Move items from a player to another one; checked may wrap the rule of the sender."""
        try:
            sender, receiver = self._ids(key, args)
            named = {n: v for n, v in intent.arguments.items() if n != "To"}
            taken = {"itemid": args["itemid"], "quantity": args["quantity"]}
            answer = {"ItemId": args["itemid"], "Quantity": args["quantity"], "To": receiver}
            mark = {"Bank": args["bankoverflow"], "Answer": answer}
            sent = intent._replace(arguments={**named, "To": receiver})
            got = intent._replace(arguments={**named, "From": sender})
            return self._move(
                Side(sender, checked(partial(take_any, **taken)), sent),
                Side(receiver, self._probe(args), got),
                mark,
            )
        except (NotFound, Conflict):
            # An earlier attempt of the same request may have filled the receiver's inventory.
            if earlier := self.find_earlier(key, intent):
                return earlier
            raise

    def _probe(self, args: Document) -> Rule:
        """Return the rule by which a receiver has room for plain items."""
        held = {"ItemId": args["itemid"], "Quantity": args["quantity"]}
        change = {"Path": "Inventory.0", "Before": held, "After": None}
        bank = args["bankoverflow"]
        return partial(receive, changes=[change], bankoverflow=bank, limits_of=self._limits)

    def find_earlier(self, key: Lookup, intent: Intent) -> Applied | None:
        """Return the result of the same request from before; None if it is new."""
        if intent.key is None:
            return None
        try:
            self.finish(self._store.get_id(key))
        except NotFound:
            return self._store.made_before(key, intent)
        return self._store.find_earlier(key, intent)

    def _move(self, sender: Side, receiver: Side, mark: Document) -> Applied:
        for attempt in range(ATTEMPTS):
            time.sleep(PAUSE_SECONDS if attempt else 0)
            self._require(receiver)
            marked = self._mark(sender, receiver, mark)
            rule = partial(send, rule=sender.rule, mark=marked)
            try:
                applied = self._change(sender.id, READS, rule, sender.intent)
            except BeingTransferred:
                self.finish(sender.id)
                continue
            if applied.replayed:
                return applied
            finished = self._finish_own(sender, applied.answer)
            if isinstance(finished, Applied):
                return finished._replace(replayed=False)
            if not isinstance(finished, Withdrawn):
                raise finished
        raise Busy("player")

    def _mark(self, sender: Side, receiver: Side, mark: Document) -> Document:
        """Return the mark of a transfer: all that another worker needs to finish it."""
        id_ = ObjectId()
        # Clients send keys of ASCII only.
        own_key = f"⇄{id_}"
        sender_key = sender.intent.key or own_key
        sent = {"Player": receiver.id, "Key": own_key, "Sent": True}
        got = {"Player": sender.id, "Key": sender_key, "Sent": False}
        sends = sender.intent._replace(key=sender_key, transfer=sent)
        gets = receiver.intent._replace(key=own_key, fingerprint=None, transfer=got)
        both = {"Sender": stored_intent(sends), "Receiver": stored_intent(gets)}
        return {"Id": id_, "To": receiver.id, "Back": None, **mark, **both}

    def _require(self, side: Side) -> None:
        """Raise if the player refuses the change now, as a majority confirms."""

        def judge(player: Document) -> Change:
            side.rule(player)
            return Change({}, None)

        without = side.intent._replace(key=None, fingerprint=None)
        self._change(side.id, CONTAINERS, judge, without)

    def _change(
        self, player_id: str, reads: tuple[str, ...], rule: Rule, intent: Intent
    ) -> Applied:
        return self._store.change(Lookup.parse(player_id), reads, rule, intent)

    def _finish_own(self, sender: Side, mark: Document) -> Applied | QuartermasterError:
        """Finish a transfer that has just begun; if that fails, other workers will."""
        try:
            return self._finish(sender.id, mark)
        except (PyMongoError, Unavailable) as error:
            if isinstance(error, PyMongoError) and not explain(error):
                raise
            if sender.intent.key is None:
                raise OutcomeUnknown from error
            raise Unavailable(BEGUN, retry_after=1) from error

    def finish(self, sender_id: str) -> None:
        """Finish the transfer that a player has begun, if any."""
        # A mark that is not majority-committed may be rolled back.
        found = self._committed.find_one({"_id": sender_id, **TRANSFERRING}, [TRANSFER])
        if found is None:
            return
        try:
            self._finish(sender_id, found[TRANSFER])
        except (Conflict, NotFound) as error:
            # The game has made the player unusable, or it was erased: look again later.
            raise Unavailable(str(error)) from error

    def _finish(self, sender_id: str, mark: Document) -> Applied | QuartermasterError:
        """Return the change of the sender, or why the items went back to it."""
        intent = loaded_intent(mark["Sender"])
        rule: Rule = partial(settle, mark_id=mark["Id"], answer=mark["Answer"])
        refusal = self._give(sender_id, mark)
        if refusal is None:
            return self._change(sender_id, (TRANSFER,), rule, intent)
        rule = partial(withdraw, mark_id=mark["Id"], limits_of=self._limits)
        self._change(sender_id, READS, rule, intent._replace(key=None, undoes=None))
        return refusal

    def _give(self, sender_id: str, mark: Document) -> QuartermasterError | None:
        """Give the items to the receiver, or return why it can no longer get them."""
        intent = loaded_intent(mark["Receiver"])
        is_open = {"_id": sender_id, f"{TRANSFER}.Id": mark["Id"], f"{TRANSFER}.Refused": None}
        rule = self._receiver_rule(mark)

        def give(player: Document) -> Change:
            # After the receiver is read, and before it is written.
            if not majority_holds(self._players, is_open):
                raise Withdrawn
            return rule(player)

        try:
            self._change(mark["To"], CONTAINERS, give, intent)
        except (Conflict, NotFound) as refusal:
            self._players.update_one(is_open, {"$set": {f"{TRANSFER}.Refused": True}})
            return None if self._has_received(mark["To"], intent) else refusal
        return None

    def _receiver_rule(self, mark: Document) -> Rule:
        if mark["Back"] is not None:
            return partial(take_back, changes=mark["Back"], limits_of=self._limits)
        return partial(
            receive, changes=mark["Changes"], bankoverflow=mark["Bank"], limits_of=self._limits
        )

    def _has_received(self, receiver_id: str, intent: Intent) -> bool:
        """Tell whether a receiver has the items; from now on, nobody can give them to it."""
        receiver = self._players.find_one_and_update(
            {"_id": receiver_id},
            {"$set": {"Stamp": fresh_stamp()}},
            ["Journal"],
            return_document=ReturnDocument.AFTER,
        )
        entries = entries_of(receiver) if receiver else []
        in_journal = any(entry.get("IdempotencyKey") == intent.key for entry in entries)
        return in_journal or self._swapper.find_moved(receiver_id, intent) is not None

    def undo(self, entry: Document, intent: Intent) -> Applied:
        """Move the items of a transfer back, from either of its entries."""
        sent, got = self._pair(entry)
        sender, receiver = (self._reversed(one, intent) for one in (got, sent))
        try:
            applied = self._move(sender, receiver, self._mark_back(sent))
        except (NotFound, Conflict):
            if earlier := self.find_earlier(Lookup.parse(sender.id), sender.intent):
                return earlier
            raise
        other = applied.entry and applied.entry["Transfer"]
        if not other or entry["Subject"]["Id"] == sender.id:
            return applied
        return applied._replace(entry=self._entry_by_key(receiver.id, other["Key"]))

    @staticmethod
    def _mark_back(sent: Document) -> Document:
        return {"Bank": True, "Answer": None, "Back": sent["Changes"]}

    def preview_undo(self, entry: Document, intent: Intent) -> Document:
        """Return the entry that moving the items back would have."""
        sides = [self._reversed(one, intent) for one in self._pair(entry)]
        previews = {
            side.id: self._store.preview(
                Lookup.parse(side.id), CONTAINERS, side.rule, side.intent._replace(undoes=None)
            )
            for side in sides
        }
        return previews[entry["Subject"]["Id"]]

    def _reversed(self, entry: Document, intent: Intent) -> Side:
        rule = partial(take_back, changes=entry["Changes"], limits_of=self._limits)
        arguments = {**intent.arguments, "Id": entry["_id"]}
        return Side(
            entry["Subject"]["Id"], rule, intent._replace(undoes=entry, arguments=arguments)
        )

    def _pair(self, entry: Document) -> tuple[Document, Document]:
        """Return the entries of both players, the sender's first."""
        about = entry["Transfer"]
        other = self._entry_by_key(about["Player"], about["Key"])
        if other is None:
            raise PairIncomplete
        return (entry, other) if about["Sent"] else (other, entry)

    def _entry_by_key(self, player_id: str, key: str) -> Document | None:
        # The Journal first: an entry that moves in between is found in both.
        player = self._players.find_one({"_id": player_id}, ["Journal"])
        entries = self._journals.with_unique_ids(entries_of(player)) if player else []
        found = (entry for entry in entries if entry.get("IdempotencyKey") == key)
        moved = self._journals.find_moved([Intent("", NOBODY, key=key)])
        return next(found, None) or moved.find_key(player_id, key)

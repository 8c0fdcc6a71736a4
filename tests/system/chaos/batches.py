"""Batches are planned, carried out by two at once, and undone, while things break."""

import json

from tests.factories import guid
from tests.system.chaos.clients import Client
from tests.system.chaos.ledger import Mark

# What a game has wiped meanwhile, of the items or of the Journal, cannot be undone.
WIPED = ("left, not the", "is not in history")
JSON = {"Content-Type": "application/json"}
BATCHES = "/api/v1/batches"


class Batcher(Client):
    """Gives to many players by batches, and undoes some of them again."""

    latest_seconds = 20.0
    # How many rows a batch has. Each is several writes, and is carried out whatever breaks, so the
    # rows of a larger batch are more of the same. make chaos has larger ones.
    rows = 12

    def __init__(self, number, service, players, pace, token=None):
        super().__init__(f"batcher {number}", service, players, pace, token)
        # The batch that is being carried out, for whoever helps.
        self.current = None
        self.batches = 0

    def _act(self, _):
        rows = [self._row() for _ in range(self.rows)]
        batch = self._plan(BATCHES, {"Rows": rows})
        if not batch:
            return
        done = self._carried_out(batch)
        for row in done:
            quantity = row["Arguments"]["Quantity"]
            self.ledger.promise(row["Subject"]["Id"], self.item, quantity, key=key_of(batch, row))
        if done and self._rng.random() < 0.5:
            self._undo(batch, done)

    def _row(self):
        player, quantity = self._rng.choice(self._players), self._rng.randint(1, 3)
        return {"Player": player, "Operation": "give", "ItemId": self.item, "Quantity": quantity}

    def _undo(self, batch, done):
        undo = self._plan(f"{BATCHES}/{batch['Id']}/undo", {})
        for row in self._carried_out(undo) if undo else ():
            # The last is undone first.
            undone = done[-row["Row"]]
            player, quantity = row["Subject"]["Id"], undone["Arguments"]["Quantity"]
            self.ledger.marks[Mark(player, self.item, -quantity, "undo", key_of(undo, row))] += 1
            self.ledger.writes[player] += 1
            self.ledger.note(player, self.item, -quantity)

    def _plan(self, path, body):
        headers = {**JSON, "Idempotency-Key": guid()}
        return self._until_answered("POST", path, json.dumps(body), headers)

    def _carried_out(self, batch):
        """Return the rows of a batch that were carried out, which is waited for."""
        self.current, state = batch["Id"], "planned"
        while state != "done":
            progress = self._until_answered("POST", f"{BATCHES}/{batch['Id']}/advance", None, {})
            if not progress:
                self._complain(f"the batch {batch['Id']} was not carried out")
                return []
            state = progress["State"]
        self.batches += 1
        rows = self._rows(batch)
        refused = [row["Why"] for row in rows if row["Verdict"] != "done"]
        refused = [why for why in refused if not any(text in str(why) for text in WIPED)]
        if refused:
            self._complain(f"{len(refused)} rows were refused, such as: {refused[0]}")
        return [row for row in rows if row["Verdict"] == "done"]

    def _rows(self, batch):
        answer = self._until_answered("GET", f"{BATCHES}/{batch['Id']}/rows?pageSize=100", None, {})
        return answer["Values"] if answer else []


class BatchHelper(Client):
    """Carries out the batches of another at the same time."""

    latest_seconds = 20.0

    def __init__(self, batcher, service, pace, token=None):
        super().__init__(f"helper of {batcher.name}", service, [None], pace, token)
        self._batcher = batcher

    def _act(self, _):
        if batch := self._batcher.current:
            self._until_answered("POST", f"{BATCHES}/{batch}/advance", None, {})
        else:
            self._until_answered("GET", BATCHES, None, {})


def key_of(batch, row):
    """Return the Idempotency-Key of a row."""
    return f"batch {batch['Id']}:{row['Row']:06}"

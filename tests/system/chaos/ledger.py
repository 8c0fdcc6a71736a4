"""What was asked and answered, and the law: the database holds exactly that.

An acknowledged change has one entry in history with its key, a refused one has none, and of one
that was never answered history decides. Players hold what these changes gave and took.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"
ROW, APPROVAL = re.compile(r"batch ([^:]+):(\d+)"), "approval "
# Begins every name of a person who is to be erased, so that one search finds all of them.
MARK, NAME = "zwq", re.compile(rb"zwq[0-9a-f]{12}")
ONCE, ENTRY = "no change is made twice", "an acknowledged change has its entry"
NO_CHANGE, NOT_MADE = "no entry is without its change", "a refused change was not made"
APPROVED = "an answered request for approval stays so, and is made once"
GONE = "nobody who was erased comes back or is named"


@dataclass(slots=True)
class Change:
    """A change that was asked for, what it gives and takes by player and item, and its outcome."""

    kind: str
    subject: str
    items: dict
    began: float
    ended: float = 0.0
    outcome: str = UNKNOWN


class Ledger:
    """The books of everybody."""

    def __init__(self):
        self.changes, self.complaints = {}, []
        # By batch: player, item and quantity of each row, and which were done, if it is known. By
        # request for approval: what it gives, and the state that was told, if any was.
        self.batches, self.approvals = {}, {}
        # What players had, and who they are: those under the law, and those of a careless game.
        self.held, self.ruled, self.careless = Counter(), set(), set()
        # The ids of people who were erased and of their characters, by name; and of revoked keys.
        # Of batches that may have been planned after an erasure masked what it found.
        self.erased, self.revoked, self.late = {}, set(), set()

    def acknowledged(self):
        """Count the acknowledged changes by their kind."""
        made = Counter(c.kind for c in list(self.changes.values()) if c.outcome == DONE)
        made["row of a batch"] = sum(len(done or ()) for _, done in [*self.batches.values()])
        made.update(f"approval {state}" for *_, state in list(self.approvals.values()) if state)
        return made + Counter({"erase": len(self.erased), "revoke a key": len(self.revoked)})


class Judge:
    """Compares a ledger with a database; broken has the cases by the law that they break."""

    def __init__(self, ledger, db):
        self._ledger, self._db, self._held = ledger, db, ledger.held.copy()
        self.broken, self.entries = defaultdict(list), 0
        self._keys, self._rows, self._pairs = Counter(), defaultdict(Counter), Counter()
        self._versions, self._about = defaultdict(list), Counter()
        self._read_history()
        self._judge_changes()
        self._judge_players()
        self._judge_refusals()
        self._judge_people()
        self.broken["what clients saw"] += ledger.complaints

    def judge(self, law, holds, told):
        if not holds:
            self.broken[law].append(told)

    def _read_history(self):
        fields = ["Subject", "IdempotencyKey", "Version", "Operation", "Arguments"]
        for entry in self._db.history.find({}, fields):
            self.entries += 1
            subject, key = entry["Subject"]["Id"], entry.get("IdempotencyKey") or ""
            change, asked = self._ledger.changes.get(key), entry.get("Arguments") or {}
            self._about[entry["Operation"], subject] += 1
            if subject in self._ledger.ruled:
                self._versions[subject].append(entry["Version"])
            if row := ROW.match(key):
                self._rows[row[1]][int(row[2])] += 1
            elif "From" in asked:
                # The receiver's entry of a transfer is about the same change as the sender's.
                self._pairs[asked["From"], subject, asked["ItemId"], asked["Quantity"]] += 1
            elif key.startswith(APPROVAL) or (change and change.subject == subject):
                self._keys[key] += 1
            elif change or subject in self._ledger.ruled | self._ledger.careless:
                self.broken[NO_CHANGE].append(entry)

    def _judge_changes(self):
        for key, change in self._ledger.changes.items():
            is_done, is_refused = change.outcome == DONE, change.outcome == REFUSED
            if self._was_made(self._keys[key], is_done, is_refused, f"{key}: {change}"):
                self._held.update(change.items)
                if change.kind == "transfer":
                    (giver, item), (taker, _) = change.items
                    self._pairs[giver, taker, item, change.items[taker, item]] -= 1
        self.broken["both of a transfer have an entry"] += (+self._pairs) + (-self._pairs)
        for id_, (rows, done) in self._ledger.batches.items():
            times = self._rows.pop(id_, Counter())
            for number, (player, item, quantity) in enumerate(rows, 1):
                is_done = done is not None and number in done
                is_refused = done is not None and not is_done
                if self._was_made(times[number], is_done, is_refused, f"row {id_}:{number}"):
                    self._held[player, item] += quantity
        self.broken[NO_CHANGE] += self._rows
        for id_, (player, item, quantity, told) in self._ledger.approvals.items():
            found = self._db.approvals.find_one({"_id": id_}, ["State"]) or {"State": None}
            state, times = found["State"], self._keys[APPROVAL + id_]
            is_so = state and told in (None, state) and times == (state == "done")
            self.judge(APPROVED, is_so, f"{id_} was {told}, is {state}: {times} entries")
            self._held[player, item] += quantity * bool(times)

    def _was_made(self, times, is_done, is_refused, told):
        """Tell whether a change was made; judge whether it may have an entry, or must."""
        self.judge(ONCE, times < 2, f"{times} entries: {told}")
        self.judge(ENTRY, times or not is_done, told)
        self.judge(NOT_MADE, not (times and is_refused), told)
        return is_done or times > 0

    def _judge_players(self):
        stored, ruled, ledger = Counter(), {"_id": {"$in": [*self._ledger.ruled]}}, self._ledger
        found = {player["_id"]: player for player in self._db.players.find(ruled)}
        for id_, player in found.items():
            for slot in (*player["Inventory"].values(), *player["Bank"].values()):
                stored[id_, slot["ItemId"]] += slot["Quantity"]
            versions, last = sorted(self._versions[id_]), player["Version"]
            told = f"{id_}: {len(versions)} entries, Version {last}"
            self.judge("each version has one entry", versions == [*range(1, last + 1)], told)
        for pair in stored.keys() | self._held.keys():
            is_so = pair[0] not in ledger.ruled or stored[pair] == self._held[pair]
            told = f"{pair}: {stored[pair]}, not {self._held[pair]}"
            self.judge("no item is lost or made", is_so, told)
        copies = self._db.deleted_players.distinct("_id", ruled)
        self.broken["a player is in one place"] += [*(ledger.ruled - found.keys()), *copies]

    def _judge_refusals(self):
        """Find refusals to take that were true at no moment, in whatever order things happened.

        Of gifts, those count that were acknowledged before; of takes, all that may have been made.
        """
        moves = defaultdict(list)
        for change in self._ledger.changes.values():
            for pair, quantity in change.items.items():
                moves[pair].append((change, quantity))
        for pair, made in moves.items():
            for one, wanted in made:
                if (one.kind, one.outcome) == ("take", REFUSED):
                    least = self._ledger.held[pair]
                    for other, quantity in made:
                        was_given = other.outcome == DONE and other.ended < one.began
                        may_be_taken = other.outcome != REFUSED and other.began < one.ended
                        least += quantity * (was_given if quantity > 0 else may_be_taken)
                    self.judge("refusals are true", least < -wanted, f"{wanted} of {least}: {pair}")

    def _judge_people(self):
        names = {name.encode() for name in self._ledger.erased}
        for name, ids in self._ledger.erased.items():
            self.judge(ENTRY, self._about["erase", ids[0]] == 1, f"the erasure of {ids[0]}")
            for place in ("users", "players", "deleted_players"):
                found = self._db[place].find_one({"_id": {"$in": ids}}, ["_id"])
                self.judge(GONE, not found, f"{name} is in {place}")
        late = {"$nin": [*self._ledger.late]}
        for place in self._db.list_collection_names():
            for part in self._db[place].find_raw_batches({"_id": late, "Batch": late}):
                for name in {*NAME.findall(part.lower())} & names:
                    self.broken[GONE].append(f"{name} is named in {place}")
        kept = (id_ for user in self._db.users.find({}, ["Keys"]) for id_ in user.get("Keys") or ())
        self.broken["a revoked key stays revoked"] += self._ledger.revoked.intersection(kept)

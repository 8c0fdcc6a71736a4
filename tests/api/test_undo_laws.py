"""Random changes and undos on the real server, with movers and a game beside them."""

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.factories import World, guid, numbered_guid
from tests.mongod import on_mongodb
from tests.tiers import is_everything

PLAYERS, HISTORY = "/api/v1/players", "/api/v1/history"
ITEMS = [numbered_guid(number) for number in range(3)]
quantities = st.integers(1, 30)
items = st.sampled_from(ITEMS)
places = st.integers(0, 40)


class Changes(RuleBasedStateMachine):
    """A player whom staff change and undo, while the game and the mover write beside them."""

    app = None

    def __init__(self):
        super().__init__()
        self.world = World(self.app)
        self.db = self.world.db
        self.client = self.app.test_client()
        self.headers = self.world.headers()
        self.player = self.world.add_player()
        self.path = f"{PLAYERS}/{self.player['_id']}"
        self.counts = Counter()
        self.variables = {}
        # What each acknowledged change added to the counts, by the id of its entry.
        self.made = {}
        self.undone = set()

    def send(self, path, body, key=None):
        headers = {**self.headers, **({"Idempotency-Key": key} if key else {})}
        answer = self.client.post(path, json=body, headers=headers)
        assert answer.status_code in (200, 409), answer.json
        return answer

    def stored(self):
        return self.db.players.find_one({"_id": self.player["_id"]})

    def entries(self):
        """Return the ids of all entries, the oldest first."""
        walked, after = [], ""
        while after is not None:
            query = f"{self.path}/history?pageSize=7&after={after}"
            page = self.client.get(query, headers=self.headers).json
            walked += page["Values"]
            after = page["Next"]
        return walked[::-1]

    def acknowledge(self, effect):
        """Note the entry of the change that was just acknowledged."""
        newest = self.client.get(f"{self.path}/history?pageSize=1", headers=self.headers)
        entry = newest.json["Values"][0]
        assert entry["Id"] not in self.made
        self.made[entry["Id"]] = effect
        self.counts.update(effect)
        return entry

    @rule(item=items, quantity=quantities, overflow=st.booleans())
    def give(self, item, quantity, overflow):
        body = {"itemid": item, "quantity": quantity, "bankoverflow": overflow}
        if self.send(f"{self.path}/items/give", body).status_code == 200:
            self.acknowledge({item: quantity})

    @rule(item=items, quantity=quantities)
    def take(self, item, quantity):
        body = {"itemid": item, "quantity": quantity}
        if self.send(f"{self.path}/items/take", body).status_code == 200:
            self.acknowledge({item: -quantity})

    @rule(item=items, quantity=quantities)
    def give_twice_with_one_key(self, item, quantity):
        body, key = {"itemid": item, "quantity": quantity}, guid()
        first = self.send(f"{self.path}/items/give", body, key)
        if first.status_code == 200:
            self.acknowledge({item: quantity})
            again = self.send(f"{self.path}/items/give", body, key)
            assert (again.json, again.headers["Idempotency-Replayed"]) == (first.json, "true")

    @rule(variable=items, value=st.one_of(st.booleans(), st.integers(0, 3)))
    def set_variable(self, variable, value):
        before = self.stored()["Variables"].get(variable)
        self.send(f"{self.path}/variables/{variable}", {"value": value})
        if (type(before), before) != (type(value), value):
            self.acknowledge({})

    @rule(place=places, partial=st.booleans())
    def undo(self, place, partial):
        """Undo any of the entries, also those that were undone and those that are undos."""
        if not self.made:
            return
        id_ = list(self.made)[place % len(self.made)]
        before = self.stored()
        preview = self.send(f"{HISTORY}/{id_}/undo", {"DryRun": True, "Partial": partial})
        assert self.stored() == before
        answer = self.send(f"{HISTORY}/{id_}/undo", {"Partial": partial})
        assert answer.status_code == preview.status_code
        if id_ in self.undone:
            assert answer.status_code == 409
        if answer.status_code == 409:
            assert self.stored() == before
            return
        self.undone.add(id_)
        for name in ("Changes", "Warning"):
            assert answer.json[name] == preview.json[name]
        effect = {item: -quantity for item, quantity in self.made[id_].items()}
        if answer.json["Warning"]:
            assert partial
            effect = self.part_of(effect, answer.json["Changes"])
        assert self.acknowledge(effect)["Id"] == answer.json["Id"]

    def part_of(self, effect, changes):
        """Return what changes moved, which is a part of an effect."""
        part = Counter()
        for change in changes:
            for side, sign in (("Before", -1), ("After", 1)):
                if held := change[side]:
                    part[held["ItemId"]] += sign * held["Quantity"]
        assert all(0 < quantity / effect[item] < 1 for item, quantity in part.items())
        return part

    @rule(place=places, item=items)
    def move_a_slot_as_the_game_does(self, place, item):
        """A game that counts no version moves a stack to the bank."""
        inventory = self.stored()["Inventory"]
        if inventory and str(place) not in self.stored()["Bank"]:
            slot, held = sorted(inventory.items())[place % len(inventory)]
            self.db.players.update_one(
                {"_id": self.player["_id"]},
                {"$unset": {f"Inventory.{slot}": ""}, "$set": {f"Bank.{place}": held}},
            )

    @rule(item=items)
    def spend_as_the_game_does(self, item):
        for slot, held in self.stored()["Inventory"].items():
            if held["ItemId"] == item and held["Quantity"] > 1:
                self.db.players.update_one(
                    {"_id": self.player["_id"]},
                    {"$inc": {f"Inventory.{slot}.Quantity": -1, "Version": 1}},
                )
                self.counts[item] -= 1
                return

    @invariant()
    def nothing_is_lost_and_nothing_made(self):
        held = Counter()
        player = self.stored()
        for name in ("Inventory", "Bank"):
            for slot in player[name].values():
                held[slot["ItemId"]] += slot["Quantity"]
        assert +held == +self.counts
        assert not -self.counts

    @invariant()
    def every_change_has_exactly_its_entry(self):
        entries = self.entries()
        assert [entry["Id"] for entry in entries] == list(self.made)
        assert {entry["Id"] for entry in entries if entry["UndoneBy"]} == self.undone


@on_mongodb
def test_changes_and_undos_keep_the_laws(app):
    machine = type("ChangesOfApp", (Changes,), {"app": app})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=10 if is_everything else 4,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

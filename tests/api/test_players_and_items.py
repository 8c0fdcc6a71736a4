"""Whatever is done to players and their items, in any order, does what it says or nothing."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import config
from tests.applications import empty
from tests.callers import Caller
from tests.factories import World, make_player, numbered_guid

ITEMS = POTION, SWORD = [numbered_guid(number) for number in (1, 2)]
PLAYERS = [numbered_guid(number) for number in (3, 4)]
# Counted like the items of a player: whether the player is there.
THERE = "there"
who, what, many = st.sampled_from(PLAYERS), st.sampled_from(ITEMS), st.integers(1, 20)
kinds = st.sampled_from(["give", "take"])


def held_by(player):
    """Return what a player holds, as it is stored."""
    slots = [*player["Inventory"].values(), *player["Bank"].values()]
    return Counter(
        {item: sum(s["Quantity"] for s in slots if s["ItemId"] == item) for item in ITEMS}
    )


def moved_by(entry):
    """Return what a change has moved, as history tells it."""
    found = Counter()
    for change in entry["Changes"]:
        for sign, slot in ((-1, change["Before"]), (1, change["After"])):
            if isinstance(slot, dict) and "ItemId" in slot:
                found[entry["Subject"]["Id"], slot["ItemId"]] += sign * slot["Quantity"]
    return found


class Players(RuleBasedStateMachine):
    """The model: what each player holds, and what each change has moved."""

    def __init__(self, app):
        super().__init__()
        world = World(app)
        self.db = world.db
        empty(self.db)
        self.db.players.insert_many([make_player(Id=id_) for id_ in PLAYERS])
        self.staff = Caller(app.test_client(), world.headers(), "/api/v1/")
        self.held = Counter({(id_, THERE): 1 for id_ in PLAYERS})
        self.moved, self.undone, self.sent = {}, set(), []
        for who, what in product(PLAYERS, ITEMS):
            self.give(who, what, 10, False)

    def stored(self):
        return [list(self.db[name].find(sort=[("_id", 1)])) for name in ("players", "history")]

    def ask(self, request, body, moved):
        """Send a request, which moves these quantities, or is refused and changes nothing."""
        before, key = self.stored(), f"request {len(self.sent)}"
        answer = self.staff(request, body, None, Idempotency_Key=key)
        if answer.status_code == 200:
            self.held.update(moved)
            self.moved[answer.headers["X-History-Id"]] = moved
            self.sent.append((request, body, key, answer))
        else:
            assert answer.status_code in (404, 409), answer.text
            assert self.stored() == before
        return answer.status_code == 200

    @rule(who=who, what=what, many=many, bank=st.booleans())
    def give(self, who, what, many, bank):
        body = {"itemid": what, "quantity": many, "bankoverflow": bank}
        self.ask(f"POST players/{who}/items/give", body, {(who, what): many})

    @rule(who=who, what=what, many=many)
    def take(self, who, what, many):
        body = {"itemid": what, "quantity": many}
        self.ask(f"POST players/{who}/items/take", body, {(who, what): -many})

    @rule(who=who, what=what, many=many)
    def transfer(self, who, what, many):
        (to,) = {*PLAYERS} - {who}
        body = {"itemid": what, "quantity": many, "to": to}
        moved = {(who, what): -many, (to, what): many}
        self.ask(f"POST players/{who}/items/transfer", body, moved)

    @rule(who=who)
    def delete(self, who):
        self.ask(f"DELETE players/{who}", None, {(who, THERE): -1})

    @precondition(lambda self: self.moved)
    @rule(data=st.data())
    def undo(self, data):
        entry = data.draw(st.sampled_from([*self.moved]))
        moved = {thing: -many for thing, many in self.moved[entry].items()}
        if self.ask(f"POST history/{entry}/undo", None, moved):
            assert entry not in self.undone
            self.undone.add(entry)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def repeat(self, data):
        request, body, key, first = data.draw(st.sampled_from(self.sent))
        before = self.stored()
        again = self.staff(request, body, Idempotency_Key=key)
        assert (again.json, again.headers["Idempotency-Replayed"]) == (first.json, "true")
        assert self.stored() == before

    @rule(rows=st.lists(st.tuples(kinds, who, what, many), min_size=1, max_size=4))
    def run_batch(self, rows):
        sent = [
            {"Operation": kind, "Player": id_, "ItemId": item, "Quantity": many}
            for kind, id_, item, many in rows
        ]
        path = f"batches/{self.staff('POST batches', {'Rows': sent}).json['Id']}"
        self.staff(f"POST {path}/advance")
        found = self.staff(f"GET {path}/rows").json["Values"]
        for (kind, id_, item, many), row in zip(rows, found, strict=True):
            if row["Verdict"] == "done":
                self.held[id_, item] += many if kind == "give" else -many

    @rule(who=who, left=st.tuples(many, many), buff=st.integers(0, 1), is_stale=st.booleans())
    def save(self, who, left, buff, is_stale):
        """A game saves what it holds, which it has read before."""
        player = self.db.players.find_one({"_id": who}) or {"Version": 1}
        slots = [
            {"Slot": slot, "ItemId": item, "Quantity": quantity, "StatBuffs": [0, buff, 0, 0, 0]}
            for slot, (item, quantity) in enumerate(zip(ITEMS, left, strict=True))
        ]
        body = {"Version": player["Version"] + is_stale, "Inventory": slots, "Bank": []}
        moved = {(who, s["ItemId"]): s["Quantity"] - self.held[who, s["ItemId"]] for s in slots}
        is_saved = self.ask(f"PUT players/{who}", body, moved)
        assert not (is_saved and is_stale)

    @invariant()
    def what_is_stored_is_what_was_done(self):
        """Nothing is lost or made, and history tells of each quantity that has moved."""
        players, entries = self.stored()
        assert {p["_id"] for p in players} == {id_ for id_ in PLAYERS if self.held[id_, THERE]}
        told = Counter()
        for entry in entries:
            told.update(moved_by(entry))
        for player in players:
            for item, quantity in held_by(player).items():
                assert quantity == self.held[player["_id"], item]
                assert quantity == told[player["_id"], item]


@pytest.fixture
def settings(backend_uri, data_dir):
    small = {"INVENTORY_SIZE": 2, "BANK_SIZE": 1, "STACK_LIMIT": 20}
    return config.load(
        {"QM_ENV": "testing"}, MONGODB_URI=backend_uri, DATA_DIR=str(data_dir), **small
    )


def test_in_any_order_nothing_is_lost_or_made_and_each_change_has_its_entry(app):
    limits = hypothesis_settings(
        max_examples=hypothesis_settings().max_examples // 2,
        stateful_step_count=25,
        phases=[Phase.generate],
    )
    run_state_machine_as_test(lambda: Players(app), settings=limits)

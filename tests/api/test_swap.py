"""The compare-and-swap helper: nothing lost, nothing twice."""

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from pymongo.errors import ServerSelectionTimeoutError

from app.changes import JOURNAL_LENGTH, Change
from app.errors import Busy, Conflict, KeyReused, NotFound, OutcomeUnknown
from app.storage.decisions import fresh_version
from app.storage.turns import Turns
from tests.factories import guid, make_player
from tests.swaps import meant, move_all, swap, swapper_of

READS = ("Variables",)
COUNTER = guid()
ADD = meant("add")


def add(amount, player):
    """A rule: count up a variable, and say what it is now."""
    total = player["Variables"].get(COUNTER, 0) + amount
    return Change({"Variables": {**player["Variables"], COUNTER: total}}, {"total": total})


def leave(player):
    """A rule that changes nothing."""
    return Change({"Variables": player["Variables"]}, "same")


@pytest.fixture
def player(world):
    return world.add_player()


@pytest.fixture
def change(db, player):
    def change(rule, intent=ADD, **options):
        return swap(db, {"_id": player["_id"]}, READS, rule, intent, **options)

    return change


def test_a_rule_is_applied_and_its_answer_returned(db, player, change):
    assert change(partial(add, 5))[:2] == ({"total": 5}, False)
    assert change(partial(add, 2))[:2] == ({"total": 7}, False)
    after = db.players.find_one({"_id": player["_id"]})
    assert after["Variables"] == {COUNTER: 7}
    assert after["Version"] == player["Version"] + 2
    assert [entry["Version"] for entry in after["Journal"]] == [1, 2]
    assert after["JournalCount"] == 2


def test_a_rule_that_refuses_changes_nothing(db, player, change):
    def refuse(_):
        raise Conflict("No.")

    with pytest.raises(Conflict):
        change(refuse)
    assert db.players.find_one({"_id": player["_id"]}) == player


def test_a_rule_that_changes_nothing_writes_nothing(db, player, change):
    assert change(leave).answer == "same"
    assert db.players.find_one({"_id": player["_id"]}) == player


def test_nobody_is_not_found(db, change):
    with pytest.raises(NotFound, match="No player with id"):
        swap(db, {"_id": guid()}, READS, partial(add, 1), meant("add"))


def test_the_same_key_gets_the_first_answer_again(db, player, change):
    intent = meant("add", "key-1", "print")
    assert change(partial(add, 5), intent)[:2] == ({"total": 5}, False)
    assert change(partial(add, 5), intent)[:2] == ({"total": 5}, True)
    assert db.players.find_one({"_id": player["_id"]})["Variables"] == {COUNTER: 5}


@pytest.mark.parametrize("other", [meant("add", "k", "other"), meant("take", "k", "print")])
def test_a_key_that_comes_back_with_another_request_is_a_conflict(change, other):
    change(partial(add, 5), meant("add", "k", "print"))
    with pytest.raises(KeyReused):
        change(partial(add, 5), other)


def test_a_key_is_remembered_for_a_change_that_changed_nothing(db, player, change):
    intent = meant("set", "k", "print")
    assert not change(leave, intent).replayed
    assert change(partial(add, 5), intent)[:2] == ("same", True)


def test_a_key_is_remembered_after_any_number_of_other_changes(db, player, change):
    for number in range(2 * JOURNAL_LENGTH + 1):
        change(partial(add, 1), meant("add", f"key-{number}", "print"))
    assert len(db.players.find_one({"_id": player["_id"]})["Journal"]) <= JOURNAL_LENGTH
    for number in (0, 1, JOURNAL_LENGTH, 2 * JOURNAL_LENGTH):
        assert change(partial(add, 1), meant("add", f"key-{number}", "print")).replayed
    move_all(db)
    assert change(partial(add, 1), meant("add", "key-0", "print"))[:2] == ({"total": 1}, True)
    with pytest.raises(KeyReused):
        change(partial(add, 1), meant("add", "key-0", "other"))


def test_an_earlier_answer_is_found_while_its_entry_moves(db, player, change):
    intent = meant("add", key="k", fingerprint="f")
    change(partial(add, 5), intent)

    class MovesAfterReading:
        """The collection, whose entries move between the read of a document and the next write."""

        name = db.players.name

        @staticmethod
        def find_one(*args):
            found = db.players.find_one(*args)
            move_all(db)
            return found

        update_one = staticmethod(db.players.update_one)

    earlier = swapper_of(db, collection=MovesAfterReading).find_earlier(
        {"_id": player["_id"]}, intent
    )
    assert earlier is not None
    assert earlier.answer == {"total": 5}


def test_keys_belong_to_one_player(db, world, player, change):
    other = world.add_player()
    intent = meant("add", "k", "print")
    change(partial(add, 1), intent)
    assert not swap(db, {"_id": other["_id"]}, READS, partial(add, 1), intent).replayed


def test_a_version_between_read_and_write_is_noticed(db, player, change):
    rivals = iter([3, 4])

    def overtaken(document):
        if amount := next(rivals, None):
            # Somebody else writes after we have read.
            swap(db, {"_id": player["_id"]}, READS, partial(add, amount), meant("rival"))
        return add(10, document)

    assert change(overtaken).answer == {"total": 17}


def test_whoever_is_always_overtaken_is_told_to_come_back(db, player, change):
    def always_overtaken(document):
        db.players.update_one({"_id": player["_id"]}, {"$inc": {"Version": 1}})
        return add(1, document)

    with pytest.raises(Busy):
        change(always_overtaken, patience=0.05)
    assert db.players.find_one({"_id": player["_id"]})["Variables"] == {}


def test_true_is_never_1(db, player, change):
    change(lambda _: Change({"Variables": {COUNTER: 1}}, None))
    change(lambda _: Change({"Variables": {COUNTER: True}}, None))
    assert db.players.find_one({"_id": player["_id"]})["Variables"][COUNTER] is True


def test_fresh_versions_are_later_than_counted_ones():
    assert fresh_version() > 10**13


def test_of_many_requests_with_one_key_at_once_one_is_applied(real_db):
    """A client that gives up waiting and repeats races itself."""
    player = make_player()
    real_db.players.insert_one(player)

    def send(number):
        intent = meant("add", "one key", "print")
        return swap(real_db, {"_id": player["_id"]}, READS, partial(add, 5), intent)

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(send, range(12)))
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 11
    assert {answer.answer["total"] for answer in answers} == {5}
    assert real_db.players.find_one({"_id": player["_id"]})["Variables"] == {COUNTER: 5}


@pytest.mark.parametrize(
    ("key", "expected"), [(None, OutcomeUnknown), ("k", ServerSelectionTimeoutError)]
)
def test_a_write_that_is_not_confirmed_is_told_apart_by_its_key(db, player, key, expected):
    class Unconfirmed:
        name = "players"
        find_one = staticmethod(db.players.find_one)

        @staticmethod
        def update_one(*_, **__):
            raise ServerSelectionTimeoutError("away")

    swapper = swapper_of(db, collection=Unconfirmed())
    with pytest.raises(expected):
        swapper.swap({"_id": player["_id"]}, READS, partial(add, 1), meant("add", key, "print"))


def test_many_threads_lose_nothing_and_apply_no_key_twice(real_db):
    """The race on the real server: every thread repeats its requests at random."""
    player = make_player()
    real_db.players.insert_one(player)
    threads, rounds = 8, 8
    told = [0] * threads
    faults = []

    def work(me):
        rng = random.Random(me)
        for number in range(rounds):
            amount = rng.randint(1, 9)
            intent = meant("add", f"{me}-{number}", str(amount))
            times = rng.choice((1, 1, 2, 3))
            try:
                answers = [
                    swap(real_db, {"_id": player["_id"]}, READS, partial(add, amount), intent)
                    for _ in range(times)
                ]
            except Busy:
                continue
            if {repr(answer.answer) for answer in answers} != {repr(answers[0].answer)}:
                faults.append(answers)
            if [answer.replayed for answer in answers] != [False] + [True] * (times - 1):
                faults.append(answers)
            told[me] += amount

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    after = real_db.players.find_one({"_id": player["_id"]})
    assert not faults
    assert after["Variables"][COUNTER] == sum(told)
    assert sum(told) > 0


def test_threads_of_one_worker_take_turns_instead_of_retrying(real_db):
    player = make_player()
    real_db.players.insert_one(player)
    swapper = swapper_of(real_db)
    decided = []

    def rule(player):
        decided.append(player)
        return add(1, player)

    def send(_):
        return swapper.swap({"_id": player["_id"]}, READS, rule, meant("add"), patience=60)

    with ThreadPoolExecutor(16) as pool:
        totals = [applied.answer["total"] for applied in pool.map(send, range(60))]
    assert sorted(totals) == list(range(1, 61))
    assert len(decided) == 60, "a retry decides again"


def test_whoever_waits_for_a_turn_too_long_goes_on_without_it():
    turns = Turns()
    with turns.take("player", 0), turns.take("player", 0.01), turns.take("another", 0):
        pass
    assert len(turns) == 0

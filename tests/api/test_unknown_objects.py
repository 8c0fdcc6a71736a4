"""Items and spells that the catalogue does not hold: a warning, or a refusal (contract-unknown)."""

import re

import pytest

from app.core.permissions import Role
from tests.console_visitor import page_of, visitor
from tests.factories import numbered_guid

KNOWN, UNKNOWN, SPELL = map(numbered_guid, range(1, 4))
SENTENCE = f"The catalogue holds no item with the id '{UNKNOWN}'."
GIVE, TEACH = "/api/v1/players/Bob/items/give", "/api/v1/players/Bob/spells/teach"
STRICT = pytest.mark.parametrize("strict", [True])


@pytest.fixture
def strict():
    return False


@pytest.fixture
def settings(settings, strict):
    settings.STRICT_CATALOGUE, settings.CATALOGUE_CACHE_SECONDS = strict, 0
    return settings


@pytest.fixture
def bob(world):
    world.add_object(Id=KNOWN, Name="Life Potion")
    world.add_object(Id=SPELL, Type="spell", Name="Fire Ball")
    return world.add_player(Name="Bob")


@pytest.fixture
def post(caller, bob):
    return caller().post


@pytest.fixture
def newest(caller, bob):
    return lambda: caller().get("/api/v1/players/Bob/history").json["Values"][0]


def give(post, item, key=None):
    return post(GIVE, key, itemid=item, quantity=2)


def test_what_the_catalogue_holds_is_given_without_a_word(post, newest):
    for answer in (give(post, KNOWN), post(TEACH, spellid=SPELL)):
        assert (answer.status_code, "Warning" in answer.headers) == (200, False)
        assert newest()["Warning"] is None


def test_what_it_does_not_hold_is_given_with_a_warning_and_a_note_in_its_entry(post, newest):
    answer = give(post, UNKNOWN)
    assert (answer.status_code, answer.json["quantity"]["total"]) == (200, 2)
    assert answer.headers["Warning"] == f'299 quartermaster "{SENTENCE}"'
    assert newest()["Warning"] == SENTENCE


def test_a_spell_is_no_item_and_an_item_no_spell(post, newest):
    answer = post(TEACH, spellid=KNOWN)
    assert answer.status_code == 200
    assert newest()["Warning"] == f"The catalogue holds no spell with the id '{KNOWN}'."
    assert "Warning" in give(post, SPELL).headers


def test_taking_and_forgetting_warn_of_nothing(post):
    give(post, UNKNOWN)
    post(TEACH, spellid=UNKNOWN)
    taken = post(GIVE.replace("give", "take"), itemid=UNKNOWN, quantity=2)
    forgotten = post(TEACH.replace("teach", "forget"), spellid=UNKNOWN)
    for answer in (taken, forgotten):
        assert (answer.status_code, "Warning" in answer.headers) == (200, False)


def test_a_repetition_is_warned_as_the_first_was(post):
    first = give(post, UNKNOWN, "order-1")
    again = give(post, UNKNOWN, "order-1")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Warning"] == first.headers["Warning"]


@pytest.mark.parametrize("strict", [True, False])
def test_a_game_that_has_imported_no_items_is_not_warned(post, db, strict):
    db.objects.delete_many({"Type": "item"})
    answer = give(post, UNKNOWN)
    assert (answer.status_code, "Warning" in answer.headers) == (200, False)


@STRICT
def test_a_strict_service_refuses_and_changes_nothing(post, db, strict):
    answer = give(post, UNKNOWN)
    assert (answer.status_code, answer.json["Message"]) == (409, SENTENCE)
    assert post(TEACH, spellid=UNKNOWN).status_code == 409
    assert give(post, KNOWN).status_code == 200
    assert db.history.count_documents({}) == 1


@STRICT
def test_what_was_given_before_it_left_the_catalogue_is_answered_again(post, db, strict):
    first = give(post, KNOWN, "order-1")
    db.objects.insert_one({**db.objects.find_one({"_id": KNOWN}), "_id": numbered_guid(9)})
    db.objects.delete_one({"_id": KNOWN})
    again = give(post, KNOWN, "order-1")
    assert (again.status_code, again.json) == (200, first.json)
    assert give(post, KNOWN, "order-2").status_code == 409


@STRICT
def test_what_was_taken_is_given_back_although_the_catalogue_has_lost_it(post, db, newest, strict):
    give(post, KNOWN)
    post(GIVE.replace("give", "take"), itemid=KNOWN, quantity=2)
    db.objects.insert_one({**db.objects.find_one({"_id": KNOWN}), "_id": numbered_guid(9)})
    db.objects.delete_one({"_id": KNOWN})
    assert post(f"/api/v1/history/{newest()['Id']}/undo").status_code == 200


ROWS = [
    {"Player": "Bob", "Operation": "give", "ItemId": KNOWN, "Quantity": 1},
    {"Player": "Bob", "Operation": "give", "ItemId": UNKNOWN, "Quantity": 1},
    {"Player": "Bob", "Operation": "teach", "SpellId": UNKNOWN},
]


@pytest.fixture
def planned(caller, post):
    batch = post("/api/v1/batches", Rows=ROWS).json["Id"]
    rows = caller().get(f"/api/v1/batches/{batch}/rows").json["Values"]
    return batch, rows


def test_a_plan_warns_of_each_row_and_carries_it_out(post, db, planned):
    batch, rows = planned
    assert [row["Verdict"] for row in rows] == ["ready"] * 3
    teaching = f"The catalogue holds no spell with the id '{UNKNOWN}'."
    assert [row["Warning"] for row in rows] == [None, SENTENCE, teaching]
    assert post(f"/api/v1/batches/{batch}/advance").json["Done"] == 3
    entries = db.history.find(sort=[("At", 1)])
    assert [entry.get("Warning") for entry in entries] == [None, SENTENCE, teaching]


@STRICT
def test_a_strict_plan_refuses_each_row_with_the_sentence(planned, strict):
    _, rows = planned
    assert [row["Verdict"] for row in rows] == ["ready", "refused", "refused"]
    assert [(row["Why"], row["Warning"]) for row in rows[:2]] == [(None, None), (SENTENCE, None)]


class TestConsole:
    @pytest.fixture
    def staff(self, app, world, bob):
        return visitor(app, world, Role.API)

    def test_the_preview_the_notice_and_the_entry_say_it(self, staff, newest):
        fields = {"itemid": UNKNOWN, "quantity": "1"}
        assert SENTENCE in page_of(staff.post("/players/Bob/give", preview="1", **fields))
        done = staff.post("/players/Bob/give", **fields)
        page = page_of(staff.get(done.headers["Location"].removeprefix("/console")))
        assert re.search(rf"Gave 1 .* to Bob\. {re.escape(SENTENCE)}", page)
        assert SENTENCE in page_of(staff.get(f"/history/{newest()['Id']}"))

    def test_a_plan_says_it(self, staff, planned):
        batch, _ = planned
        assert SENTENCE in page_of(staff.get(f"/batches/{batch}"))

    @STRICT
    def test_a_strict_service_refuses_in_the_preview_and_beside_the_form(self, staff, db, strict):
        for sent in ({"preview": "1"}, {}):
            answer = staff.post("/players/Bob/give", itemid=UNKNOWN, quantity="1", **sent)
            assert (answer.status_code, SENTENCE in page_of(answer)) == (200 if sent else 409, True)
        assert db.history.count_documents({}) == 0

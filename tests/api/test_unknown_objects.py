"""Items and spells that the catalogue does not hold: a warning, or a refusal (contract-unknown)."""

import pytest

from tests.console_visitor import page_of, visitor
from tests.factories import numbered_guid

KNOWN, UNKNOWN, SPELL = map(numbered_guid, range(1, 4))
SENTENCE = f"The catalogue holds no item with the id '{UNKNOWN}'."
NO_SPELL = "The catalogue holds no spell with the id '{}'."
STRICT = pytest.mark.parametrize("strict", [True])


@pytest.fixture
def strict():
    return False


@pytest.fixture
def settings(settings, strict):
    settings.STRICT_CATALOGUE, settings.CATALOGUE_CACHE_SECONDS = strict, 0
    return settings


@pytest.fixture
def act(world, staff):
    """Return a way to change Bob: by an operation and an item or a spell."""
    world.add_object(Id=KNOWN, Name="Life Potion")
    world.add_object(Id=SPELL, Type="spell", Name="Fire Ball")
    world.add_player(Name="Bob")

    def act(operation, id_, status=200, **headers):
        is_spell = operation in ("teach", "forget")
        body = {"spellid": id_} if is_spell else {"itemid": id_, "quantity": 2}
        path = f"players/Bob/{'spells' if is_spell else 'items'}/{operation}"
        return staff(f"POST {path}", body, status, **headers)

    return act


@pytest.fixture
def newest(staff):
    return lambda: staff("GET players/Bob/history").json["Values"][0]


@pytest.mark.parametrize(
    ("operation", "id_", "warning"),
    [
        ("give", KNOWN, None),
        ("teach", SPELL, None),
        ("give", UNKNOWN, SENTENCE),
        ("teach", UNKNOWN, NO_SPELL.format(UNKNOWN)),
        # A spell is no item, and an item no spell.
        ("give", SPELL, SENTENCE.replace(UNKNOWN, SPELL)),
        ("teach", KNOWN, NO_SPELL.format(KNOWN)),
    ],
)
def test_what_the_catalogue_does_not_hold_is_given_with_a_warning_in_answer_and_entry(
    act, newest, operation, id_, warning
):
    answer = act(operation, id_, Idempotency_Key="order-1")
    told = warning and f'299 quartermaster "{warning}"'
    assert (answer.headers.get("Warning"), newest()["Warning"]) == (told, warning)
    again = act(operation, id_, Idempotency_Key="order-1")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers.get("Warning") == told
    taken = act("take" if operation == "give" else "forget", id_)
    assert "Warning" not in taken.headers


@pytest.mark.parametrize("strict", [True, False])
def test_a_game_that_has_imported_no_items_is_not_warned(act, db, strict):
    db.objects.delete_many({"Type": "item"})
    assert "Warning" not in act("give", UNKNOWN).headers


@STRICT
def test_a_strict_service_refuses_and_changes_nothing(act, db, strict):
    assert act("give", UNKNOWN, 409).json["Message"] == SENTENCE
    act("teach", UNKNOWN, 409)
    assert db.history.count_documents({}) == 0
    act("give", KNOWN)


def lose(db, id_):
    """Let the catalogue lose an object, but not all of its type."""
    db.objects.insert_one({**db.objects.find_one({"_id": id_}), "_id": numbered_guid(9)})
    db.objects.delete_one({"_id": id_})


@STRICT
def test_what_the_catalogue_has_lost_since_is_answered_again_and_given_back(
    act, db, staff, newest, strict
):
    first = act("give", KNOWN, Idempotency_Key="order-1")
    act("take", KNOWN)
    lose(db, KNOWN)
    assert act("give", KNOWN, Idempotency_Key="order-1").json == first.json
    act("give", KNOWN, 409, Idempotency_Key="order-2")
    staff(f"POST history/{newest()['Id']}/undo")


ROWS = [
    {"Player": "Bob", "Operation": "give", "ItemId": KNOWN, "Quantity": 1},
    {"Player": "Bob", "Operation": "give", "ItemId": UNKNOWN, "Quantity": 1},
    {"Player": "Bob", "Operation": "teach", "SpellId": UNKNOWN},
]
NO_SUCH_SPELL = NO_SPELL.format(UNKNOWN)


def test_a_plan_warns_of_each_row_and_carries_it_out(app, world, act, staff, db):
    batch = staff("POST batches", {"Rows": ROWS}).json["Id"]
    rows = staff(f"GET batches/{batch}/rows").json["Values"]
    assert [row["Verdict"] for row in rows] == ["ready"] * 3
    assert [row["Warning"] for row in rows] == [None, SENTENCE, NO_SUCH_SPELL]
    assert SENTENCE in visitor(app, world).read(f"/batches/{batch}")
    assert staff(f"POST batches/{batch}/advance").json["Done"] == 3
    entries = db.history.find(sort=[("At", 1)])
    assert [entry.get("Warning") for entry in entries] == [None, SENTENCE, NO_SUCH_SPELL]


@STRICT
def test_a_strict_plan_refuses_each_row_with_the_sentence(act, staff, strict):
    batch = staff("POST batches", {"Rows": ROWS}).json["Id"]
    rows = staff(f"GET batches/{batch}/rows").json["Values"]
    assert [row["Verdict"] for row in rows] == ["ready", "refused", "refused"]
    assert [row["Why"] for row in rows] == [None, SENTENCE, NO_SUCH_SPELL]
    assert [row["Warning"] for row in rows] == [None] * 3


@pytest.mark.parametrize("strict", [True, False])
def test_the_console_says_it_in_the_preview_and_after_the_change(app, world, act, db, strict):
    browser, fields = visitor(app, world), {"itemid": UNKNOWN, "quantity": "1"}
    preview = browser.submit("/players/Bob/give", 200, preview="1", **fields)
    assert SENTENCE in page_of(preview)
    done = browser.submit("/players/Bob/give", 409 if strict else 303, **fields)
    assert SENTENCE in page_of(done if strict else browser.led_to(done))
    assert db.history.count_documents({}) == (0 if strict else 1)

"""Endpoints 6 to 9 and 16 to 18 (contract-variables, contract-spells)."""

import pytest

from app.players.spells import KnownSpellSchema
from app.players.variables.schemas import VariableSchema
from tests.factories import guid

NIL = "00000000-0000-0000-0000-000000000000"
FIRE, ICE = guid(), guid()
STEP, DONE = sorted([guid(), guid()])


@pytest.fixture
def bob(world):
    return world.add_player(
        Name="Bob", Spells={"3": ICE, "10": FIRE}, Variables={STEP: 1, DONE: True}
    )


@pytest.fixture
def get(caller):
    return caller("/api/v1/players/Bob/").get


@pytest.fixture
def post(caller):
    return caller("/api/v1/players/Bob/").post


def test_variables_are_listed_by_id_and_read_one_by_one(get, bob):
    listed = get("variables").json
    assert listed == [{"VariableId": STEP, "Value": 1}, {"VariableId": DONE, "Value": True}]
    assert listed[1]["Value"] is True
    assert VariableSchema(many=True).validate(listed) == {}
    assert get(f"variables/{DONE.upper()}").json == listed[1]
    assert get(f"variables/{STEP}/value").json == {"value": 1}
    missing = guid()
    for path in ("variables/{}", "variables/{}/value"):
        unset, bad = get(path.format(missing)), get(path.format("step"))
        assert unset.json["Message"] == f"No variable with id '{missing}'."
        assert unset.status_code == 404
        assert (bad.status_code, bad.json["Errors"]) == (400, {"variableId": ["Must be a guid."]})


def test_a_variable_stays_what_it_was_set_as_and_the_others_stay(get, post, bob):
    """True and 1 replace each other."""
    new = guid()
    for value in (0, 1, True, 1, -1, False, 0, 2**63 - 1, -(2**63), 2**53 + 1):
        assert post(f"variables/{new}", value=value).json == {"VariableId": new, "Value": value}
        read = get(f"variables/{new}/value").json["value"]
        assert (read, type(read)) == (value, type(value))
    held = {one["VariableId"]: one["Value"] for one in get("variables").json}
    assert held == {STEP: 1, DONE: True, new: value}
    assert post(f"variables/{STEP}").status_code == 400
    assert post(f"variables/{NIL}", value=1).status_code == 400


def test_a_spell_is_taught_once_into_the_lowest_free_slot_and_forgotten_once(get, post, bob):
    known = get("spells").json
    assert known == [{"Slot": 3, "SpellId": ICE}, {"Slot": 10, "SpellId": FIRE}]
    assert KnownSpellSchema(many=True).validate(known) == {}
    new = guid()
    assert post("spells/teach", spellid=new.upper()).json == {"SpellId": new}
    assert get("spells").json == [{"Slot": 0, "SpellId": new}, *known]
    again = post("spells/teach", spellid=new)
    assert again.status_code == 409
    assert again.json["Message"] == f"The player already knows the spell {new}."
    assert post("spells/forget", spellid=ICE).json == {"SpellId": ICE}
    assert get("spells").json == [{"Slot": 0, "SpellId": new}, known[1]]
    again = post("spells/forget", spellid=ICE)
    assert again.status_code == 409
    assert again.json["Message"] == f"The player does not know the spell {ICE}."


def test_a_full_book_is_a_409(post, world):
    world.add_player(Name="Bob", Spells={str(slot): guid() for slot in range(35)})
    response = post("spells/teach", spellid=guid())
    assert response.status_code == 409
    assert response.json["Message"] == "The player has no free spell slot: all 35 are taken."

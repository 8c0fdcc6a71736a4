"""Laws of lenient bodies: strict ones mean what they meant, and lenient ones mean the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Invalid
from app.game.actions.schemas import ChatArgs
from app.http.lenient import respell, with_objects
from app.http.lists import LegacyListArgs
from app.http.parser import load
from app.players.items.schemas import GiveItemArgs
from app.players.variables.schemas import SetVariableArgs
from app.users.oauth.schemas import TokenArgs
from app.users.schemas import RegisterArgs

ITEM = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
guids = st.uuids().map(str).filter(lambda text: set(text) != {"0", "-"})
hashes = st.text("0123456789abcdefABCDEF", min_size=64, max_size=64)
# What looks like a number or a flag is still text where text is wanted.
texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(["1", "true", "False", "-5", ""])
usernames = st.sampled_from(["newcomer", "true", "False", "11", "Ægir7"])
addresses = st.sampled_from(["n@b.co", "1@true.example", "a+b@bücher.example"])
BODIES = [
    (
        GiveItemArgs(),
        {"itemid": guids, "quantity": st.integers(1, 2**31 - 1)},
        {"bankoverflow": st.booleans()},
    ),
    (SetVariableArgs(), {"value": st.booleans() | st.integers(-(2**63), 2**63 - 1)}, {}),
    (LegacyListArgs(), {}, {"page": st.integers(0, 2**53), "count": st.integers(1, 2**63 - 1)}),
    (RegisterArgs(), {"username": usernames, "password": hashes, "email": addresses}, {}),
    (TokenArgs(), {"grant_type": st.just("refresh_token"), "refresh_token": texts}, {}),
]
bodies = st.sampled_from(BODIES).flatmap(
    lambda row: st.tuples(st.just(row[0]), st.fixed_dictionaries(row[1], optional=row[2]))
)


def lenient(schema, values):
    return load(schema, respell(schema, values))


def exactly(values):
    """Tell true from 1, which Python does not."""
    return {name: (value, type(value)) for name, value in values.items()}


def spelled(draw, value):
    """Return a value as a form would hold it."""
    if isinstance(value, bool):
        return draw(st.sampled_from([str(value), str(value).lower(), str(value).upper()]))
    return str(value)


def recased(draw, name):
    return "".join(draw(st.sampled_from([letter, letter.upper()])) for letter in name)


@given(bodies, st.data())
def test_a_body_made_lenient_means_what_it_meant(body, data):
    schema, values = body
    known = set(schema.load_fields)
    strange = st.text().filter(lambda name: name.lower() not in known)
    sent = data.draw(st.dictionaries(strange, st.integers() | st.text() | st.none(), max_size=3))
    for name, value in values.items():
        as_text = data.draw(st.booleans())
        sent[recased(data.draw, name)] = spelled(data.draw, value) if as_text else value
    assert exactly(lenient(schema, sent)) == exactly(load(schema, values))


def test_no_two_fields_of_a_body_differ_in_case_alone():
    for schema in (row[0] for row in BODIES):
        names = [field.data_key or name for name, field in schema.load_fields.items()]
        assert len({name.lower() for name in names}) == len(names), schema


REFUSED = {
    ("quantity", "must be a whole number."): [
        *(5.0, True, "true", "", " 5", "5.0", "1e3", "٣", "9" * 200)
    ],
    ("quantity", "must be greater than or equal to 1"): ["0", "2147483648"],
    ("quantity", "must not be null."): [None],
    ("bankoverflow", "must be true or false."): [1, "2", "yes", ""],
    ("itemid", "must be a guid."): [5, "5"],
}


@pytest.mark.parametrize(("field", "message"), REFUSED)
def test_what_is_not_plain_is_refused_as_ever(field, message):
    """What is plain: a flag may be a digit, too."""
    sent = {"itemid": ITEM, "quantity": "1", "bankOverflow": "0"}
    assert lenient(GiveItemArgs(), sent)["bankoverflow"] is False
    for value in REFUSED[field, message]:
        with pytest.raises(Invalid) as caught:
            lenient(GiveItemArgs(), {"itemid": ITEM, "quantity": 1, field: value})
        assert str(caught.value).startswith(f"The field '{field}' {message}"), value
        assert list(caught.value.fields) == [field], value


def test_a_variable_refuses_what_is_neither():
    for value in ("", "yes", "1.5", " 1", str(2**63), "null", 1.0, None, ["1"]):
        with pytest.raises(Invalid, match="'value' must"):
            lenient(SetVariableArgs(), {"value": value})


def test_two_spellings_of_one_field_are_refused_by_name():
    for names in (("itemid", "itemId"), ("itemId", "itemid")):
        with pytest.raises(Invalid) as caught:
            lenient(GiveItemArgs(), {**dict.fromkeys(names, ITEM), "quantity": 1})
        assert caught.value.fields == {"itemid": ["Must be given once."]}


def test_lenient_bodies_reach_into_objects():
    colour = {"A": 255, "R": 0}
    form = with_objects([("Message", "Hi."), ("Color[A]", "255"), ("Color[r]", "0")])
    for sent in ({"message": "Hi.", "color": {"a": 255, "r": "0"}}, form):
        assert lenient(ChatArgs(), sent) == {"Message": "Hi.", "Color": colour}
    for twice in ([("Color", ""), ("Color[A]", "1")], [("Color[A]", "1"), ("Color", "")]):
        with pytest.raises(Invalid, match="'Color' must be given once"):
            with_objects(twice)


def test_guids_need_no_hyphens_for_public_clients_alone():
    item = {"itemid": ITEM.replace("-", ""), "quantity": 1}
    assert respell(GiveItemArgs(), item, True) == {"itemid": ITEM, "quantity": 1}
    assert respell(GiveItemArgs(), item) == item

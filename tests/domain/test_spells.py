import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.players.spells import (
    NoSpellSlot,
    SpellKnown,
    SpellNotKnown,
    forget,
    known_spells,
    teach,
)

SIZE = 5
books = st.lists(st.sampled_from("abcdefg"), unique=True, max_size=SIZE).flatmap(
    lambda known: st.permutations(range(SIZE)).map(
        lambda slots: {str(slot): spell for slot, spell in zip(slots, known, strict=False)}
    )
)


@given(books, st.sampled_from("abcdefg"))
def test_a_spell_is_taught_into_the_lowest_free_slot(book, spell):
    player = {"Spells": book}
    if spell in book.values():
        with pytest.raises(SpellKnown):
            teach(player, spellid=spell, size=SIZE)
    elif len(book) == SIZE:
        with pytest.raises(NoSpellSlot):
            teach(player, spellid=spell, size=SIZE)
    else:
        lowest = min(slot for slot in range(SIZE) if str(slot) not in book)
        change = teach(player, spellid=spell, size=SIZE)
        assert change.fields["Spells"] == {**book, str(lowest): spell}
        assert change.answer == {"SpellId": spell}


@given(books, st.sampled_from("abcdefg"))
def test_a_spell_is_forgotten_and_no_other(book, spell):
    player = {"Spells": book}
    if spell not in book.values():
        with pytest.raises(SpellNotKnown):
            forget(player, spellid=spell)
    else:
        after = forget(player, spellid=spell).fields["Spells"]
        assert set(after.values()) == set(book.values()) - {spell}
        assert after.items() <= book.items()


@given(books)
def test_known_spells_are_served_in_slot_order(book):
    spells = known_spells(book)
    assert [spell["Slot"] for spell in spells] == sorted(map(int, book))
    assert {str(spell["Slot"]): spell["SpellId"] for spell in spells} == book


def test_a_slot_that_is_no_number_is_not_served():
    """int() would raise for the first, and take the others."""
    odd = dict.fromkeys(("9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}", "-1", " 2"), "a spell")
    assert known_spells({**odd, "7": "a spell"}) == [{"Slot": 7, "SpellId": "a spell"}]

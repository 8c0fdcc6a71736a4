"""What a plan does, in numbers and in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.batches.domain import MOST_KINDS, Summary, kind_sentence
from app.console.history.sentences import filter_texts, row_sentence, with_names

ITEM, SPELL = "11111111-2222-4333-8444-555555555555", "11111111-2222-4333-8444-666666666666"
NAMES = {ITEM: "Health Potion", SPELL: "Fireball"}


def row(subject, operation="give", verdict="ready", **arguments):
    return {
        "Subject": {"Kind": "player", "Id": subject, "Name": subject},
        "Operation": operation,
        "Arguments": arguments or {"itemid": ITEM, "quantity": 5},
        "Verdict": verdict,
    }


def summary(rows):
    summary = Summary()
    for one in rows:
        summary.add(one)
    return summary.records()


GIFTS = "Give 5 × Health Potion to 2 players"
SENTENCES = [
    ([row("a"), row("b")], [GIFTS]),
    ([row("a"), row("a"), row("b")], [f"{GIFTS}, in 3 rows"]),
    (
        [row("a"), row("b", itemid=ITEM, quantity=1000)],
        ["Give 1,005 × Health Potion in all to 2 players"],
    ),
    ([row("a", "take")], ["Take 5 × Health Potion from 1 player"]),
    ([row("a", "forget", spellid=SPELL)], ["Let 1 player forget Fireball"]),
    (
        [row("a", "set-variable", variable_id="12345678-x", value=True)],
        ["Set 12345678… to true for 1 player"],
    ),
    (
        [row("a", "set-variable", variable_id=ITEM, value=n) for n in (1, 2)],
        ["Set Health Potion for 1 player, in 2 rows"],
    ),
    ([row("a", "undo", id="player:a:1"), row("b", "undo", id="x")], ["Undo 2 changes"]),
    (
        [row("a", "teach", spellid=SPELL), row("b"), row("c")],
        [GIFTS, "Teach Fireball to 1 player"],
    ),
    ([row("a", verdict="refused")], []),
]


@pytest.mark.parametrize(("rows", "sentences"), SENTENCES, ids=lambda value: None)
def test_a_kind_of_rows_is_told_by_verb_name_and_number(rows, sentences):
    assert [kind_sentence(kind, NAMES) for kind in summary(rows)] == sentences


def test_rows_of_too_many_kinds_are_counted_together():
    kinds = summary(
        row("a", itemid=f"item {number}", quantity=1) for number in range(MOST_KINDS + 7)
    )
    assert len(kinds) == MOST_KINDS + 1
    assert kind_sentence(kinds[-1], {}) == "7 rows of other kinds, for 1 player"


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=30))
def test_each_player_and_each_row_is_counted_once(drawn):
    (kind,) = summary(row(who, itemid=ITEM, quantity=quantity) for who, quantity in sorted(drawn))
    counted = kind["Rows"], kind["Subjects"], kind["Total"]
    assert counted == (len(drawn), len({who for who, _ in drawn}), sum(n for _, n in drawn))


def test_a_row_is_told_whatever_it_lacks():
    gift = {"Operation": "give", "Arguments": {"ItemId": ITEM, "Quantity": 5}}
    assert row_sentence(gift, NAMES) == "Give 5 × Health Potion"
    assert row_sentence({"Operation": "undo", "Arguments": {"Id": "x"}}, NAMES) == "Undo"


def test_a_sentence_has_names_for_ids():
    assert with_names(f"It holds 0 of {ITEM}.", NAMES) == "It holds 0 of Health Potion."
    assert with_names(f"It holds 0 of {ITEM}.", {}) == f"It holds 0 of {ITEM}."


def test_filters_are_told_in_their_order():
    chosen = {"To": "2026-01-31T00:00:00Z", "Item": ITEM, "By": "clerk"}
    assert filter_texts(chosen, NAMES) == [
        ("made by", "clerk"),
        ("about", "Health Potion"),
        ("before", "2026-01-31 00:00:00 UTC"),
    ]

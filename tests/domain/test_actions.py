"""The rules of actions: how far one is, whatever a game has written, and what is told of it."""

from datetime import timedelta

import pytest

from app.game.actions.domain import (
    LONGEST_ERROR,
    done_sentence,
    error_of,
    public_action,
    state_of,
)
from tests.factories import NOW, guid
from tests.game import make_action

MAP = guid()


@pytest.mark.parametrize(
    ("written", "state"),
    [
        ({}, "waiting"),
        ({"TakeBefore": NOW}, "lapsed"),
        ({"Kind": "letter", "TakeBefore": NOW}, "waiting"),
        ({"Taken": NOW}, "taken"),
        ({"Taken": NOW, "TakeBefore": NOW - timedelta(days=1)}, "taken"),
        ({"Taken": NOW, "Done": NOW}, "done"),
        ({"Done": NOW}, "done"),
        ({"Error": "Amelia is not playing."}, "failed"),
        ({"Error": "", "Done": NOW}, "failed"),
    ],
)
def test_how_far_an_action_is(written, state):
    action = make_action(**written)
    assert state_of(action, NOW) == public_action(action, NOW)["State"] == state


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, None),
        (" Amelia is not playing. ", "Amelia is not playing."),
        ("x" * 2000, "x" * LONGEST_ERROR),
        ("", "The game refused without a reason."),
    ],
)
def test_a_game_gives_its_reason_or_none(error, told):
    assert error_of(make_action(Error=error)) == told


def test_who_asked_is_served_and_no_request_id_or_key():
    internal = {"RequestKey": "k", "Fingerprint": "f", "RequestId": "r", "ExpiresAt": NOW}
    assert not internal.keys() & public_action(make_action(**internal), NOW).keys()


@pytest.mark.parametrize(
    ("arguments", "result", "place"),
    [
        ({"X": 3, "Y": 4}, None, " (3, 4)"),
        ({"X": 3, "Y": 4}, {"X": 5, "Y": 6}, " (5, 6)"),
        ({"X": None, "Y": None}, {"X": 5.0, "Y": 6}, " (5, 6)"),
        ({"X": None, "Y": None}, {"X": "far"}, ""),
    ],
    ids=["as asked", "as done", "a double", "no numbers"],
)
def test_the_place_in_the_sentence_of_a_warp_is_where_the_game_put_the_player(
    arguments, result, place
):
    action = make_action(Kind="warp", Arguments={"MapId": MAP, **arguments}, Result=result)
    assert done_sentence(action) == f"Warped 'Amelia' to {MAP}{place}."

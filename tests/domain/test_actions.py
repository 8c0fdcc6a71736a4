"""The rules of actions: how far one is, whatever a game has written, and what is told of it."""

from datetime import timedelta

import pytest

from app.game.actions.domain import (
    LONGEST_ERROR,
    STATES,
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
    assert state_of(action, NOW) == state
    assert public_action(action, NOW)["State"] == state
    assert state in STATES


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
    ("kind", "arguments", "result", "sentence"),
    [
        ("kick", {}, None, "Amelia has been kicked by the server!"),
        ("kill", {}, {}, "Amelia has been killed!"),
        ("warp", {"X": 3, "Y": 4}, None, f"Warped 'Amelia' to {MAP} (3, 4)."),
        ("warp", {"X": 3, "Y": 4}, {"X": 5, "Y": 6}, f"Warped 'Amelia' to {MAP} (5, 6)."),
        ("warp", {"X": None, "Y": None}, {"X": 5.0, "Y": 6}, f"Warped 'Amelia' to {MAP} (5, 6)."),
        ("warp", {"X": None, "Y": None}, {"X": "far"}, f"Warped 'Amelia' to {MAP}."),
    ],
    ids=["kick", "kill", "as asked", "as done", "a double", "no numbers"],
)
def test_the_sentences_that_clients_match(kind, arguments, result, sentence):
    action = make_action(Kind=kind, Arguments={"MapId": MAP, **arguments}, Result=result)
    assert done_sentence(action) == sentence

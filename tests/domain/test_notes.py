"""Notes: what is served of them, what writing adds, and that an undo hides and shows."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.changes import SubjectKind, field_changes
from app.users.notes import MOST_NOTES, NoteGone, TooManyNotes, undo, visible_notes, write
from tests.factories import NOW, numbered_guid

FIRST, SECOND, STAFF = map(numbered_guid, range(3))
TEXT = "Asked twice for the same sword."
PLAYER = SubjectKind("player", unquoted=("Notes",))


def note(text=TEXT, at=NOW, **more):
    return {"At": at, "UserId": STAFF, "Name": "Staff", "Text": text, **more}


def written(subject, note_id=FIRST, text=TEXT, at=NOW):
    """Return the subject with one more note, and the changes of the entry."""
    change = write(subject, note_id=note_id, note=note(text, at))
    return {**subject, **change.fields}, field_changes(PLAYER, subject, change.fields)


def undone(subject, changes):
    change = undo(subject, changes=changes)
    return {**subject, **change.fields}, field_changes(PLAYER, subject, change.fields)


notes = st.dictionaries(
    st.integers(0, 8).map(numbered_guid),
    st.builds(
        lambda second, hidden: note(at=NOW + timedelta(seconds=second), **hidden),
        st.integers(0, 3),
        st.sampled_from([{}, {"IsHidden": True}, {"IsHidden": False}]),
    ),
    max_size=8,
)


@given(notes)
def test_the_newest_come_first_and_hidden_ones_not_at_all(notes):
    shown = visible_notes(notes)
    places = [(found["At"], found["Id"]) for found in shown]
    assert places == sorted(places, reverse=True)
    assert {found["Id"] for found in shown} == {
        id_ for id_, found in notes.items() if not found.get("IsHidden")
    }


@pytest.mark.parametrize("stored", [None, {}])
def test_where_there_are_no_notes_none_are_served(stored):
    assert visible_notes(stored) == []


@given(notes)
def test_writing_adds_one_note_and_leaves_the_others_alone(notes):
    added = numbered_guid(99)
    after, changes = written({"Notes": notes}, added)
    assert after["Notes"] == {**notes, added: note()}
    assert changes == [{"Path": f"Notes.{added}", "Before": None, "After": None}]


def test_the_first_note_is_told_as_any_other():
    after, changes = written({})
    assert after == {"Notes": {FIRST: note()}}
    assert [change["Path"] for change in changes] == [f"Notes.{FIRST}"]
    assert TEXT not in repr(changes)


def test_hidden_notes_take_room_too():
    full = {numbered_guid(number): note(IsHidden=True) for number in range(MOST_NOTES)}
    with pytest.raises(TooManyNotes, match="already 100 notes"):
        written({"Notes": full}, numbered_guid(MOST_NOTES))
    full.popitem()
    assert len(written({"Notes": full}, numbered_guid(MOST_NOTES))[0]["Notes"]) == MOST_NOTES


@given(notes)
def test_an_undo_hides_and_the_undo_of_it_shows_again(notes):
    added = numbered_guid(99)
    before = visible_notes(notes)
    after, changes = written({"Notes": notes}, added)
    shown = visible_notes(after["Notes"])
    for expected in (before, shown, before, shown):
        after, changes = undone(after, changes)
        assert visible_notes(after["Notes"]) == expected
        assert changes == [{"Path": f"Notes.{added}", "Before": None, "After": None}]


@pytest.mark.parametrize("notes", [{}, {SECOND: note()}])
def test_a_note_that_is_gone_cannot_be_hidden(notes):
    with pytest.raises(NoteGone):
        undo({"Notes": notes}, changes=[{"Path": f"Notes.{FIRST}"}])

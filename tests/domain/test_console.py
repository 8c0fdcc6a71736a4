"""What the console says and draws: entries in words, slots, plots, commands, icons, browsers."""

from __future__ import annotations

import json
import shlex
from datetime import datetime, timedelta, timezone
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.console.forms.submissions import curl
from app.console.frame.pages import local, short_number, templates
from app.console.frame.times import as_utc, utc_field, with_times
from app.console.health.views import COLOURS, HEIGHT, WIDTH, bar_plot, line_plot, top_of
from app.console.history.sentences import (
    duration,
    lines,
    path_text,
    reverse_of,
    value_text,
)
from app.console.players.slots import WORDS, changes_of, grid, item_icon, preview_lines
from app.console.session.sessions import browser_name
from app.core.texts import short_text, words_of
from app.players.items.domain import slot_records

NOW = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
NAMES = {"potion": "Life Potion", "fire": "Fire Ball", "stage": "Quest Stage"}


def entry(operation, changes=(), **arguments):
    return {
        "Operation": operation,
        "Arguments": arguments,
        "Subject": {"Kind": "player", "Name": "Aladric"},
        "Changes": [{"Path": path, "Before": b, "After": a} for path, b, a in changes],
    }


def slot(quantity, item="potion"):
    return {"ItemId": item, "Quantity": quantity}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            entry("give", [("Inventory.1", slot(57), slot(60)), ("Bank.0", None, slot(9))]),
            "+12 Life Potion",
        ),
        (entry("take", [("Inventory.1", slot(57), None)]), "−57 Life Potion"),
        (entry("undo", [("Inventory.1", slot(60), slot(57))]), "−3 Life Potion"),
        (entry("teach", [("Spells.0", None, "fire")]), "+1 Fire Ball"),
        (entry("set-variable", [("Variables.stage", 3, True)]), "Quest Stage: 3 → true"),
        (entry("set-variable", [("Value", None, 1000)]), "Value: nothing → 1,000"),
        (entry("save", [("MapId", "stage", "x")]), "MapId: Quest Stage → x"),
        (entry("ban", Duration=7), "Banned for 7 days"),
        (entry("mute", Duration=1), "Muted for a day"),
        (entry("grant-role", Role="api"), "Role api granted"),
        (entry("rename", [("Name", "Aladric", "Wala")]), "Renamed: Aladric → Wala"),
        (entry("delete-player", [("DeletedAt", None, NOW)]), "Deleted"),
        (entry("undo", [("DeletedAt", NOW, None)]), "Brought back"),
        (entry("rotate-key", [("Keys.x", None, None)], Name="shop"), "Key shop rotated"),
        # Written before history kept the name.
        (entry("revoke-key", [("Keys.x", None, None)], Id="x"), "Key revoked"),
        (entry("erase", [("Power", None, None)]), "Account erased"),
        # Of somebody who was erased, no name is left.
        (entry("rename", [("Name", None, None)]), "Name changed"),
        (entry("create-key", Name=None), "Key made"),
        (entry("grant-role", Role=None), "Role granted"),
        (entry("note", [("Notes.x", None, None)]), "Note written"),
        (entry("give", [("Inventory.0", None, slot(2, "0123456789"))]), "+2 01234567…"),
        (entry("give"), "Give: nothing changed"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_entry_is_told_in_words(told, expected):
    (line,) = lines(told, NAMES)
    assert f"{line.sign} {line.text}".strip() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *zip(map(short_text, (None, True, 1234)), ("nothing", "true", "1,234"), strict=True),
        (short_text("x" * 500), "x" * 79 + "…"),
        (value_text(slot(3), NAMES), "3 Life Potion"),
        (
            value_text({**slot(1), "StatBuffs": [1, 0, 2], "Wear": 3}, NAMES),
            '1 Life Potion +3 (1, 0, 2) {"Wear": 3}',
        ),
        (value_text({**slot(1), "BagId": "x"}, NAMES), "1 Life Potion with its contents"),
        (path_text("Inventory.4", {}), "Inventory, slot 4"),
        *zip(map(words_of, ("ItemId", "give-back")), ("Item", "Give back"), strict=True),
        *zip(
            map(duration, (30, 60, 7200, 90000)),
            ("less than a minute", "1 minute", "2 hours", "1 day"),
            strict=True,
        ),
        # A quantity fits into a slot.
        *zip(
            map(short_number, (0, 9_999_999, 10_000_000, 123_456_789, 2**31 - 1, 2**53)),
            ("0", "9,999,999", "10M", "123M", "2.15B", "9,007T"),
            strict=True,
        ),
    ],
)
def test_values_are_shown_shortly(text, expected):
    assert text == expected


def test_a_grid_shows_all_slots_and_what_would_become_of_them():
    stored = {"0": slot(57), "2": {**slot(1, "bag"), "BagId": "b"}}
    would = entry("give", [("Inventory.0", slot(57), slot(60)), ("Inventory.1", None, slot(9))])
    shown_ = grid(slot_records(stored, 4), NAMES, changes_of(would, "Inventory"))
    assert (shown_.filled, shown_.size) == (2, 4)
    assert [cell["after"] for cell in shown_.cells] == [60, 9, None, None]
    assert [cell["BagId"] for cell in shown_.cells] == [None, None, "b", None]
    assert shown_.cells[1]["name"] == "Life Potion"
    assert len(shown_.without_empty().cells) == 3
    assert preview_lines(would)[:2] == ["Slot 0: 57 → <b>60</b>", "Slot 1: empty → <b>9</b>"]


def test_no_two_series_have_one_colour_and_the_table_has_all():
    series = {str(number): [number, 1] for number in range(14, 0, -1)}
    plot = bar_plot("t", "u", "", "h", ["a", "b"], series)
    assert plot["series"] == ["14", "13", "12", "11", "10", "9", "8", "others"]
    assert {colour for colour, _ in plot["shapes"]} == set(range(COLOURS))
    assert plot["head"] == ["h", *series]
    assert [len(row) for row in plot["rows"]] == [15, 15]
    corners = [corner.split(",") for _, points in plot["shapes"] for corner in points]
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in corners)
    few = bar_plot("t", "u", "", "h", ["a", "b"], dict([*series.items()][:8]))
    assert few["series"] == ["14", "13", "12", "11", "10", "9", "8", "7"]


def test_an_undo_is_told_by_what_it_would_do():
    given = entry("give", [("Inventory.1", slot(5), slot(10_005)), ("Variables.stage", 3, True)])
    (took, back) = lines(reverse_of(given), NAMES)
    assert f"{took.sign} {took.text}" == "−10,000 Life Potion"
    assert back.text == "Quest Stage: true → 3"


@given(st.floats(1e-6, 1e12))
def test_an_axis_ends_above_its_largest_value_and_not_far_above(value):
    assert value < top_of([value]) <= 1.7 * value
    assert top_of([0]) == top_of([]) == 1
    assert [top_of([count]) for count in (4, 20, 31, 97)] == [5, 25, 40, 150]


def test_a_gap_in_time_is_a_gap_in_the_line():
    points = [(NOW + timedelta(minutes=m), float(m)) for m in (0, 5, 10, 60, 65)]
    end = NOW + timedelta(hours=2)
    plot = line_plot("t", "u", {"a": points}, end)
    assert len(plot["shapes"]) == 2
    assert len(plot["rows"]) == 5
    alone = line_plot("t", "u", {"a": points[:1]}, end)
    assert len(alone["shapes"][0][1]) == 2


@pytest.mark.parametrize(
    ("typed", "sent", "shown_in_field"),
    [
        ("2026-10-25T01:30", "2026-10-25T01:30:00.000Z", "2026-10-25T01:30:00.000"),
        ("2026-10-25T01:30:05.250Z", "2026-10-25T01:30:05.250Z", "2026-10-25T01:30:05.250"),
        ("2026-10-25T01:30:05+02:00", "2026-10-24T23:30:05.000Z", "2026-10-24T23:30:05.000"),
        ("yesterday", "yesterday", "yesterday"),
        ("0001-01-01T00:00+14:00", "0001-01-01T00:00+14:00", "0001-01-01T00:00+14:00"),
        ("", "", ""),
    ],
)
def test_a_filter_means_the_moment_that_its_address_names(typed, sent, shown_in_field):
    assert as_utc(typed) == sent
    assert utc_field(typed) == shown_in_field
    assert as_utc(utc_field(typed)) == sent


def test_a_time_in_a_text_is_marked_and_the_rest_is_escaped():
    told = with_times(f"<b>: nothing → {short_text(NOW)}, {short_text({'At': NOW})}")
    time = (
        '<time datetime="2026-01-31T12:00:00Z" title="2026-01-31 12:00:00 UTC">'
        "2026-01-31 12:00:00 UTC</time>"
    )
    assert told == f"&lt;b&gt;: nothing → {time}, {{&#34;At&#34;: &#34;{time}&#34;}}"


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=100),
)
def test_a_curl_line_means_the_same_to_a_shell(text, reason):
    url = f"http://h/api/v1/players/{quote('a/b ü', safe='')}/notes"
    data = f"-d {shlex.quote(json.dumps({'Text': text}))}"
    command = curl("POST", url, {"X-Reason": quote(reason)}, data)
    words = shlex.split(command.replace("\\\n", " "))
    assert words[0] == "curl"
    assert json.loads(words[words.index("-d") + 1]) == {"Text": text}
    assert words[-1] == "http://h/api/v1/players/a%2Fb%20%C3%BC/notes"
    sent = [word.removeprefix("X-Reason: ") for word in words if word.startswith("X-Reason: ")]
    assert [unquote(word) for word in sent] == [reason]


def test_every_word_has_an_icon_that_is_drawn():
    icons = templates().get_template("frame/icons.html").module.icons
    assert WORDS.keys() <= icons.keys()
    assert item_icon("Iron Sword") == "sword"
    assert item_icon("Sword Oil Potion") == "potion"
    assert item_icon("<script>") == "box"


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("(X11; Linux x86_64) AppleWebKit/537.36 Chrome/130.0 Safari/537.36", "Chrome on Linux"),
        ("(Windows NT 10.0; rv:130.0) Gecko/20100101 Firefox/130.0", "Firefox on Windows"),
        ("(iPhone; CPU iPhone OS 17) Version/17.0 Mobile Safari/604.1", "Safari on iPhone"),
        ("<script>alert(1)</script>", "Another browser"),
        ("", "Another browser"),
    ],
)
def test_of_a_browser_only_known_words_are_kept(sent, name):
    assert browser_name(sent) == name


@given(st.text(max_size=60))
def test_no_text_leads_away_from_the_console(text):
    for prefix in ("", "/console", "/console/", "//", "https:", "\\"):
        path = local(prefix + text, "/console")
        assert path.startswith("/console")
        assert path[len("/console") :][:1] in ("", "/", "?")
        assert "\\" not in path
        assert "\n" not in path

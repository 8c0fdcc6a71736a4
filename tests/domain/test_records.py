"""An export followed by an import yields the same document."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Invalid
from app.http.json import encode
from app.maintenance.transfer.validate import RECORDS, parse_line
from app.storage.extended_json import from_json, to_json
from config.base import Testing
from tests.factories import NOW, guid, make_player
from tests.strategies import DOCUMENTS, GAME_FIELDS

SIZES = {name: getattr(Testing, name) for name in dir(Testing) if name.isupper()}
COUNTERS = ("Version", "PasswordVersion")


def round_trip(kind, document):
    """Export a document and import it again."""
    record = RECORDS[kind](SIZES)
    values = parse_line(encode(record.record(dict(document))), record)
    return record.document(values, NOW, 64)


def exact(value):
    """Convert a value so that equality also compares types, and NaN equals NaN."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [exact(inner) for inner in value]
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    # int and Int64 are the same: BSON chooses the width by the value.
    kind = int if isinstance(value, int) and not isinstance(value, bool) else type(value)
    return kind.__name__, repr(value) if isinstance(value, float) else value


@pytest.mark.parametrize("kind", sorted(DOCUMENTS))
@given(st.data())
def test_a_document_is_the_same_after_an_export_and_an_import(kind, data):
    document = data.draw(DOCUMENTS[kind])
    after = round_trip(kind, document)
    for counter in COUNTERS:
        after.pop(counter, None), document.pop(counter, None)
    assert exact(after) == exact(document)


@given(GAME_FIELDS)
def test_values_without_a_json_form_survive_the_round_trip(value):
    assert exact(from_json(to_json(value))) == exact(value)


CLAIMS = [{"$oid": "x"}, {"$date": {}}, {"$binary": 1}, {"$numberDecimal": "x"}, {"$uuid": "x"}]


def test_a_value_that_is_not_what_it_claims_to_be_is_refused():
    record = RECORDS["players"](SIZES)
    for claim in CLAIMS:
        line = encode({**record.record(make_player()), "Guild": {"Founded": [claim]}})
        with pytest.raises(Invalid, match=r"'Guild' does not match its \$ type"):
            parse_line(line, record)


def deep(depth):
    """Return lists in lists."""
    return [deep(depth - 1)] if depth else []


NOTE = {"At": "2026-01-31T12:00:00Z", "UserId": guid(), "Name": "Staff", "Text": "x"}


@pytest.mark.parametrize(
    ("kind", "fields", "fault"),
    [
        ("players", {"Notes": [{**NOTE, "Id": guid(), "Text": "x" * 2001}]}, "maximum length 2000"),
        ("players", {"Notes": [{**NOTE, "Id": guid()} for _ in range(101)]}, "at most 100 notes"),
        ("objects", {"Name": "x" * 256}, "at most 255 printable characters"),
        ("objects", {"Tiles": "x" * 262_144}, "longer than 262144 bytes"),
        ("objects", {"Deep": deep(100)}, "more than 80 levels deep"),
        ("objects", {"Deep": deep(900)}, "more than 80 levels deep"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_long_or_deep_is_refused(kind, fields, fault):
    """What else is refused: tests/system/transcripts/import_faults.txt."""
    record = {"Id": guid(), "UserId": guid(), "Type": "item", "Name": "Bow", **fields}
    with pytest.raises(Invalid, match=fault):
        parse_line(json.dumps(record).encode(), RECORDS[kind](SIZES))


def test_a_field_that_is_called_id_or_a_byte_order_mark_does_no_harm():
    record, player = RECORDS["players"](SIZES), make_player()
    assert record.record({**player, "Id": "x"})["Id"] == player["_id"]
    line = encode(record.record(player))
    assert parse_line(b"\xef\xbb\xbf" + line, record) == parse_line(line, record)

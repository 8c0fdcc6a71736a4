"""Hypothesis strategies for users, players and bags with everything that can be stored on them."""

import math
import uuid
from datetime import datetime, timezone

from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp
from hypothesis import strategies as st

from app.core.naming import named_document
from app.players import domain as players
from app.players.domain import check_name
from app.users import domain as users
from tests.factories import NOW

NIL = "00000000-0000-0000-0000-000000000000"
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
GUIDS = st.uuids(version=4).map(str)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def is_usable(name):
    try:
        check_name(name)
    except Exception:
        return False
    return True


NAMES = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=30),
    st.sampled_from(
        ["Ünïcode Ægir", "名前", "e\u0301lan", "STRASSE", "straße", "👑 King", "a" * 255]
    ),
).filter(is_usable)
# One of the many NaNs: their payload bits do not survive as text.
FLOATS = st.floats().map(lambda value: math.nan if math.isnan(value) else value)
# MongoDB stores milliseconds.
MOMENTS = st.datetimes(
    datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(timezone.utc)
).map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
SLOTS = st.fixed_dictionaries(
    {"ItemId": GUIDS, "Quantity": st.integers(1, 1_000_000)},
    optional={"StatBuffs": st.lists(INT64, min_size=5, max_size=5).filter(any), "BagId": GUIDS},
)


# None, or a few: export writes no empty map.
NOTES = st.just({}) | st.dictionaries(
    GUIDS,
    st.fixed_dictionaries(
        {"At": MOMENTS, "UserId": GUIDS, "Name": TEXTS, "Text": TEXTS},
        optional={"IsHidden": st.booleans()},
    ),
    min_size=1,
    max_size=3,
).map(lambda notes: {"Notes": notes})


def slot_maps(size):
    return st.dictionaries(st.integers(0, size - 1).map(str), SLOTS, max_size=4)


# Values that a game may store in fields of its own, BSON types without a JSON form included.
BSON_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    INT64,
    FLOATS,
    TEXTS,
    MOMENTS,
    st.binary(max_size=9),
    st.sampled_from(
        [
            ObjectId("6af9680f8ea5d5fe7c22fa48"),
            Decimal128("1.50"),
            Int64(7),
            Timestamp(1, 2),
            Binary(b"x", 5),
            Binary(uuid.UUID(int=7).bytes, 4),
            Regex("a.b", "i"),
            -0.0,
        ]
    ),
)
GAME_FIELDS = st.recursive(
    BSON_VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "Rank", "ä ö", "x-y"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@st.composite
def player_documents(draw):
    numbers = ("Gender", "ExperienceToNextLevel", "StatPoints", "X", "Y", "Dir")
    counts = ("Level", "Exp", "PlayTimeSeconds")
    record = {
        **players.defaults(NOW),
        "Id": draw(GUIDS),
        "Name": draw(NAMES),
        "UserId": draw(GUIDS),
        **{name: draw(INT64) for name in numbers},
        **{name: draw(COUNTS) for name in counts},
        **{name: draw(TEXTS) for name in ("ClassName", "MapName", "Sprite", "Face")},
        **{name: draw(st.booleans()) for name in ("Online", "InBank")},
        **{name: draw(st.none() | MOMENTS) for name in ("LastOnline", "LastSeen")},
        "CreationDate": draw(MOMENTS),
        **{name: draw(st.lists(INT64, max_size=3)) for name in ("Vitals", "Equipment")},
        "BaseStats": draw(st.lists(INT64, min_size=5, max_size=5)),
        "ClassId": draw(GUIDS | st.just(NIL)),
        "MapId": draw(GUIDS | st.just(NIL)),
        "Inventory": draw(slot_maps(35)),
        "Bank": draw(slot_maps(100)),
        "Spells": _by_slot(draw(st.lists(GUIDS, max_size=4, unique=True))),
        "Variables": draw(st.dictionaries(GUIDS, INT64 | st.booleans(), max_size=4)),
    }
    game_fields = st.dictionaries(st.sampled_from(["x-guild", "Ünïcode", "a b"]), GAME_FIELDS)
    return named_document({**record, **draw(game_fields), **draw(NOTES)})


def _by_slot(spells):
    return {str(slot): spell for slot, spell in enumerate(spells)}


@st.composite
def user_documents(draw):
    domain = draw(st.sampled_from(["example.com", "Bücher.example", "EXAMPLE.org"]))
    email = f"{draw(st.text('abcXYZ0189.+-', min_size=1, max_size=12))}@{domain}"
    hashes = st.sampled_from(["$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$aGFzaA", None])
    account = users.new_account(draw(GUIDS), draw(NAMES), email, draw(hashes), draw(MOMENTS))
    account["Power"] = {name: draw(st.booleans()) for name in users.NO_POWER}
    muted = {"IsMuted": draw(st.booleans()), "MuteReason": draw(st.none() | TEXTS)}
    return {**account, **muted, **draw(NOTES)}


@st.composite
def bag_documents(draw):
    size = draw(st.integers(1, 10_000))
    bag = {"_id": draw(GUIDS), "SlotCount": size, "Slots": draw(slot_maps(size))}
    return {**bag, "Version": 0}


DOCUMENTS = {"players": player_documents(), "users": user_documents(), "bags": bag_documents()}

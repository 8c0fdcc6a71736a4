"""Documents with one fault each, and the line that db check prints for it."""

from tests.factories import NOW, guid, make_bag, make_player, make_user, numbered_guid

NIL = "00000000-0000-0000-0000-000000000000"
ITEM, SPELL = guid(), guid()
ABSENT = object()
EMPTY = {"ItemId": NIL, "Quantity": 0}
APPLE = {"ItemId": ITEM, "Quantity": 1}
NOTE = {"At": NOW, "UserId": guid(), "Name": "Staff", "Text": "Asked twice."}
ENTRY = {"Operation": "give", "Key": "k", "Answer": {}, "Fingerprint": "f", "At": NOW}

# Name: the fields that are broken, the fault that is reported, and whether it can be repaired.
PLAYERS = {
    "no journal": ({"Journal": ABSENT}, "Journal is missing", True),
    "journal map": ({"Journal": {"3": ENTRY}}, "Journal is a map, not a list", True),
    "journal text": ({"Journal": ["x"]}, "Journal.0 is no entry of a journal", True),
    "journal twins": ({"Journal": [ENTRY, ENTRY]}, "Journal holds an Idempotency-Key twice", True),
    "no version": ({"Version": ABSENT}, "Version is missing", True),
    "odd version": ({"Version": "3"}, "Version is a text, not a whole number", True),
    "wrong key": ({"NameKey": "other"}, "NameKey is not what the Name makes it", True),
    "no key": ({"NameKey": ABSENT}, "NameKey is missing", True),
    "wrong tails": ({"NameTails": ["x"]}, "NameTails is not what the Name makes it", True),
    "no inventory": ({"Inventory": ABSENT}, "Inventory is missing", True),
    "no variables": ({"Variables": ABSENT}, "Variables is missing", True),
    "never seen": ({"LastSeen": ABSENT}, "LastSeen is missing", True),
    "stray slot": (
        {"Inventory": {"0": APPLE, "3": EMPTY}},
        "Inventory.3 is an empty slot, and those are not stored",
        True,
    ),
    "stray bank slot": (
        {"Bank": {"3": {**EMPTY, "BagId": None, "StatBuffs": [0] * 5}}},
        "Bank.3 is an empty slot, and those are not stored",
        True,
    ),
    "null bag": (
        {"Inventory": {"0": {**APPLE, "BagId": None}}},
        "Inventory.0.BagId is null, not a text",
        True,
    ),
    "zero of an item": (
        {"Inventory": {"0": {**APPLE, "Quantity": 0}}},
        "Inventory.0.Quantity is below 1",
        False,
    ),
    "empty with bag": (
        {"Inventory": {"0": {**EMPTY, "BagId": NIL[:-1] + "1"}}},
        "Inventory.0.Quantity is below 1",
        False,
    ),
    "five of nothing": (
        {"Inventory": {"0": {"ItemId": NIL, "Quantity": 5}}},
        "Inventory.0 holds 5 of no item",
        False,
    ),
    "beyond": ({"Inventory": {"35": APPLE}}, "Inventory.35 lies beyond the last slot, 34", False),
    "far beyond": ({"Bank": {"10000": APPLE}}, "Bank.10000 has no place there", False),
    "named slot": ({"Inventory": {"a.b": APPLE}}, "Inventory.a.b has no place there", False),
    "padded slot": ({"Inventory": {"03": APPLE}}, "Inventory.03 has no place there", False),
    "too many": (
        {"Bank": {"7": {**APPLE, "Quantity": 1_000_001}}},
        "Bank.7 holds 1000001 of an item that stacks to 1000000",
        False,
    ),
    "lost bag": (
        {"Inventory": {"0": {**APPLE, "BagId": guid()}}},
        "Inventory.0 refers to a bag that is not there",
        False,
    ),
    "lost user": ({"UserId": guid()}, "UserId refers to a user that is not there", False),
    "nobodys": ({"UserId": NIL}, "UserId is the all-zero guid, which is nobody's", False),
    "spell slot": ({"Spells": {"35": SPELL}}, "Spells.35 lies beyond the last slot, 34", False),
    "spell twice": (
        {"Spells": {"0": SPELL, "1": SPELL}},
        "Spells.1 is the same as in slot 0",
        False,
    ),
    "no spell": ({"Spells": {"0": NIL}}, "Spells.0 is the all-zero guid, which is no spell", False),
    "no variable": (
        {"Variables": {NIL: 1}},
        f"Variables.{NIL} is the all-zero guid, which is no variable",
        False,
    ),
    "half variable": (
        {"Variables": {SPELL: 1.5}},
        f"Variables.{SPELL} is a fraction, not a whole number or true or false",
        False,
    ),
    "no note": ({"Notes": "x"}, "Notes is a text, not a map", False),
    "half a note": (
        {"Notes": {SPELL: {name: value for name, value in NOTE.items() if name != "At"}}},
        f"Notes.{SPELL}.At is missing",
        False,
    ),
    "nobody's note": (
        {"Notes": {NIL: NOTE}},
        f"Notes.{NIL} has the all-zero guid, which is nobody's",
        False,
    ),
    "long note": (
        {"Notes": {SPELL: {**NOTE, "Text": "x" * 2001}}},
        f"Notes.{SPELL} is longer than 2000 characters",
        False,
    ),
    "no level": ({"Level": ABSENT}, "Level is missing", False),
    "below": ({"Exp": -1}, "Exp is below 0", False),
    "few stats": ({"BaseStats": [1]}, "BaseStats has 1 entries, not 5 to 5", False),
    "worn": ({"Equipment": ["hat"]}, "Equipment holds something that is not a whole number", False),
    "own id": ({"Id": "x"}, "Id is a name that no field may have", False),
    "a/b": ({}, "Name must not be a dot, two dots, or hold a slash: no path can hold it", False),
    "\u3164\u3164": (
        {"Email": "unseen@example.com"},
        "Name must hold a character that can be seen",
        False,
    ),
    ITEM: ({}, "Name must not look like a guid: it would be taken for an id", False),
    "two\nlines": ({}, "Name must be 1 to 255 printable characters, not all blank", False),
}
USERS = {
    "noJournal": ({"Journal": ABSENT}, "Journal is missing", True),
    "noPasswordVersion": ({"PasswordVersion": ABSENT}, "PasswordVersion is missing", True),
    "noReset": ({"Reset": ABSENT}, "Reset is missing", True),
    "noHash": ({"PasswordHash": ABSENT}, "PasswordHash is missing", True),
    "fewPowers": ({"Power": {"Api": True}}, "Power.Kick is missing", True),
    "morePowers": ({"Power": {"King": True}}, "Power.King is unknown", False),
    "wrongEmailKey": ({"EmailKey": "x"}, "EmailKey is not what the Email makes it", True),
    "wrongNameKey": ({"NameKey": "x"}, "NameKey is not what the Name makes it", True),
    "plainHash": ({"PasswordHash": "secret"}, "PasswordHash is not an argon2id hash", False),
    "noMute": ({"IsMuted": ABSENT}, "IsMuted is missing", False),
    "manyNotes": (
        {"Notes": {numbered_guid(number): NOTE for number in range(101)}},
        "Notes holds more than 100 notes",
        False,
    ),
    "stranger": ({"Shoe": 44}, "Shoe is unknown", False),
    "nowhere": ({"Email": "nowhere"}, "Email is not an email address", False),
}
BAGS = {
    "no journal": ({"Journal": ABSENT}, "Journal is missing", True),
    "no slots": ({"Slots": ABSENT}, "Slots is missing", True),
    "stray": ({"Slots": {"1": EMPTY}}, "Slots.1 is an empty slot, and those are not stored", True),
    "small": ({"Slots": {"3": APPLE}}, "Slots.3 lies beyond the last slot, 2", False),
    "nested": (
        {"Slots": {"0": {**APPLE, "BagId": guid()}}},
        "Slots.0 refers to a bag that is not there",
        False,
    ),
    "colour": ({"Colour": "red"}, "Colour is unknown", False),
}


def store_broken(db):
    """Store every document; yields its name in the report, its fault and if that is repairable."""
    owner = make_user(Name="Owner")
    db.users.insert_one(owner)
    for name, (changes, fault, is_repairable) in PLAYERS.items():
        player = make_player(Name=name, **{"UserId": owner["_id"]})
        yield _stored(db.players, player, changes, name), fault, is_repairable
    for name, (changes, fault, is_repairable) in USERS.items():
        yield _stored(db.users, make_user(Name=name), changes, name), fault, is_repairable
    for changes, fault, is_repairable in BAGS.values():
        yield _stored(db.bags, make_bag(), changes, None), fault, is_repairable


def _stored(collection, document, changes, name):
    broken = {k: v for k, v in {**document, **changes}.items() if v is not ABSENT}
    collection.insert_one(broken, bypass_document_validation=True)
    shown = f" ({name if name.isprintable() else repr(name)})" if name else ""
    return f"{collection.name} {document['_id']}{shown}"

"""Documents with one fault each, and the line that db check prints for it."""

from tests.factories import NOW, guid, make_bag, make_player, make_user, numbered_guid

NIL = "00000000-0000-0000-0000-000000000000"
ITEM, SPELL = guid(), guid()
ABSENT = object()
EMPTY = {"ItemId": NIL, "Quantity": 0}
APPLE = {"ItemId": ITEM, "Quantity": 1}
NOTE = {"At": NOW, "UserId": guid(), "Name": "Staff", "Text": "Asked twice."}
NOT_STORED = "is an empty slot, which must not be stored"
NO_BAG = "refers to a bag that does not exist"

# A field, its value, and what is wrong with it, after the name of the field.
REPAIRABLE = {
    "players": [
        ("Version", ABSENT, " is missing"),
        ("Version", "3", " is a text, not a whole number"),
        ("NameKey", "other", " does not match the Name"),
        ("NameKey", ABSENT, " is missing"),
        ("NameTails", ["x"], " does not match the Name"),
        ("Inventory", ABSENT, " is missing"),
        ("Variables", ABSENT, " is missing"),
        ("LastSeen", ABSENT, " is missing"),
        ("Inventory", {"0": APPLE, "3": EMPTY}, f".3 {NOT_STORED}"),
        ("Bank", {"3": {**EMPTY, "BagId": None, "StatBuffs": [0] * 5}}, f".3 {NOT_STORED}"),
        ("Inventory", {"0": {**APPLE, "BagId": None}}, ".0.BagId is null, not a text"),
    ],
    "users": [
        ("PasswordVersion", ABSENT, " is missing"),
        ("Reset", ABSENT, " is missing"),
        ("PasswordHash", ABSENT, " is missing"),
        ("Power", {"Api": True}, ".Kick is missing"),
        ("EmailKey", "x", " does not match the Email"),
        ("NameKey", "x", " does not match the Name"),
    ],
    "bags": [
        ("Slots", ABSENT, " is missing"),
        ("Slots", {"1": EMPTY}, f".1 {NOT_STORED}"),
    ],
}
LEFT_TO_YOU = {
    "players": [
        ("Inventory", {"0": {**APPLE, "Quantity": 0}}, ".0.Quantity is below 1"),
        ("Inventory", {"0": {**EMPTY, "BagId": NIL[:-1] + "1"}}, ".0.Quantity is below 1"),
        ("Inventory", {"0": {"ItemId": NIL, "Quantity": 5}}, ".0 holds 5 of no item"),
        ("Inventory", {"35": APPLE}, ".35 is beyond the last slot, 34"),
        ("Inventory", {"a.b": APPLE}, ".a.b is not allowed there"),
        ("Inventory", {"03": APPLE}, ".03 is not allowed there"),
        ("Inventory", {"0": {**APPLE, "BagId": guid()}}, f".0 {NO_BAG}"),
        ("Bank", {"10000": APPLE}, ".10000 is not allowed there"),
        (
            *("Bank", {"7": {**APPLE, "Quantity": 1_000_001}}),
            ".7 holds 1000001 of an item that stacks to 1000000",
        ),
        ("UserId", guid(), " refers to a user that does not exist"),
        ("UserId", NIL, " is the all-zero guid"),
        ("Spells", {"35": SPELL}, ".35 is beyond the last slot, 34"),
        ("Spells", {"0": SPELL, "1": SPELL}, ".1 is the same as in slot 0"),
        ("Spells", {"0": NIL}, ".0 is the all-zero guid"),
        ("Variables", {NIL: 1}, f".{NIL} is the all-zero guid"),
        (
            *("Variables", {SPELL: 1.5}),
            f".{SPELL} is a fraction, not a whole number or true or false",
        ),
        ("Notes", "x", " is a text, not a map"),
        ("Notes", {SPELL: {**NOTE, "At": ABSENT}}, f".{SPELL}.At is missing"),
        ("Notes", {NIL: NOTE}, f".{NIL} has the all-zero guid"),
        (
            "Notes",
            {SPELL: {**NOTE, "Text": "x" * 2001}},
            f".{SPELL} is longer than 2000 characters",
        ),
        ("Level", ABSENT, " is missing"),
        ("Exp", -1, " is below 0"),
        ("BaseStats", [1], " has 1 entries, not 5 to 5"),
        ("Equipment", ["hat"], " holds something that is not a whole number"),
        ("Id", "x", " is not allowed as a field name"),
        ("Name", "a/b", " must not be a dot or two dots, or contain a slash: no path can hold it"),
        ("Name", "\u3164\u3164", " must contain a visible character"),
        ("Name", ITEM, " must not look like a guid: it would be read as an id"),
        ("Name", "two\nlines", " must be 1 to 255 printable characters, not all blank"),
    ],
    "users": [
        ("Power", {"King": True}, ".King is unknown"),
        ("PasswordHash", "secret", " is not an argon2id hash"),
        ("IsMuted", ABSENT, " is missing"),
        ("Notes", {numbered_guid(n): NOTE for n in range(101)}, " holds more than 100 notes"),
        ("Shoe", 44, " is unknown"),
        ("Email", "nowhere", " is not an email address"),
    ],
    "bags": [
        ("Slots", {"3": APPLE}, ".3 is beyond the last slot, 2"),
        ("Slots", {"0": {**APPLE, "BagId": guid()}}, f".0 {NO_BAG}"),
        ("Colour", "red", " is unknown"),
    ],
}


def store_broken(db):
    """Store every document; yields its name in the report, its fault and if that is repairable."""
    owner = make_user(Name="Owner")
    db.users.insert_one(owner)
    for table, is_repairable in ((REPAIRABLE, True), (LEFT_TO_YOU, False)):
        for kind, rows in table.items():
            for field, value, fault in rows:
                document = _broken(kind, field, value, owner)
                db[kind].insert_one(document, bypass_document_validation=True)
                yield _name_of(kind, document), field + fault, is_repairable


def _broken(kind, field, value, owner):
    if field == "Name":
        # What follows from a name is right; the name itself is not.
        return make_player(Name=value, UserId=owner["_id"])
    makers = {"players": lambda: make_player(UserId=owner["_id"]), "users": make_user}
    return _present({**makers.get(kind, make_bag)(), field: value})


def _present(document):
    """Return a document without what is absent in it, or in the maps of its maps."""
    return {
        name: _present(value) if isinstance(value, dict) else value
        for name, value in document.items()
        if value is not ABSENT
    }


def _name_of(kind, document):
    name = document.get("Name")
    shown = f" ({name if name.isprintable() else repr(name)})" if name else ""
    return f"{kind} {document['_id']}{shown}"

"""Documents with one fault each, and the line that db check prints for it."""

from app.users.domain import NO_POWER
from tests.factories import NOW, guid, make_bag, make_player, make_user, numbered_guid

NIL = "00000000-0000-0000-0000-000000000000"
ITEM, SPELL = guid(), guid()
ABSENT = object()
EMPTY = {"ItemId": NIL, "Quantity": 0}
APPLE = {"ItemId": ITEM, "Quantity": 1}
NOTE = {"At": NOW, "UserId": guid(), "Name": "Staff", "Text": "Asked twice."}
NOT_WHOLE = "not a whole number from"
WRONG_SPELLS = " must be a list of records with a valid Slot and a valid SpellId"
WRONG_VARIABLES = " must be a list of records with a valid VariableId and a valid Value"
NO_BAG = "refers to a bag that does not exist"

# A field, its value, and what is wrong with it, after the name of the field.
REPAIRABLE = {
    "players": [
        ("NameKey", "other", " does not match the Name"),
        ("NameKey", ABSENT, " is missing"),
        ("NameTails", ["x"], " does not match the Name"),
        ("Inventory", ABSENT, " is missing"),
        ("Variables", ABSENT, " is missing"),
        ("LastSeen", ABSENT, " is missing"),
        ("Inventory", {"0": APPLE, "3": EMPTY}, ".3.Quantity is below 1"),
        ("Bank", {"3": {**EMPTY, "StatBuffs": [0] * 5}}, ".3.Quantity is below 1"),
    ],
    "users": [
        ("Reset", ABSENT, " is missing"),
        ("PasswordHash", ABSENT, " is missing"),
        ("EmailKey", "x", " does not match the Email"),
        ("NameKey", "x", " does not match the Name"),
    ],
    "bags": [
        ("Slots", ABSENT, " is missing"),
        ("Slots", {"1": EMPTY}, ".1.Quantity is below 1"),
    ],
}
LEFT_TO_YOU = {
    "players": [
        ("Version", ABSENT, " is missing"),
        ("Version", "3", " is a text, not a whole number"),
        ("Inventory", {"0": {**APPLE, "BagId": None}}, ".0.BagId is null, not a text"),
        ("Inventory", {"0": {**APPLE, "Quantity": 0}}, ".0.Quantity is below 1"),
        ("Inventory", {"0": {**EMPTY, "BagId": NIL[:-1] + "1"}}, ".0.Quantity is below 1"),
        (
            "Inventory",
            {"0": {"ItemId": NIL, "Quantity": 5}},
            " has an ItemId in slot 0 that is not a guid",
        ),
        ("Inventory", {"35": APPLE}, f" has a slot 35 that is {NOT_WHOLE} 0 to 34"),
        ("Inventory", {"a.b": APPLE}, ".a.b is not allowed there"),
        ("Inventory", {"03": APPLE}, ".03 is not allowed there"),
        ("Inventory", {"0": {**APPLE, "BagId": guid()}}, f".0 {NO_BAG}"),
        ("Bank", {"10000": APPLE}, ".10000 is not allowed there"),
        (
            *("Bank", {"7": {**APPLE, "Quantity": 1_000_001}}),
            f" has a Quantity in slot 7 that is {NOT_WHOLE} 1 to 1000000",
        ),
        ("UserId", guid(), " refers to a user that does not exist"),
        ("UserId", NIL, " must not be the all-zero guid"),
        ("Spells", {"35": SPELL}, WRONG_SPELLS),
        ("Spells", {"0": NIL}, WRONG_SPELLS),
        ("Variables", {NIL: 1}, WRONG_VARIABLES),
        (
            *("Variables", {SPELL: 1.5}),
            f".{SPELL} is a fraction, not a whole number or true or false",
        ),
        ("Notes", "x", " is a text, not a map"),
        ("Notes", {SPELL: {**NOTE, "At": ABSENT}}, f".{SPELL}.At is missing"),
        ("Notes", {NIL: NOTE}, ".0.Id must not be the all-zero guid"),
        (
            "Notes",
            {SPELL: {**NOTE, "Text": "x" * 2001}},
            ".0.Text longer than maximum length 2000",
        ),
        ("Level", ABSENT, " is missing"),
        ("Exp", -1, " is below 0"),
        ("BaseStats", [1], " has 1 entries, not 5 to 5"),
        ("Equipment", ["hat"], ".0 must be a whole number"),
        ("Name", "a/b", " must not be a dot or two dots, or contain a slash: no path can hold it"),
        ("Name", "\u3164\u3164", " must contain a visible character"),
        ("Name", ITEM, " must not look like a guid: it would be read as an id"),
        ("Name", "two\nlines", " must be 1 to 255 printable characters, not all blank"),
    ],
    "users": [
        ("Power", {"Api": True}, ".Kick is missing"),
        ("Power", {**NO_POWER, "King": True}, ".King is unknown"),
        ("PasswordVersion", ABSENT, " is missing"),
        ("PasswordHash", "secret", " must be an argon2id hash"),
        ("IsMuted", ABSENT, " is missing"),
        ("Notes", {numbered_guid(n): NOTE for n in range(101)}, " must contain at most 100 notes"),
        ("Email", "nowhere", " must be an email address"),
    ],
    "bags": [
        ("Slots", {"3": APPLE}, " must be below SlotCount"),
        ("Slots", {"0": {**APPLE, "BagId": guid()}}, f".0 {NO_BAG}"),
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

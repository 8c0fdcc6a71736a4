"""A person whose name and addresses are known strings, to be searched for after an erasure."""

from copy import deepcopy
from datetime import datetime, timedelta, timezone

from app.core.permissions import Role
from tests.callers import Caller
from tests.factories import guid, make_bag, numbered_guid
from tests.game import playing

NAME, MAIL = "Zweronika", "zweronika.mail@example.com"
FORMER_MAIL = "zwero.before@example.com"
HERO, FORMER, DELETED = "Quixandra", "Formerix", "Goneriel"
ADDRESS = "203.0.113.77"
# What must be found nowhere, in any case.
STRINGS = (NAME, MAIL, FORMER_MAIL, HERO, FORMER, DELETED, ADDRESS)
ITEM = numbered_guid(31)
GIFT = {"ItemId": ITEM, "Quantity": 1}


def build_few(world, client, password="secret"):
    """Make the person with a character and a deleted one, and two others; return id and headers."""
    person = world.add_user(password, (Role.API, Role.USERS_QUERY), Name=NAME, Email=MAIL)
    staff = world.headers(Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
    for name in (HERO, DELETED):
        world.add_player(Name=name, UserId=person["_id"])
    world.add_player(Name="Stranger")
    world.add_user(Name="Colleague")
    assert client.delete(f"/api/v1/players/{DELETED}", headers=staff).status_code == 200
    return person["_id"], staff


# What was built first on each kind of database, and what build returned: to store that is quicker.
_built = {}


def build(world, client):
    """Make the person, colleagues and traces of all kinds; return the person's id, and headers."""
    kind, db = type(world.db), world.db
    if kind not in _built:
        before = {name: db[name].distinct("_id") for name in db.list_collection_names()}
        answer = _build(world, client)
        added = {
            name: list(db[name].find({"_id": {"$nin": before.get(name, [])}}))
            for name in db.list_collection_names()
        }
        _built[kind] = answer, {name: documents for name, documents in added.items() if documents}
    else:
        answer, added = _built[kind]
        for name, documents in added.items():
            db[name].insert_many(deepcopy(documents), bypass_document_validation=True)
    return answer


def _build(world, client):
    db = world.db
    person = world.add_user("secret", (Role.API, Role.USERS_QUERY), Name=NAME, Email=FORMER_MAIL)
    headers = world.headers(Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
    staff = Caller(client, headers, "/api/v1/")
    own = Caller(client, world.headers(user=person), "/api/v1/")
    inner, outer = make_bag(), guid()
    holds_bag = {"ItemId": ITEM, "Quantity": 1, "BagId": inner["_id"]}
    db.bags.insert_many([inner, make_bag({"0": holds_bag}, _id=outer)])
    bag = {"0": {"ItemId": ITEM, "Quantity": 1, "BagId": outer}}
    hero = world.add_player(Name=FORMER, UserId=person["_id"], Inventory=bag)["_id"]
    world.add_player(Name=DELETED, UserId=person["_id"])
    stranger = world.add_player(Name="Stranger")
    colleague = world.add_user(Name="Colleague")
    give = {"itemid": ITEM, "quantity": 2}

    staff(f"POST users/{NAME}/manage/email/change", {"new": MAIL})
    staff(f"POST players/{FORMER}/name", {"Name": HERO}, X_Reason=f"{FORMER} asked")
    gift = {"Idempotency_Key": f"gift of {NAME}", "X_Request_ID": f"{NAME}-1"}
    staff(f"POST players/{HERO}/items/give", give, X_Reason=f"for {NAME} and {HERO}", **gift)
    own("POST players/Stranger/items/give", give, X_Reason="from me")
    for reason in (f"{HERO.upper()} gave it; ask {MAIL}", f"{FORMER} again"):
        staff("POST players/Stranger/items/give", give, X_Reason=reason)
    staff(f"POST players/{HERO}/notes", {"Text": f"{NAME} is kind"})
    staff(f"POST users/{NAME}/notes", {"Text": f"{MAIL} bounces"})
    own("POST players/Stranger/notes", {"Text": "a stranger"})
    own("POST users/Colleague/notes", {"Text": "a colleague"})
    own("POST users/Colleague/admin/mute", {"duration": 5, "reason": "loud"})
    insult = {"duration": 5, "moderator": NAME.upper(), "reason": f"insulted {HERO}"}
    staff("POST users/Colleague/admin/ban", insult, X_Reason="see ticket")
    staff("POST users/Colleague/notes", {"Text": f"{HERO} says so; {MAIL}, {FORMER_MAIL}"})
    # A note whose entry is no longer in history.
    db.history.delete_one({"Operation": "note", "By.UserId": person["_id"]})
    near = {"Near": [f"{HERO} and others"], "By": {"Name": NAME}}
    near["Seen"] = {HERO: 3, f"by {NAME}": 2, NAME: 1}
    with playing(db, lambda _: {"Result": near}):
        staff(f"POST players/{HERO}/admin/kick", X_Reason=f"{NAME} asked for it")
        staff(f"POST chat/direct/{HERO}", {"Message": "Be kind."})
        staff("POST chat/global", {"Message": f"Thank {HERO}, all.", "Target": NAME})
        own("POST chat/global", {"Message": "Hi."}, Idempotency_Key=f"{NAME}s word")
    at = datetime.now(timezone.utc).isoformat()
    told = [("loot", hero, "by himself"), ("death", stranger["_id"], f"killed by {HERO}")]
    events = [
        {"Id": f"{kind}-1", "Player": id_, "At": at, "Kind": kind, "Text": text}
        for kind, id_, text in told
    ]
    staff("POST game/events", {"Events": events})
    item = {"Operation": "give", "ItemId": ITEM, "Quantity": 1}
    rows = [{"Player": name, **item} for name in (HERO, NAME, "Stranger")]
    rows.append({"Operation": "undo", "Id": HERO})
    gifts = {"Name": f"Gifts for {HERO}", "Reason": f"{NAME} won", "Rows": rows}
    batch = staff("POST batches", gifts, Idempotency_Key=f"{NAME}s gifts").json
    own("POST batches", {"Name": "mine", "Rows": rows[2:3]})
    staff(f"POST batches/{batch['Id']}/advance")
    staff("POST batches", {"Undo": {"By": NAME}})
    key = {"Name": f"{NAME}s tool", "Scopes": ["players.read"], "Addresses": [ADDRESS]}
    own("POST keys", key)
    staff(f"DELETE players/{DELETED}")
    return person["_id"], headers, {"stranger": stranger["_id"], "colleague": colleague["_id"]}


def settle(db):
    """Let the time be over in which a worker may take the person for a caller."""
    past = datetime.now(timezone.utc) - timedelta(seconds=40)
    db.erasures.update_many({"FinishedAt": None}, {"$set": {"FencedAt": past}})


def found_in(db, strings=STRINGS):
    """Return where in a database any of these strings is stored, in any case."""
    wanted = [text.casefold() for text in strings]
    found = []
    for name in db.list_collection_names():
        for document in db[name].find():
            text = repr(document).casefold()
            found += [(name, document["_id"], text_) for text_ in wanted if text_ in text]
    return found


def said_in(text, strings=STRINGS):
    folded = text.casefold()
    return [wanted for wanted in strings if wanted.casefold() in folded]

"""A person whose name and addresses are known strings, to be searched for after an erasure."""

from copy import deepcopy
from datetime import datetime, timedelta, timezone

from app.core.permissions import Role
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
    person = world.add_user("secret", (Role.API, Role.USERS_QUERY), Name=NAME, Email=FORMER_MAIL)
    staff = world.headers(Role.API, Role.USERS_QUERY, Role.USERS_MANAGE)
    own = world.headers(user=person)
    inner, outer = make_bag(), guid()
    world.db.bags.insert_one(inner)
    world.db.bags.insert_one(
        make_bag({"0": {"ItemId": ITEM, "Quantity": 1, "BagId": inner["_id"]}}, _id=outer)
    )
    bag = {"0": {"ItemId": ITEM, "Quantity": 1, "BagId": outer}}
    world.add_player(Name=FORMER, UserId=person["_id"], Inventory=bag)
    world.add_player(Name=DELETED, UserId=person["_id"])
    stranger = world.add_player(Name="Stranger")
    colleague = world.add_user(Name="Colleague")
    give = {"itemid": ITEM, "quantity": 2}

    def post(path, headers, body=None, reason=None):
        more = {"X-Reason": reason} if reason else {}
        answer = client.post(path, json=body, headers={**headers, **more})
        assert answer.status_code == 200, (path, answer.data)
        return answer.json

    post(f"/api/v1/users/{NAME}/manage/email/change", staff, {"new": MAIL})
    post(f"/api/v1/players/{FORMER}/name", staff, {"Name": HERO}, f"{FORMER} asked")
    post(f"/api/v1/players/{HERO}/items/give", staff, give, f"for {NAME} and {HERO}")
    post("/api/v1/players/Stranger/items/give", own, give, "from me")
    post("/api/v1/players/Stranger/items/give", staff, give, f"{HERO.upper()} gave it; ask {MAIL}")
    post("/api/v1/players/Stranger/items/give", staff, give, f"{FORMER} again")
    post(f"/api/v1/players/{HERO}/notes", staff, {"Text": f"{NAME} is kind"})
    post(f"/api/v1/users/{NAME}/notes", staff, {"Text": f"{MAIL} bounces"})
    post("/api/v1/players/Stranger/notes", own, {"Text": "a stranger"})
    post("/api/v1/users/Colleague/notes", own, {"Text": "a colleague"})
    post("/api/v1/users/Colleague/admin/mute", own, {"duration": 5, "reason": "loud"})
    insult = {"duration": 5, "moderator": NAME.upper(), "reason": f"insulted {HERO}"}
    post("/api/v1/users/Colleague/admin/ban", staff, insult, "see ticket")
    post("/api/v1/users/Colleague/notes", staff, {"Text": f"{HERO} says so; {MAIL}, {FORMER_MAIL}"})
    headers = {"Idempotency-Key": f"gift of {NAME}", "X-Request-ID": f"{NAME}-1"}
    post(f"/api/v1/players/{HERO}/items/give", {**staff, **headers}, give)
    # A note whose entry is no longer in history.
    entry = world.db.history.find_one({"Operation": "note", "By.UserId": person["_id"]})
    if entry:
        world.db.history.delete_one({"_id": entry["_id"]})
    near = {"Near": [f"{HERO} and others"], "By": {"Name": NAME}}
    near["Seen"] = {HERO: 3, f"by {NAME}": 2, NAME: 1}
    with playing(world.db, lambda _: {"Result": near}):
        post(f"/api/v1/players/{HERO}/admin/kick", staff, None, f"{NAME} asked for it")
        post(f"/api/v1/chat/direct/{HERO}", staff, {"Message": "Be kind."})
        post("/api/v1/chat/global", staff, {"Message": f"Thank {HERO}, all.", "Target": NAME})
        post("/api/v1/chat/global", {**own, "Idempotency-Key": f"{NAME}s word"}, {"Message": "Hi."})
    hero = world.db.players.find_one({"Name": HERO})["_id"]
    at = datetime.now(timezone.utc).isoformat()
    told = [("loot", hero, "by himself"), ("death", stranger["_id"], f"killed by {HERO}")]
    events = [
        {"Id": f"{kind}-1", "Player": id_, "At": at, "Kind": kind, "Text": text}
        for kind, id_, text in told
    ]
    post("/api/v1/game/events", staff, {"Events": events})
    rows = [{"Player": name, "Operation": "give", **GIFT} for name in (HERO, NAME, "Stranger")]
    rows.append({"Operation": "undo", "Id": HERO})
    gifts = {"Name": f"Gifts for {HERO}", "Reason": f"{NAME} won", "Rows": rows}
    batch = post("/api/v1/batches", {**staff, "Idempotency-Key": f"{NAME}s gifts"}, gifts)
    post("/api/v1/batches", own, {"Name": "mine", "Rows": rows[2:3]})
    post(f"/api/v1/batches/{batch['Id']}/advance", staff)
    post("/api/v1/batches", staff, {"Undo": {"By": NAME}})
    key = {"Name": f"{NAME}s tool", "Scopes": ["players.read"], "Addresses": [ADDRESS]}
    post("/api/v1/keys", own, key)
    deleted = client.delete(f"/api/v1/players/{DELETED}", headers=staff)
    assert deleted.status_code == 200
    return person["_id"], staff, {"stranger": stranger["_id"], "colleague": colleague["_id"]}


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

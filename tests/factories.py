"""Records as tests need them: complete, and different only where the test says so."""

import hashlib
import time
import uuid
from datetime import datetime, timedelta, timezone

from app.auth.api_keys import digest_of, new_secret
from app.auth.tokens import AccessTokens
from app.batches.domain import row_id
from app.core.naming import name_key, named_document
from app.core.permissions import FLAGS, SCOPES, Role, permissions_of_scopes
from app.players import domain as players
from app.storage.client import Storage
from app.storage.search_fields import history_document
from app.users import domain as users
from app.users.oauth.store import RefreshTokens
from app.users.passwords import Passwords
from tests.applications import service

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
ITEM = str(uuid.UUID(int=1, version=4))


def sha256(password):
    return hashlib.sha256(password.encode()).hexdigest()


def guid():
    return str(uuid.uuid4())


def moment(text):
    """Return the time in an answer. As text, it does not sort: a whole second has no fraction."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def numbered_guid(number):
    """Return the same GUID in every process, for what becomes part of a test's id."""
    return str(uuid.UUID(int=number, version=4))


def make_player(**overrides):
    """Return a player document; overrides are fields of its record."""
    record = {"Id": guid(), "Name": f"Player {guid()[:8]}", "UserId": guid()}
    return named_document({**players.defaults(NOW), **record, **overrides})


def make_user(password_hash=None, roles=(), **overrides):
    """Return a user document; overrides are fields of its record."""
    name = overrides.pop("Name", f"user{guid()[:8]}")
    email = overrides.pop("Email", f"{name}@example.com")
    user = users.new_account(guid(), name, email, password_hash, NOW)
    user["Power"] |= {FLAGS[role]: True for role in roles}
    return {**user, **overrides}


def make_key(secret, scopes=tuple(SCOPES), **overrides):
    """Return what is stored of a key of an account, made with these scopes."""
    expires = overrides.pop("ExpiresAt", datetime.now(timezone.utc) + timedelta(days=1))
    secrets = [{"Digest": digest_of(secret), "EndsAt": expires}]
    key = {"Name": "shop", "Scopes": permissions_of_scopes(scopes), "CreatedAt": NOW}
    return {**key, "ExpiresAt": expires, "Secrets": secrets, **overrides}


def with_keys(user, **keys):
    """Return an account with these keys by id."""
    digests = [secret["Digest"] for key in keys.values() for secret in key["Secrets"]]
    return {**user, "Keys": keys, "KeyDigests": digests}


def make_factor(secret=None, cipher=None, codes=()):
    """Return what is stored of a second factor; without a cipher, codes of its app fail."""
    sealed = cipher.seal("SecondFactor", secret) if cipher else "sealed"
    digests = [sha256(code.replace("-", "")) for code in codes]
    return {"Secret": sealed, "LastStep": 0, "RecoveryCodes": digests, "Since": NOW}


def make_event(player_id, item, **fields):
    """Return an event of the game by which a player has lost an item a minute ago."""
    return {
        **{"_id": guid(), "Player": player_id, "Kind": "drop"},
        "At": datetime.now(timezone.utc).replace(microsecond=0) - timedelta(minutes=1),
        **{"Items": [{"ItemId": item, "Quantity": -1}], "ExpiresAt": None},
        **fields,
    }


def make_guild(name="The Lanterns", **overrides):
    """Return a guild as a game stores it."""
    named = {"_id": guid(), "Name": name, "NameKey": name_key(name), "FoundingDate": NOW}
    return {**named, **overrides}


def make_role(name, *permissions, **overrides):
    """Return what is stored of a named role of staff."""
    role = {"_id": name, "Name": name, "Permissions": [*permissions], "Version": 0}
    return {**role, **overrides}


def make_bag(slots=None, size=3, **overrides):
    bag = {"_id": guid(), "SlotCount": size, "Slots": slots or {}, "Version": 0}
    return {**bag, **overrides}


def make_object(**overrides):
    """Return an object of the catalogue; overrides are fields of its record."""
    record = {"Id": guid(), "Type": "item", "Name": "Arrow"}
    return named_document({**record, **overrides})


def make_entry(subject, kind="player", **overrides):
    """Return an entry as it is stored in history."""
    version = overrides.pop("Version", 1)
    entry = {
        "_id": f"{kind}:{subject['_id']}:{version}",
        "At": NOW,
        "Subject": {"Kind": kind, "Id": subject["_id"], "Name": subject.get("Name")},
        "Operation": "give",
        "By": {"UserId": None, "Name": "tester"},
        "Via": "api",
        "RequestId": None,
        "Reason": None,
        "Arguments": {},
        "Changes": [],
        "Version": version,
    }
    return history_document({**entry, **overrides}, None)


def make_approval(player, author, **overrides):
    """Return a request for approval as it is stored: a gift for a player."""
    item = overrides.pop("ItemId", "11111111-0000-4000-8000-000000000000")
    now = datetime.now(timezone.utc)
    return {
        **{"_id": guid(), "At": now, "EndsAt": now + timedelta(days=7), "State": "waiting"},
        **{"Operation": "give", "Via": "api", "Reason": "Lost.", "Plan": [], "PlanNumber": 1},
        "Arguments": {"itemid": item, "quantity": 1, "bankoverflow": False},
        "Subject": {"Kind": "player", "Id": player["_id"], "Name": player["Name"]},
        "By": {"UserId": author["_id"], "Name": author["Name"]},
        **overrides,
    }


def make_batch(**overrides):
    """Return a batch of one row as it is stored."""
    is_done = overrides.get("State") == "done"
    return {
        **{"_id": guid(), "Name": "Gifts", "Reason": None, "At": NOW},
        **{"By": {"UserId": guid(), "Name": "clerk"}, "Via": "api", "State": "planned", "Rows": 1},
        "Counts": {"Ready": int(not is_done), "Done": int(is_done), "Refused": 0, "Replanned": 0},
        **{"Needs": [], "Summary": []},
        **overrides,
    }


def make_batch_row(player, batch_id, number=1, **overrides):
    """Return a row of a batch as it is stored: a gift for a player."""
    item = overrides.pop("ItemId", "11111111-0000-4000-8000-000000000000")
    return {
        **{"_id": row_id(batch_id, number), "Batch": batch_id, "Player": player["Name"]},
        "Subject": {"Kind": "player", "Id": player["_id"], "Name": player["Name"]},
        "Operation": "give",
        "Arguments": {"itemid": item, "quantity": 1, "bankoverflow": False},
        **{"Verdict": "ready", "Why": None, "Version": 0, "Replanned": False},
        **overrides,
    }


def add_batch(db, batch_id, player, **fields):
    """Store a batch of one row, which is ready, or done if the batch is."""
    batch = make_batch(_id=batch_id, **fields)
    is_done = batch["State"] == "done"
    db.batches.insert_one(batch)
    row = make_batch_row(player, batch_id, Verdict="done" if is_done else "ready")
    db.batch_rows.insert_one(row)


def gift(player, quantity=5, operation="give", item=ITEM):
    """Return a row of a batch as it is sent: a gift for a player, given by name or id."""
    return {"Player": player, "Operation": operation, "ItemId": item, "Quantity": quantity}


def held(db, item=ITEM, **where):
    """Return how many of an item players have in their inventories."""
    slots = [slot for player in db.players.find(where) for slot in player["Inventory"].values()]
    return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == item)


class World:
    """Adds what a test needs to the application's database."""

    def __init__(self, app):
        self._app = app
        self.db = service(self._app, Storage).db

    def add_player(self, **overrides):
        player = make_player(**overrides)
        self.db.players.insert_one(player)
        return player

    def add_object(self, **overrides):
        document = make_object(**overrides)
        self.db.objects.insert_one(document)
        return document

    def add_user(self, password=None, roles=(), **overrides):
        stored = service(self._app, Passwords).hash(sha256(password)) if password else None
        user = make_user(stored, roles, **overrides)
        self.db.users.insert_one(user)
        return user

    def key_headers(self, *scopes, roles=tuple(Role), **overrides):
        """Create a key with these scopes, all of them unless said, of somebody with these roles."""
        secret, key_id = new_secret(), guid()
        key = make_key(secret, scopes or tuple(SCOPES), **overrides)
        user = with_keys(make_user(roles=roles), **{key_id: key})
        # Some tests store what the validator refuses, as an older database may hold it.
        self.db.users.insert_one(user, bypass_document_validation=True)
        return {"Authorization": f"Bearer {secret}"}

    def headers(self, *roles, user=None):
        """Sign in as somebody with these roles, in short."""
        user = user or self.add_user(roles=roles or (Role.API,))
        issued = service(self._app, RefreshTokens).issue(user["_id"], user["PasswordVersion"])
        token = service(self._app, AccessTokens).issue(user["_id"], issued.chain, int(time.time()))
        return {"Authorization": f"Bearer {token}"}

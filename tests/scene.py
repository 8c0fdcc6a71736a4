"""One of everything that the tables of doors lead to, in the API and in the console."""

import hashlib
from datetime import datetime, timedelta, timezone

from app.core.permissions import Role
from tests.endpoint_table import (
    ACTION,
    APPROVAL,
    BAG,
    BATCH,
    CODE,
    ENDED_BATCH,
    ENTRY,
    EVENT,
    GUILD,
    INVITED,
    ITEM,
    LETTER,
    OTHER_PLAYER,
    OWN_APPROVAL,
    PLAYER,
    RUNNING_BATCH,
    SIGN_IN,
    SPELL,
    TOKEN,
    USER,
    VARIABLE,
    catalogue,
)
from tests.factories import (
    add_batch,
    make_approval,
    make_bag,
    make_batch_row,
    make_entry,
    make_event,
    make_factor,
    make_guild,
    make_player,
    make_role,
    make_user,
)
from tests.game import make_action

# What a request of the tables may change.
COLLECTIONS = (
    *("users", "players", "bags", "objects", "history", "actions", "batches", "batch_rows"),
    *("batch_parts", "deleted_players", "erasures", "refresh_tokens", "guilds", "roles"),
    *("approvals", "game_events"),
)
# A role that allows nothing: Power alone does not ask for approval.
ASKER = "asker"
STATES = {BATCH: "planned", RUNNING_BATCH: "running", ENDED_BATCH: "done"}


def refresh_token(owner, token, sign_in):
    """Return what is stored of a refresh token that nobody has used."""
    expires = datetime.now(timezone.utc) + timedelta(hours=1)
    hashed = hashlib.sha256(token.encode()).hexdigest()
    owned = {"Chain": sign_in, "UserId": owner["_id"], "PasswordVersion": owner["PasswordVersion"]}
    return {"_id": hashed, **owned, "Used": False, "ExpiresAt": expires}


def set_scene(db, password_hash, kept=None):
    """Store the scene anew; only a user of the kept name, and what belongs to it, stays."""
    stays = db.users.find_one({"Name": kept}) if kept else None
    for name in COLLECTIONS:
        db[name].delete_many(
            {"UserId": {"$ne": stays["_id"]}, "Name": {"$ne": kept}} if kept else {}
        )
    expires = datetime.now(timezone.utc) + timedelta(hours=1)
    reset = {"Code": CODE, "ExpiresAt": expires, "Failures": 0}
    user = make_user(password_hash, Name=USER, Reset=reset, SecondFactor=make_factor())
    held = {"0": {"ItemId": ITEM, "Quantity": 5}}
    player = make_player(
        **{"Id": ENTRY.split(":")[1], "Name": PLAYER, "UserId": user["_id"], "Inventory": held},
        **{"Spells": {"0": SPELL}, "Variables": {VARIABLE: 7}},
    )
    player |= {"Version": 1}
    given = {"Path": "Inventory.0", "Before": None, "After": held["0"]}
    keyed = {"IdempotencyKey": f"batch {ENDED_BATCH}:000001"}
    db.users.insert_many([user, make_user(Name=INVITED, Roles=["viewer"])])
    db.players.insert_many([player, make_player(Name=OTHER_PLAYER, UserId=user["_id"])])
    db.history.insert_one(make_entry(player, _id=ENTRY, Changes=[given], **keyed))
    db.bags.insert_one(make_bag(_id=BAG))
    db.objects.insert_many(catalogue())
    db.guilds.insert_one(make_guild(_id=GUILD))
    db.game_events.insert_one(make_event(player["_id"], ITEM, _id=EVENT))
    letter = {"Kind": "letter", "Arguments": {"Message": "Hello.", "Items": []}}
    db.actions.insert_many([make_action(_id=ACTION), make_action(_id=LETTER, **letter)])
    db.refresh_tokens.insert_one(refresh_token(user, TOKEN, SIGN_IN))
    db.roles.insert_one(make_role(ASKER))
    asker = make_user(roles=(Role.API,), Name="Asker", Roles=[ASKER])
    db.users.insert_one(asker)
    more = {**given, "Before": held["0"], "After": {"ItemId": ITEM, "Quantity": 6}}
    for id_, author in ((APPROVAL, asker), (OWN_APPROVAL, stays or asker)):
        db.approvals.insert_one(make_approval(player, author, _id=id_, ItemId=ITEM, Plan=[more]))
    for batch_id, state in STATES.items():
        add_batch(db, batch_id, player, State=state)
    refused = {"Verdict": "refused", "Why": "The inventory has no room."}
    db.batch_rows.insert_one(make_batch_row(player, ENDED_BATCH, 2, **refused))
    db.batches.update_one({"_id": ENDED_BATCH}, {"$set": {"Rows": 2, "Counts.Refused": 1}})


FOUND = ("users", "players", "bags", "objects", "history", "batches", "actions", "batch_rows")


def contents(db, names=FOUND):
    """Return what is stored, but for when keys were used, which changes with each minute."""
    found = {name: list(db[name].find(sort=[("_id", 1)])) for name in names}
    for user in found["users"]:
        for key in user.get("Keys", {}).values():
            key.pop("LastUsedAt", None)
    return found

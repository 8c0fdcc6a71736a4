"""make screenshots: pictures of the console for docs/console, from a demo world of their own."""

import base64
import io
import math
import random
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from pathlib import Path

from PIL import Image
from pymongo import UpdateOne

from app.core.metrics import REQUEST_BUCKETS
from app.game.samples import INTERVAL, KEPT, MICROSECONDS, interval_of
from app.http.examples import PLAYER_ID
from app.maintenance.demo.catalogue import ITEM_IDS, guid
from tests import mongod
from tests.factories import make_factor, sha256
from tests.ports import free_port
from tests.system import chromium
from tests.system.console import DARK, NARROW, Api, Console, Demo, session_cookie
from tests.system.programs import serving

FOLDER = Path(__file__).parents[2] / "docs" / "console"
DATABASE = "screenshots"
SETTINGS = {"GAME_NAME": "Northlands", "ENVIRONMENT_NAME": "staging", "ENVIRONMENT_COLOUR": "blue"}
PLAYER = f"players/{PLAYER_ID}"
SUPPORT, WARNED = "support", Demo("user", 12)
# Colleagues, with their roles. The first one asks for approval.
TEAM = {"rosa": "support", "lin": "senior-support", "kim": "event-team", "noor": "moderator"}
EVENTS = ("players.read", "history.read", "items.move", "notes.write", "undo.own", "batches.plan")
# How many of a hundred requests took at most so long, for each bucket.
SHARES = (8, 46, 27, 11, 5, 2, 1)
# How often each operation is used, among a hundred.
OPERATIONS = {"give": 46, "set-variable": 21, "take": 14, "teach": 9, "note": 6, "undo": 4}


def main():
    if not (chromium.BROWSER and chromium.DRIVER):
        sys.exit(chromium.MISSING)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, mongod.shared(free_port()) as uri:
        database = {"MONGODB_URI": uri, "MONGODB_DATABASE": DATABASE}
        with (
            serving(folder, "--demo", "--workers", "1", **SETTINGS, **database) as server,
            chromium.running() as browser,
        ):
            server.db.samples.bulk_write(day_of_samples(datetime.now(timezone.utc)))
            server.add_account(SUPPORT, "api")
            play(Api(server), Api(server, SUPPORT, "secret"))
            asked = work_as_team(server)
            pages = {"approval": f"/approvals/{asked}", "letter": f"/game/{send_letter(server)}"}
            pages["batch"] = f"/batches/{plan_batch(Api(server, SUPPORT, 'secret'))}"
            take_pictures(Console(browser, server, session_cookie(server.base)), pages)


def day_of_samples(now):
    """Return what a lively server would have counted over a day: quiet at first, busy later on."""
    rng = random.Random(8)
    return [
        sample_at(interval_of(now) - (288 - number) * INTERVAL, number / 288, rng)
        for number in range(289)
    ]


def sample_at(at, part, rng):
    """Return the update that makes the sample of an interval, after this part of the day."""
    busy = 0.5 + 0.5 * math.cos(2 * math.pi * (part - 0.7))
    online = round(8 + 44 * busy + rng.gauss(0, 1))
    requests = online * (28 + rng.gauss(0, 2.5))
    parts = [max(0, share + rng.gauss(0, share / 12)) for share in SHARES]
    within = {
        str(round(bound * MICROSECONDS)): round(requests * part / sum(parts))
        for bound, part in zip(REQUEST_BUCKETS, accumulate(parts), strict=False)
    }
    changes = {name: round(busy * part / 8 * rng.random()) for name, part in OPERATIONS.items()}
    counted = {
        "ExpiresAt": at + KEPT,
        "Online": online,
        "Requests": max(within.values()),
        "Failures": rng.choice((0, 0, 0, 0, 1, 3)),
        "Within": within,
        "Changes": {name: count for name, count in changes.items() if count},
    }
    # The service has begun the present one.
    return UpdateOne({"_id": at}, {"$set": counted}, upsert=True)


def play(manager, support):
    """Do what a day brings, so that there is something to see."""
    others = [Demo("player", number) for number in (3, 5, 23, 53)]
    item = {name: guid("item", name) for name in ("Silver Ring", "Perfect Healing Draught")}
    gives = [
        (others[0], ITEM_IDS["Coin"], 250, "Winner of the fishing contest"),
        (others[1], item["Silver Ring"], 1, "Bought in the shop, order 10388"),
        (others[2], ITEM_IDS["Arrow"], 500, "Quest “The broken oath” did not pay"),
        (others[3], item["Perfect Healing Draught"], 3, "Lost in the crash of Saturday"),
    ]
    for player, itemid, quantity, why in gives:
        path = f"players/{player.id}/items/give"
        support.post(path, because=why, itemid=itemid, quantity=quantity)
    reputation = f"players/{others[0].id}/variables/{guid('variable', 'Reputation')}"
    support.post(reputation, because="Counted twice", value=51)
    manager.post(
        f"users/{WARNED.id}/admin/ban", duration=30, reason="Selling gold again, ticket 4802."
    )
    wrong = {"itemid": ITEM_IDS["Iron Sword"], "quantity": 10}
    support.post(f"{PLAYER}/items/give", because="Ticket 4711", **wrong)
    (entry,) = manager.get("history", player=PLAYER_ID)["Values"]
    manager.post(f"history/{entry['Id']}/undo", because="One sword, not ten")
    support.post(f"{PLAYER}/items/give", because="Ticket 4711", **{**wrong, "quantity": 1})
    coin = {"ItemsPerDay": 5000, "LargestQuantity": 500, "Items": [ITEM_IDS["Coin"]]}
    reads = ["players.read", "players.change"]
    manager.post("keys", Name="shop", Scopes=reads, Budget=coin, Addresses=["203.0.113.0/24"])
    manager.post("keys", Name="web site", Scopes=["players.read", "users.change"])
    support.post(f"{PLAYER}/notes", Text="Lost a sword in the crash of Saturday; given back.")


def work_as_team(server):
    """Invite colleagues, who work a week; return the id of a request that waits for approval."""
    manager = Api(server)
    limits = {"LargestQuantity": 500, "ItemsPerDay": 5000, "RowsPerBatch": 200}
    manager.post("roles", Name="event-team", Permissions=EVENTS, Limits=limits)
    for name, role in TEAM.items():
        account = {"username": name, "password": sha256("secret"), "email": f"{name}@example.com"}
        manager.post("users/register", **account)
        manager.put(f"staff/{name}/roles", Roles=[role])
    manager.put("staff/demo/roles", Roles=["senior-support"])
    manager.post("staff", Name="ines", Email="ines@example.com", Roles=["support"])
    manager.post("staff/noor/disable", because="Has left the team")
    coin = {"itemid": ITEM_IDS["Coin"]}
    for name, quantity in (("rosa", 60), ("lin", 2000), ("kim", 450)):
        path = f"players/{Demo('player', 31).id}/items/give"
        Api(server, name, "secret").post(
            path, because="Harvest festival", quantity=quantity, **coin
        )
    wanted = {"Operation": "give", "Subject": PLAYER_ID, "Arguments": {**coin, "quantity": 250}}
    why = "Ticket 4810: the shop took the coins and gave no armour."
    asked = Api(server, "rosa", "secret").post("approvals", Reason=why, **wanted)
    now = datetime.now(timezone.utc)
    for name, days in {"rosa": 1, "lin": 0, "noor": 74}.items():
        seen = {"LastSignInAt": now - timedelta(days=days), "SecondFactor": make_factor()}
        server.db.users.update_one({"Name": name}, {"$set": seen})
    return asked["Id"]


def send_letter(server):
    """Return the id of a letter that waits until its player is online."""
    text = "The shop took your coins twice. Here they are, with our apologies."
    items = [{"ItemId": ITEM_IDS["Coin"], "Quantity": 250}]
    path = f"{PLAYER}/letters"
    return Api(server).post(path, because="Ticket 4810", Message=text, Items=items)["Id"]


def plan_batch(support):
    """Plan gifts, some of which are refused; return the id of the batch."""
    names = [Demo("player", number).name for number in range(1, 41)]
    rows = [
        {"Player": name, "Operation": "give", "ItemId": ITEM_IDS["Coin"], "Quantity": 100}
        for name in (*names[:2], "Aldaric", *names[2:], "Bregan the Bold")
    ]
    sword = {"ItemId": ITEM_IDS["Iron Sword"], "Quantity": 40}
    rows.insert(4, {"Player": names[4], "Operation": "take", **sword})
    why = "The server was down on Saturday, ticket 4711."
    return support.post("batches", Name="Coins for Saturday", Reason=why, Rows=rows)["Id"]


def take_pictures(console, pages):
    console.command("Emulation.setScrollbarsHidden", hidden=True)
    for name, path in {
        "history": "/history",
        "health": "/health",
        "keys": "/keys",
        "staff": "/staff",
        "role": "/roles/event-team",
        "report": "/report",
        "second-factor": "/second-factor",
        **pages,
    }.items():
        console.open(path)
        save(console, name)
    preview_gift(console)
    save(console, "player-light")
    console.look(NARROW, DARK)
    console.open(f"/{PLAYER}")
    save(console, "player-dark-narrow")


def preview_gift(console):
    """Show the page of a player after a change, and before the next one."""
    console.open(f"/{PLAYER}/spells")
    console.send("teach", spellid="Haste", reason="Prize of the harvest festival")
    entry = console.browser.current_url.partition("?")[2]
    console.open(f"/{PLAYER}?{entry}")
    console.fill("give", itemid="Rune", quantity="24", reason="Winner of the fishing contest")
    console.one(".slot.will")
    console.wait.until(lambda _: "250" in console.text("#preview-give"))


def save(console, name):
    """Write what is in sight; with a palette, a picture is a third as large."""
    png = base64.b64decode(console.command("Page.captureScreenshot", format="png")["data"])
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    path = FOLDER / f"{name}.png"
    # The other methods lose colours that few letters have.
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2).save(path, optimize=True)
    print(f"{path.relative_to(FOLDER.parents[1])}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()

"""Single faults at known moments, each of which was once answered wrongly."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pymongo.errors import BulkWriteError

from tests.factories import guid
from tests.system.chaos.clients import AGAIN, CACHED_SECONDS, MUCH, Answer, Caller, texts_of
from tests.system.chaos.ledger import MARK
from tests.system.chaos.machines import LIFETIME, TIMES
from tests.system.chaos.storm import ACCOUNTS

# For how long requests are sent again to the service that is cut off.
SPLIT_SECONDS = TIMES["electionTimeoutMillis"] / 1000 + 2
# How long a worker that was killed may block a player: 1.5 times the lifetime, and a little.
BLOCKED_SECONDS = 5.0
GIVERS, GIVES, GIVEN_PLAYERS = 8, 1000, 50
ROWS, DAMAGED, LONG_LIFETIME = 200, 10, 60
FAULTS = ({"Inventory": "x"}, {"Level": "x", "Name": 5})


def behind_a_split(world):
    """What is acknowledged behind a split is so when it is healed, however often it was sent."""
    keeper, asker, first, second = (Caller(world, who) for who in ACCOUNTS)
    player, other, deleted = (one["_id"] for one in world.add_players(3))
    world.ledger.ruled.remove(deleted)
    item, wanted = guid(), {"Name": "a split", "Scopes": ["items.move", "players.read"]}
    key = keeper.ask("POST", "keys", wanted).body
    gift, much = ({"itemid": item, "quantity": quantity} for quantity in (1, MUCH))
    take = "POST", f"players/{player}/items/take", gift, guid()
    keeper.give_one(player, item)
    keeper.change("take", player, {(player, item): -1}, *take)
    states = {"approve": "done", "decline": "declined", "withdraw": "withdrawn"}
    ids = {verb: asker.ask_for_approval(other, item) for verb in states}
    ask = {"Operation": "give", "Subject": other, "Arguments": much, "Reason": "a split"}
    rows = {"Rows": [{"Operation": "give", "Player": other, "ItemId": item, "Quantity": 1}]}
    # Who asks for what; where to look afterwards, for which status, and for which text.
    asked = [
        (keeper, take, f"players/{player}", 200, ""),
        (keeper, ("DELETE", f"players/{deleted}", None, guid()), f"players/{deleted}", 404, ""),
        (keeper, ("POST", "batches", rows, guid()), "batches/{Id}", 200, ""),
        (asker, ("POST", "approvals", ask, guid()), "approvals/{Id}", 200, ""),
    ]
    for who, (verb, state) in zip((first, second, asker), states.items(), strict=True):
        body = {"Why": "Too much."} if verb == "decline" else {}
        path = f"approvals/{ids[verb]}"
        asked.append((who, ("POST", f"{path}/{verb}", body), path, 200, f"'State': '{state}'"))
    asked.append((keeper, ("DELETE", f"keys/{key['Id']}"), "keys", 200, ""))

    def insist(who, request, *_):
        """Send a request again and again to the service that is cut off."""
        answer, end = Answer(503), time.monotonic() + SPLIT_SECONDS
        while time.monotonic() < end and answer.status in AGAIN:
            answer = who.try_once(world.near, *request)
        return answer

    with ThreadPoolExecutor(len(asked)) as pool, world.split() as former:
        answers = [pool.submit(insist, *one) for one in asked]
        world.replicas.primary(than=former)
        # A colleague approves on the other side what is being approved on this one.
        second.try_once(world.far, "POST", f"approvals/{ids['approve']}/approve", {})
    world.settle()
    for (who, request, place, status, text), answer in zip(asked, answers, strict=True):
        for when in ("behind a split", "after it", "once more"):
            told = answer.result() if when == "behind a split" else who.ask(*request)
            found = who.ask("GET", place.replace("{Id}", str((told.body or {}).get("Id"))))
            # A colleague may have approved it, and a key that is revoked is not found again.
            is_so = found.status == status and text in str(found.body)
            if told.status == 200 or when != "behind a split":
                is_so = is_so and told.status in (200, 404, 409)
                keeper.expect(is_so, request[:2], when, told, found)
        keeper.expect(told.is_replayed or len(request) < 4, "repeated", request[:2], told)
    world.ledger.revoked.add(key["Id"])
    world.ledger.approvals |= {ids[verb]: (other, item, MUCH, states[verb]) for verb in states}
    time.sleep(CACHED_SECONDS)
    for service in world.services * 4:
        told = keeper.try_once(service, "GET", "players", token=key["Key"])
        gone = keeper.try_once(service, "GET", f"players/{deleted}")
        keeper.expect((told.status, gone.status) == (401, 404), "revoked, deleted", told, gone)


def stopped_before_its_first_command(world):
    """A worker lets its caller in, stands still before the body, and goes on after the erasure."""
    name, keeper = f"{MARK}{guid().replace('-', '')[:12]}", Caller(world)
    user, (player,), item = world.add_account(name), world.add_players(1), guid()
    world.ledger.ruled.remove(player["_id"])
    bodies = {f"players/{player['_id']}/notes": {"Text": name}}
    bodies[f"players/{player['_id']}/items/give"] = {"itemid": item, "quantity": 1}
    bodies |= texts_of(name, player, item)
    erased = threading.Event()

    def rest_follows(text):
        yield text[:5]
        erased.wait()
        yield text[5:]

    def send(path, body):
        connection, text = world.patient.connect(60), json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {world.tokens[name]}", "Content-Length": len(text)}
        headers["Content-Type"] = "application/json"
        connection.request("POST", f"/api/v1/{path}", rest_follows(text), headers)
        return connection.getresponse().status

    with ThreadPoolExecutor(len(bodies)) as pool:
        told = pool.map(send, bodies, bodies.values())
        time.sleep(1)
        (worker,) = world.patient.workers()
        os.kill(worker, signal.SIGSTOP)
        keeper.erase(name, user)
        erased.set()
        os.kill(worker, signal.SIGCONT)
    keeper.expect(200 not in (statuses := list(told)), "erased, and served", statuses)


def restored_under_a_follower(world):
    """Collections are dropped and restored while the service and its followers go on."""
    keeper, player, item = Caller(world), world.add_players(1)[0]["_id"], guid()
    keeper.give_one(player, item)
    # Without accounts, nobody could be let in meanwhile.
    everything = world.db.list_collections(filter={"name": {"$nin": ["users", "roles"]}})
    for found in everything:
        collection = world.db[found["name"]]
        documents, indexes = list(collection.find()), list(collection.list_indexes())
        collection.drop()
        world.db.command({"create": found["name"], **found["options"]})
        world.db.command({"createIndexes": found["name"], "indexes": indexes})
        # It goes on where nothing was, and where the service was faster, with a lease or a counter.
        with suppress(BulkWriteError, TypeError):
            collection.insert_many(documents, ordered=False, bypass_document_validation=True)
    world.near.command("db", "init")
    keeper.give_one(player, item)
    # While the log was away, followers were told so; they go on where they were.
    complaints = world.ledger.complaints
    complaints[:] = [one for one in complaints if "INVALID_CURSOR" not in one]


def damaged_players(world):
    """Each portion of a batch has a player that a game has damaged; the others get theirs."""
    keeper, item = Caller(world), guid()
    players = [player["_id"] for player in world.add_players(ROWS)]
    batch = keeper.plan([(player, item, 1) for player in players])
    damaged = players[::DAMAGED]
    for number, player in enumerate(damaged):
        # The one is refused by the rule, and the other by the validator, which a game went past.
        change = {"$set": FAULTS[number % 2]}
        world.db.players.update_one({"_id": player}, change, bypass_document_validation=True)
    world.ledger.ruled.difference_update(damaged)
    done = keeper.run_to_end(batch)
    intact = {number for number, player in enumerate(players, 1) if player not in damaged}
    keeper.expect(intact <= done, f"of {len(intact)} rows beside damaged players", len(done))
    # They are nobody's matter any more.
    world.db.players.delete_many({"_id": {"$in": damaged}})


def timed_out_in_mid_transaction(world):
    """A request ends in time though the primary stalls in it, and blocks nobody afterwards."""
    keeper, player, item = Caller(world), world.add_players(1)[0]["_id"], guid()
    body, path = {"itemid": item, "quantity": 1}, f"players/{player}/items/give"
    insert = "insert", {"namespace": f"{world.db.name}.history"}, 1.0
    for command, where, longest in (insert, ("commitTransaction", {}, BLOCKED_SECONDS)):
        with world.replicas.stalled(command, 12, **where):
            key, began = guid(), time.monotonic()
            told = keeper.try_once(world.near, "POST", path, body, key)
            waited, blocked = time.monotonic() - began, wait_of_a_write(world, player)
        how = f"stalled at {command}: {told.status} after {waited:.1f} s, blocked {blocked:.1f} s"
        world.say(how)
        keeper.expect(told.status == 503 and waited < 10 and blocked < longest, how)
        keeper.give_one(player, item, key=key)


def wait_of_a_write(world, player):
    """Return for how long a plain write of a game waits for a player."""
    began = time.monotonic()
    world.db.players.update_one({"_id": player}, {"$set": {"X": int(began)}})
    return time.monotonic() - began


def killed_amid_gives(world):
    """Workers are killed amid a thousand gives; nobody is blocked for long."""
    players, item, waits = [one["_id"] for one in world.add_players(GIVEN_PLAYERS)], guid(), []

    def give(_):
        giver = Caller(world)
        for number in range(GIVES // GIVERS):
            giver.give_one(players[number % len(players)], item)

    for _ in range(world.kills):
        with ThreadPoolExecutor(GIVERS) as pool:
            giving = pool.map(give, range(GIVERS))
            time.sleep(0.5)
            for service in world.services:
                service.kill_worker()
            waits += [wait_of_a_write(world, player) for player in players]
            list(giving)
    world.say(f"workers killed amid gives: a plain write waited at most {max(waits):.1f} s")
    Caller(world).expect(max(waits) < BLOCKED_SECONDS, "blocked after a kill", max(waits))


def long_lifetime(world):
    """What a kill costs where the lifetime of transactions is 60 s; this is only told."""
    keeper, player, item = Caller(world), world.add_players(1)[0]["_id"], guid()
    path, body, key = f"players/{player}/items/give", {"itemid": item, "quantity": 1}, guid()
    where = {"namespace": f"{world.db.name}.history"}
    world.replicas.set_lifetime(LONG_LIFETIME)
    with ThreadPoolExecutor(1) as pool, world.replicas.stalled("insert", 3, **where):
        pool.submit(keeper.try_once, world.near, "POST", path, body, key)
        time.sleep(1)
        for worker in world.near.workers():
            os.kill(worker, signal.SIGKILL)
    blocked = wait_of_a_write(world, player)
    world.replicas.set_lifetime(LIFETIME)
    world.say(f"a lifetime of {LONG_LIFETIME} s, and a kill: a plain write waited {blocked:.1f} s")
    keeper.give_one(player, item, key=key)

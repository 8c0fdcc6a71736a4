"""Clients as good tools are: a key for every change, and patience until it is answered for sure."""

import http.client
import json
import random
import threading
import time
from array import array
from collections import Counter, deque, namedtuple
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime, timezone
from urllib.parse import urljoin

from pymongo.errors import PyMongoError

from tests.factories import guid, make_player, sha256
from tests.system.chaos.ledger import DONE, MARK, REFUSED, Change
from tests.system.chaos.machines import LIFETIME

# What a request may take at most, and for how long it is repeated before the service is dead.
LATEST_SECONDS, PATIENCE_SECONDS, PAUSE_SECONDS = 15.0, 150.0, 0.1
BROKEN = 0
AGAIN = {BROKEN, 429, 503}
# How long a worker may go on with what it knows of a caller, and some time for a busy machine.
CACHED_SECONDS = 5.0 + 2.0
# What is too much to be given without a colleague.
MUCH = 150
# How often a client does what.
ACTS = {"give": 20, "take": 15, "move_shared": 10, "transfer": 10, "undo": 10, "decide": 5}
ACTS |= {"give_careless": 10, "repeat_some": 15, "delete": 4, "run_batch": 3, "erase_person": 2}
# What a caller was told; entry is the id in history.
Answer = namedtuple("Answer", "status body entry is_replayed retry_after", defaults=(None,) * 4)


class Caller(threading.Thread):
    """Sends requests to any of the services; some act in a thread, until they are to end."""

    def __init__(self, world, who="keeper"):
        super().__init__(daemon=True)
        self.world, self.ledger, self.token = world, world.ledger, world.tokens.get(who)
        self.slowest = 0.0
        self.rng, self.ending = random.Random(), threading.Event()

    def run(self):
        while not self.ending.wait(self.rng.uniform(0, PAUSE_SECONDS)):
            try:
                self.act()
            except Exception as error:  # Whatever it is, the storm has to tell of it, and goes on.
                self.expect(False, repr(error))

    def try_once(self, service, method, path, body=None, key=None, token=None, reason=None):
        """Send a request once; path is one of the API's, unless it begins with a slash."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        headers["Content-Type"] = "application/json"
        headers |= {"Idempotency-Key": key} if key else {}
        headers |= {"X-Reason": reason} if reason else {}
        body = None if body is None else json.dumps(body)
        began, answer = time.monotonic(), Answer(BROKEN)
        connection = service.connect(LATEST_SECONDS)
        with suppress(OSError, http.client.HTTPException), closing(connection):
            connection.request(method, urljoin("/api/v1/", path), body, headers)
            response = connection.getresponse()
            told, header = json.loads(response.read()), response.getheader
            names = ("X-History-Id", "Idempotency-Replayed", "Retry-After")
            answer = Answer(response.status, told, *map(header, names))
        self.slowest = max(self.slowest, time.monotonic() - began)
        return answer

    def ask(self, *request, **options):
        """Send a request, with the same key again and again, until its outcome is known."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.try_once(self.rng.choice(self.world.services), *request, **options)
            if answer.status not in AGAIN:
                self.expect(answer.status < 500, request, answer)
                return answer
            if answer.status != BROKEN:
                # It says when to try again, and why in a sentence.
                is_clear = str(answer.retry_after).isdigit() and answer.body["Message"][-1] == "."
                self.expect(is_clear, request, answer)
            if time.monotonic() > deadline:
                self.expect(False, request, f"not served in {PATIENCE_SECONDS} s")
                return answer
            time.sleep(min(float(answer.retry_after or 0.2), 2) * self.rng.uniform(0.3, 1))

    def expect(self, holds, *what):
        """Note what should not have been."""
        if not holds:
            self.ledger.complaints.append(str(what))

    def change(self, kind, subject, items, *request, expected=(), **options):
        """Make a change with a key, and note what came of it."""
        self.ledger.changes[request[3]] = change = Change(kind, subject, items, time.monotonic())
        answer = self.ask(*request, **options)
        change.ended = time.monotonic()
        if answer.status < 500 and answer.status not in AGAIN:
            change.outcome = DONE if answer.status == 200 else REFUSED
            self.expect(answer.status in (200, *expected), request, answer)
        return answer

    def repeat(self, request, entry):
        """Send again what was made: it is told to be the change that it is."""
        answer = self.ask(*request)
        is_same = (answer.status, answer.entry, answer.is_replayed) == (200, entry, "true")
        self.expect(is_same or answer.status in AGAIN, "repeated", answer, request, entry)

    def give_one(self, player, item, key=None, **options):
        body, path = {"itemid": item, "quantity": 1}, f"players/{player}/items/give"
        request = "POST", path, body, key or guid()
        return self.change("give", player, {(player, item): 1}, *request, **options)

    def post_twice(self, path, body):
        """Plan a batch or ask for approval, twice with one key; return the id of what it is."""
        key = guid()
        first, again = (self.ask("POST", path, body, key) for _ in range(2))
        is_same = again.body and again.body.get("Id") == first.body.get("Id") and again.is_replayed
        self.expect(is_same or again.status in AGAIN, "sent twice", path, first, again)
        return first.body["Id"]

    def plan(self, moves, path="batches", body=None):
        """Plan a batch that makes these moves; return its id."""
        names = "Player", "ItemId", "Quantity"
        rows = [{"Operation": "give", **dict(zip(names, move, strict=True))} for move in moves]
        id_ = self.post_twice(path, {"Rows": rows} if body is None else body)
        self.ledger.batches[id_] = moves, None
        return id_

    def run_to_end(self, batch):
        """Let the service run a batch to its end; return which rows were done."""
        self.ask("POST", f"batches/{batch}/run")
        state, deadline = "running", time.monotonic() + PATIENCE_SECONDS
        while state == "running" and time.monotonic() < deadline:
            time.sleep(0.2)
            state = self.ask("GET", f"batches/{batch}").body["State"]
        self.expect(state == "done", batch, state)
        done, after = set(), ""
        while after is not None:
            page = self.ask("GET", f"batches/{batch}/rows?pageSize=100&after={after}").body
            done |= {row["Row"] for row in page["Values"] if row["Verdict"] == "done"}
            after = page["Next"]
        self.ledger.batches[batch] = self.ledger.batches[batch][0], done
        return done

    def ask_for_approval(self, player, item):
        """Ask for approval of a gift; return the id of the request."""
        gift = {"itemid": item, "quantity": MUCH}
        body = {"Operation": "give", "Subject": player, "Arguments": gift, "Reason": "A storm."}
        id_ = self.post_twice("approvals", body)
        self.ledger.approvals[id_] = player, item, MUCH, None
        return id_

    def erase(self, name, user, *characters):
        erased = self.ask("POST", f"users/{user}/erase", {"Confirm": name}, guid())
        self.expect(erased.status in {200, *AGAIN}, "erase", erased)
        if erased.status == 200:
            self.ledger.erased[name] = [user, *characters]
            found = self.ask("GET", f"users/{user}")
            self.expect(found.status in {404, *AGAIN}, "erased, and served", found)


class Worker(Caller):
    """Does all that people and tools do. Nobody else has its items and its player."""

    def __init__(self, world):
        super().__init__(world)
        self._item, self._batch_item, self._player = guid(), guid(), world.add_players(1)[0]["_id"]
        self._held, self._recent = Counter(), deque(maxlen=30)
        self._asker, *self._others = [Caller(world, who) for who in ("asker", "first", "second")]

    def act(self):
        act = getattr(self, self.rng.choices([*ACTS], ACTS.values())[0])
        act(*self.rng.sample(self.world.players, 2))

    def give(self, player, _=None):
        answer = self._move("give", player, self.rng.randint(1, 9), self._item)
        if answer.status == 200:
            held = self._held[player, self._item]
            self.expect(answer.body["quantity"]["total"] == held, player, held, answer)
        return answer

    def take(self, player, _):
        held = self._held[player, self._item]
        quantity = self.rng.randint(1, held + 3)
        self._move("take", player, quantity, self._item, expected=(409,) if quantity > held else ())

    def move_shared(self, player, _):
        """Give or take what everybody gives and takes."""
        verb, item = self.rng.choice(("give", "take")), self.world.shared_item
        self._move(verb, player, self.rng.randint(1, 20), item, expected=(409,))

    def give_careless(self, *_):
        """Give to a player that a careless game overwrites: what it holds is no matter."""
        self.give_one(self.rng.choice(self.world.careless), self._item)

    def transfer(self, player, to):
        if held := self._held[player, self._item]:
            items = {(player, self._item): -held, (to, self._item): held}
            body = {"to": to, "itemid": self._item, "quantity": held}
            self._make("transfer", player, items, f"players/{player}/items/transfer", body)

    def undo(self, player, _):
        pair, held = (player, self._item), self._held[player, self._item]
        if entry := self.give(player).entry:
            self._make("undo", player, {pair: held - self._held[pair]}, f"history/{entry}/undo", {})

    def repeat_some(self, *_):
        if self._recent:
            self.repeat(*self.rng.choice(self._recent))

    def _move(self, verb, player, quantity, item, **options):
        items = {(player, item): quantity if verb == "give" else -quantity}
        path, body = f"players/{player}/items/{verb}", {"itemid": item, "quantity": quantity}
        return self._make(verb, player, items, path, body, **options)

    def _make(self, kind, player, items, path, body, **options):
        """Make a change of what players have, and keep it to be repeated."""
        request = "POST", path, body, guid()
        answer = self.change(kind, player, items, *request, **options)
        if answer.status == 200:
            self._recent.append((request, answer.entry))
            self._held.update(items)
        elif answer.status in AGAIN:
            # Nobody knows how much there is of the former one.
            self._item = guid()
        return answer

    def delete(self, *_):
        """Delete a player, repeat that, and bring the player back."""
        path = f"players/{self._player}"
        delete = "DELETE", path, None, guid()
        deleted = self.change("delete", self._player, {}, *delete)
        found = [self.try_once(service, "GET", path) for service in self.world.services]
        self.expect({one.status for one in found} <= {404, *AGAIN}, "deleted, and served", found)
        self.repeat(delete, deleted.entry)
        undo = "POST", f"history/{deleted.entry}/undo", {}, guid()
        self.repeat(undo, self.change("restore", self._player, {}, *undo).entry)

    def run_batch(self, *_):
        """Plan a batch, let it run, and perhaps undo it."""
        crowd, item = self.world.crowd, self._batch_item
        first = self.rng.randrange(len(crowd))
        players = (crowd[first:] + crowd[:first])[: self.world.rows]
        moves = [(player, item, self.rng.randint(1, 3)) for player in players]
        done = self.run_to_end(batch := self.plan(moves))
        if self.rng.random() < 0.3:
            undone = [(player, item, -quantity) for player, item, quantity in moves[::-1]]
            done = self.run_to_end(self.plan(undone, f"batches/{batch}/undo", {}))
        # Everybody has room for that, and nobody else takes it away.
        self.expect(len(done) == len(moves), batch, done)

    def decide(self, *_):
        """Ask for more than is allowed, and let two colleagues decide at once."""
        both, id_ = ("approve", "decline"), self._asker.ask_for_approval(self._player, self._item)
        verbs = self.rng.choice((both, both[:1] * 2, both[1:] * 2, ("withdraw",)))

        def decide(who, verb):
            body = {"Why": "Too much."} if verb == "decline" else {}
            return who.ask("POST", f"approvals/{id_}/{verb}", body)

        with ThreadPoolExecutor(2) as pool:
            told = [*pool.map(decide, self._others if len(verbs) > 1 else [self._asker], verbs)]
        states = {answer.body["State"] for answer in told if answer.status == 200}
        others = {answer.status for answer in told} - {200}
        is_fair = len(states) == 1 or (not states and others & AGAIN)
        self.expect(is_fair and others <= {409, *AGAIN}, verbs, told)
        self.ledger.approvals[id_] = self._player, self._item, MUCH, next(iter(states), None)

    def erase_person(self, *_):
        """Make a person with all that may belong to one, and erase it while others write of it."""
        name, item = f"{MARK}{guid().replace('-', '')[:12]}", guid()
        person = {"username": name, "email": f"{name}@example.com", "password": sha256(name)}
        self.ask("POST", "users/register", person)
        user = self.ask("GET", f"users/{name}").body["Id"]
        player = make_player(Name=f"{name} x", UserId=user)
        self.world.store(player)
        path, texts = f"players/{player['_id']}", texts_of(name, player, item)
        texts |= {f"{place}/notes": {"Text": f"{name} asked"} for place in (f"users/{user}", path)}
        texts[f"{path}/items/give"] = {"itemid": item, "quantity": 1}
        ways = [("DELETE", path, None), *(("POST", *text) for text in texts.items())]
        # No erasure masks anything before; what is planned later may keep the name.
        masks = time.monotonic() + 1.5 * LIFETIME

        def write(_):
            """Write of the person in all ways, in any order; whoever is erased may refuse it."""
            writer = Caller(self.world)
            for way in self.rng.sample(ways, len(ways)):
                told = writer.ask(*way, guid(), reason=name)
                if way[1] == "batches" and told.status == 200 and time.monotonic() > masks:
                    self.ledger.late.add(told.body["Id"])
                if way[0] == "DELETE" and told.status == 200:
                    writer.ask("POST", f"history/{told.entry}/undo", {}, guid(), reason=name)

        with ThreadPoolExecutor(4) as pool:
            writing = pool.map(write, range(4))
            time.sleep(self.rng.uniform(0, 0.3))
            self.erase(name, user, player["_id"])
            list(writing)


def texts_of(name, player, item):
    """Return a request for approval and a plan that name a person, by their paths."""
    row = {"Operation": "give", "Player": player["Name"], "ItemId": item, "Quantity": 1}
    asked = {"Operation": "give", "Subject": player["_id"], "Reason": name}
    asked["Arguments"] = {"itemid": item, "quantity": MUCH}
    return {"approvals": asked, "batches": {"Name": name, "Rows": [row]}}


class Follower(Caller):
    """A tool that follows the events: it must see each once, in the order of everybody."""

    def __init__(self, world):
        super().__init__(world)
        # Hashes, because a million ids would need much memory.
        self._after, self.seen = "", array("q")

    def act(self):
        path = "events?pageSize=100&after="
        while (page := self.ask("GET", path + self._after)).status == 200 and page.body["Values"]:
            self.seen.extend(hash(event["Id"]) for event in page.body["Values"])
            self._after = page.body["Next"]
        self.expect(page.status in {200, *AGAIN}, page)


class CarelessGame(threading.Thread):
    """Saves whole players as it has read them some time before, and sends heartbeats for all."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self._careless, self._all = world.careless, [*world.players, *world.careless]
        self.ending, self.saves, self._players = threading.Event(), 0, world.db.players

    def run(self):
        while not self.ending.is_set():
            with suppress(PyMongoError):
                player = self._players.find_one({"_id": random.choice(self._careless)})
                for id_ in random.sample(self._all, 5):
                    beat = {"X": random.randint(0, 99), "LastOnline": datetime.now(timezone.utc)}
                    self._players.update_one({"_id": id_}, {"$set": beat})
                self.ending.wait(random.uniform(0, 0.1))
                self._players.replace_one({"_id": player["_id"]}, player)
                self.saves += 1

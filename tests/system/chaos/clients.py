"""Clients as good tools are: a key for every change, and patience until it is answered for sure."""

import http.client
import json
import random
import threading
import time
from collections import Counter
from urllib.parse import quote

from tests.factories import guid
from tests.system.chaos.ledger import Ledger
from tests.system.programs import wait_until

# What a request may take at most: five seconds for the database, and as much again because the
# machine that runs servers, service and clients together is busy.
LATEST_SECONDS = 10.0
# For how long a client repeats one request before it calls the service dead.
PATIENCE_SECONDS = 90.0
AGAIN = (401, 429, 503)
JSON = {"Content-Type": "application/json"}
BROKEN = "broken connection"
# How often the events are polled.
FOLLOWING_SECONDS, PAGE_SIZE = 0.2, 100


class Client(threading.Thread):
    """Gives, takes, moves and reads without end, and notes whatever should not have been.

    It has an item of its own, so it knows at each moment how much of it a player must have.
    """

    latest_seconds = LATEST_SECONDS

    def __init__(self, number, service, players, pace, token=None):
        super().__init__(name=f"client {number}", daemon=True)
        self._service, self._players, self._pace = service, players, pace
        self._rng = random.Random(number)
        self._connection = service.connect(self.latest_seconds)
        self._token = token
        self._ending = threading.Event()
        # Whether the last request was answered with a final refusal, which changes nothing.
        self._is_refused = False
        self.item = guid()
        self.ledger = Ledger()
        self.answers, self.complaints = Counter(), []
        self.confirmed, self.slowest, self.outage = 0, 0.0, 0.0
        self.failed_sign_ins = 0

    def stop(self):
        """End after the request that is under way."""
        self._ending.set()

    def run(self):
        while not self._ending.wait(self._rng.uniform(0, 2 * self._pace)):
            self._act(self._rng.choice(self._players))
        self._connection.close()

    def _act(self, player):
        self._rng.choice((self._give, self._give, self._take, self._move, self._read))(player)

    def _give(self, player, quantity=None):
        quantity = quantity or self._rng.randint(1, 9)
        answer = self._write(player, self.item, "give", quantity)
        expected = self.ledger.held[player, self.item]
        if answer and answer["quantity"]["total"] != expected:
            self._complain(f"after a gift there are {answer['quantity']}, expected were {expected}")

    def _take(self, player, quantity=None):
        held = self.ledger.held[player, self.item]
        if held:
            quantity = quantity or self._rng.randint(1, held)
            self._write(player, self.item, "take", quantity)

    def _move(self, player):
        """Take from one and give to another, as a trade does."""
        if self.ledger.held[player, self.item]:
            self._take(player, 1)
            self._give(self._rng.choice(self._players), 1)

    def _read(self, player):
        self._until_answered("GET", f"/api/v1/players/{player}/items", None, {})

    def _write(self, player, item, operation, quantity):
        key, change = guid(), quantity if operation == "give" else -quantity
        began = time.monotonic()
        answer = self._until_answered(*self._request_of(player, item, operation, quantity, key))
        if answer:
            self.ledger.promise(player, item, change, began, time.monotonic(), key)
        elif not self._is_refused:
            self.ledger.doubt(player, item, change, key)
        return answer

    def _request_of(self, player, item, operation, quantity, key):
        body = json.dumps({"itemid": item, "quantity": quantity})
        headers = {"Idempotency-Key": key, **JSON}
        return "POST", f"/api/v1/players/{player}/items/{operation}", body, headers

    def _until_answered(self, *request):
        """Send a request, with the same key again and again, until its outcome is known."""
        began, self._is_refused = time.monotonic(), False
        for attempt in range(10_000):
            status, headers, body = self._attempt(*request)
            waited = time.monotonic() - began
            if status == 200:
                self.confirmed += 1
                self.outage = max(self.outage, waited if attempt else 0.0)
                return json.loads(body)
            if status not in (*AGAIN, BROKEN):
                # After an error of the server, nobody knows.
                self._is_refused = status < 500
                self._refused(request, status, body, began)
                return None
            if waited > PATIENCE_SECONDS:
                self._complain(f"{request[:2]} was not served in {waited:.0f} seconds")
                return None
            self._judge(status, headers, body)
            self._pause(status, headers)
        return None

    def _refused(self, request, status, body, began):
        """Note an answer that is final, and no success."""
        self._complain(f"{request[:2]} was answered with {status}: {body}")

    def _attempt(self, method, path, body, headers):
        began = time.monotonic()
        try:
            self._connection.request(method, path, body, {**headers, **self._credentials()})
            response = self._connection.getresponse()
            answer = response.status, response.headers, response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if isinstance(error, TimeoutError):
                self._complain(f"{method} {path} had no answer after {self.latest_seconds} seconds")
            answer = BROKEN, {}, b""
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.answers[answer[0]] += 1
        return answer

    def _credentials(self):
        return {"Authorization": f"Bearer {self._token}"}

    def _judge(self, status, headers, body):
        """See that a refusal says when to try again, and why in a sentence."""
        if status in (429, 503):
            if not headers.get("Retry-After", "").isdigit():
                self._complain(f"a {status} came without Retry-After")
            if not json.loads(body)["Message"].endswith("."):
                self._complain(f"a {status} came without a sentence: {body}")

    def _pause(self, status, headers):
        """Wait as long as the service asks for, and sign in where it knows us no more."""
        if status == 401:
            self._sign_in()
        asked = float(headers.get("Retry-After", 0.2))
        time.sleep(asked * self._rng.uniform(0.5, 1.0) if status != 401 else 0.1)

    def _sign_in(self):
        token = self._service.sign_in()
        self.failed_sign_ins += not token
        self._token = token or self._token

    def _complain(self, complaint):
        self.complaints.append(complaint)


class KeylessClient(Client):
    """Gives without Idempotency-Keys, and never asks twice where it was not told what was done."""

    # However long the service waits for its database, a late answer is better than a doubt.
    latest_seconds = 15.0

    def _act(self, player):
        quantity, status = self._rng.randint(1, 9), 401
        body = json.dumps({"itemid": self.item, "quantity": quantity})
        path = f"/api/v1/players/{player}/items/give"
        # What came without a good token, or too often, was not even looked at.
        while status in (401, 429) and not self._ending.is_set():
            began = time.monotonic()
            status, answered, answer = self._attempt("POST", path, body, JSON)
            self._judge(status, answered, answer)
            if status != 200:
                self._pause(status, answered)
        if status == 200:
            self.confirmed += 1
            self.ledger.promise(player, self.item, quantity, began, time.monotonic())
        elif status in (503, BROKEN):
            self.ledger.doubt(player, self.item, quantity)
        elif status not in (401, 429):
            self._complain(f"POST {path} was answered with {status}: {answer}")


class Follower(Client):
    """A tool that follows the events: it must see every entry, and none twice."""

    def __init__(self, service, token=None):
        super().__init__("that follows", service, (None,), FOLLOWING_SECONDS, token)
        self._after = ""
        self.seen, self.notes = Counter(), []

    def _act(self, _):
        # Where much is written, it would fall behind with a page at a time.
        while self._poll() == PAGE_SIZE and not self._ending.is_set():
            pass

    def _poll(self):
        """Read the next page; return how many events it has."""
        path = f"/api/v1/events?pageSize={PAGE_SIZE}&after={quote(self._after)}"
        page = self._until_answered("GET", path, None, {})
        if page:
            self.seen.update(event["Id"] for event in page["Values"])
            self._after = page["Next"]
        return len(page["Values"]) if page else 0

    def settle(self, players, entries):
        """Poll until all entries have come that have moved by now, and see that each came once."""
        # What the filters of history look for is not in an entry before it has moved.
        moved = {entry["_id"] for entry in entries if "Authors" in entry}
        moved = {id_ for id_ in moved if id_.startswith("player:")}
        self._connection = self._service.connect(self.latest_seconds)

        def has_all():
            self._poll()
            return moved <= self.seen.keys()

        try:
            wait_until(has_all, seconds=60)
        except AssertionError:
            self.complaints.append(f"{len(moved - self.seen.keys())} events never came")
        self._connection.close()
        doubled = [id_ for id_, times in self.seen.items() if times > 1]
        self.complaints += [f"the event {id_} came twice" for id_ in doubled]
        self.notes.append(f"a tool received {self.seen.total():,} events, each exactly once")

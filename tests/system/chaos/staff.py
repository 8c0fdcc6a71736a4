"""Staff at work while things break: batches, helped and undone, and the forms of the console."""

import http.client
import json
import re
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.factories import guid
from tests.system.chaos.clients import JSON, Client
from tests.system.chaos.service import NAME, PASSWORD

# What a game has wiped meanwhile, of the items or of the Journal, cannot be undone.
WIPED = ("left, but", "is not in history")
BATCHES = "/api/v1/batches"
SIGN_IN, OWN_SIGN_INS = "/console/sign-in", "/console/sign-ins"
TOKEN = re.compile(r'name="token" value="([^"]+)"')
COOKIE = re.compile(r"quartermaster[\w-]*=[^;]+")
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}


class Batcher(Client):
    """Gives to many players by batches, and undoes some of them again."""

    latest_seconds = 20.0
    # How many rows a batch has. Each is several writes, and is carried out whatever breaks, so the
    # rows of a larger batch are more of the same. make chaos has larger ones.
    rows = 12

    def __init__(self, number, service, players, pace, token=None):
        super().__init__(f"batcher {number}", service, players, pace, token)
        # The batch that is being carried out, for whoever helps.
        self.current = None
        self.batches = 0

    def _act(self, _):
        rows = [self._row() for _ in range(self.rows)]
        batch = self._plan(BATCHES, {"Rows": rows})
        if not batch:
            return
        done = self._carried_out(batch)
        for row in done:
            quantity = row["Arguments"]["Quantity"]
            self.ledger.promise(row["Subject"]["Id"], self.item, quantity, key=key_of(batch, row))
        if done and self._rng.random() < 0.5:
            self._undo(batch, done)

    def _row(self):
        player, quantity = self._rng.choice(self._players), self._rng.randint(1, 3)
        return {"Player": player, "Operation": "give", "ItemId": self.item, "Quantity": quantity}

    def _undo(self, batch, done):
        undo = self._plan(f"{BATCHES}/{batch['Id']}/undo", {})
        for row in self._carried_out(undo) if undo else ():
            # The last is undone first.
            undone = done[-row["Row"]]
            player, quantity = row["Subject"]["Id"], undone["Arguments"]["Quantity"]
            self.ledger.promise(
                player, self.item, -quantity, key=key_of(undo, row), operation="undo"
            )

    def _plan(self, path, body):
        headers = {**JSON, "Idempotency-Key": guid()}
        return self._until_answered("POST", path, json.dumps(body), headers)

    def _carried_out(self, batch):
        """Return the rows of a batch that were carried out, which is waited for."""
        self.current, state = batch["Id"], "planned"
        while state != "done":
            progress = self._until_answered("POST", f"{BATCHES}/{batch['Id']}/advance", None, {})
            if not progress:
                self._complain(f"the batch {batch['Id']} was not carried out")
                return []
            state = progress["State"]
        self.batches += 1
        rows = self._rows(batch)
        refused = [row["Why"] for row in rows if row["Verdict"] != "done"]
        refused = [why for why in refused if not any(text in str(why) for text in WIPED)]
        if refused:
            self._complain(f"{len(refused)} rows were refused, such as: {refused[0]}")
        return [row for row in rows if row["Verdict"] == "done"]

    def _rows(self, batch):
        answer = self._until_answered("GET", f"{BATCHES}/{batch['Id']}/rows?pageSize=100", None, {})
        return answer["Values"] if answer else []


class BatchHelper(Client):
    """Carries out the batches of another at the same time."""

    latest_seconds = 20.0

    def __init__(self, batcher, service, pace, token=None):
        super().__init__(f"helper of {batcher.name}", service, [None], pace, token)
        self._batcher = batcher

    def _act(self, _):
        if batch := self._batcher.current:
            self._until_answered("POST", f"{BATCHES}/{batch}/advance", None, {})
        else:
            self._until_answered("GET", BATCHES, None, {})


def key_of(batch, row):
    """Return the Idempotency-Key of a row."""
    return f"batch {batch['Id']}:{row['Row']:06}"


class Clerk(Client):
    """Gives, takes and undoes by forms, and sends a form again until a page says what came."""

    def __init__(self, number, service, players, pace, only_gives=False):
        super().__init__(f"at the console {number}", service, players, pace)
        self._cookie = self._form_token = None
        self._acts = [self._give] if only_gives else [self._give, self._take, self._regret]

    def _act(self, player):
        self._rng.choice(self._acts)(player)

    def _give(self, player, quantity=None):
        return self._write(player, self.item, "give", quantity or self._rng.randint(1, 9))

    def _regret(self, player):
        """Give, and undo it by the button that the next page has."""
        quantity, key = self._rng.randint(1, 9), guid()
        given = self._give(player, quantity)
        if not given:
            return
        path = f"/console/history/{given['done']}/undo"
        if self._until_answered("POST", path, {"key": key}, {}):
            self.ledger.promise(player, self.item, -quantity, key=key, operation="undo")
        else:
            self._complain(f"the gift {given['done']} was not undone")

    def _request_of(self, player, item, operation, quantity, key):
        fields = {"key": key, "itemid": item, "quantity": quantity}
        return "POST", f"/console/players/{player}/{operation}", fields, {}

    def _attempt(self, method, path, fields, headers):
        """Send a form; the page that it leads to is its success."""
        if not self._form_token:
            return 401, {}, b""
        body = urlencode({**fields, "token": self._form_token})
        status, answered, page = super()._attempt(method, path, body, FORM)
        if status != 303:
            return status, answered, page
        leads_to = urlsplit(answered["Location"])
        if leads_to.path == SIGN_IN:
            self._form_token = None
            return 401, {}, b""
        mark = parse_qs(leads_to.query)["done"][0]
        return 200, answered, json.dumps({"done": mark})

    def _credentials(self):
        return {"Cookie": self._cookie}

    def _judge(self, status, headers, body):
        """See that a refusal says when to try again; why, it says in a page."""
        if status in (429, 503) and not headers.get("Retry-After", "").isdigit():
            self._complain(f"a page with {status} came without Retry-After")

    def _sign_in(self):
        """Begin a session, as far as there is one to be had now."""
        self._cookie = self._form_token = None
        try:
            self._cookie, token = self._page(SIGN_IN)
            fields = {"token": token, "username": NAME, "password": PASSWORD, "back": ""}
            headers = {**FORM, "Cookie": self._cookie}
            status, answered, _ = self._exchange("POST", SIGN_IN, urlencode(fields), headers)
            if status == 303:
                self._cookie = COOKIE.search(answered["Set-Cookie"])[0]
                _, self._form_token = self._page(OWN_SIGN_INS)
        except (OSError, http.client.HTTPException, LookupError):
            self._connection.close()
        self.failed_sign_ins += not self._form_token

    def _page(self, path):
        """Return the cookie that a page sets, if any, and the token of its forms."""
        headers = {"Cookie": self._cookie} if self._cookie else {}
        status, answered, page = self._exchange("GET", path, None, headers)
        if status != 200:
            raise LookupError(path)
        cookie = COOKIE.search(answered.get("Set-Cookie", ""))
        return cookie and cookie[0], TOKEN.search(page.decode())[1]

    def _exchange(self, method, path, body, headers):
        self._connection.request(method, path, body, headers)
        response = self._connection.getresponse()
        return response.status, response.headers, response.read()

"""Somebody who works with the forms of the console while things break."""

import http.client
import json
import re
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.factories import guid
from tests.system.chaos.clients import Client
from tests.system.chaos.ledger import Mark
from tests.system.chaos.service import NAME, PASSWORD

SIGN_IN, OWN_SIGN_INS = "/console/sign-in", "/console/sign-ins"
TOKEN = re.compile(r'name="token" value="([0-9a-f]+)"')
COOKIE = re.compile(r"quartermaster[\w-]*=[^;]+")
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}


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
            self.ledger.marks[Mark(player, self.item, -quantity, "undo", key)] += 1
            self.ledger.writes[player] += 1
            self.ledger.note(player, self.item, -quantity)
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

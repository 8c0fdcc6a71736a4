"""Clients that read and give again and again, and tell of every request that failed."""

import json
import threading
from contextlib import contextmanager

from tests.factories import guid

# A dozen clients have always some request under way, and leave the machine to those who start.
PAUSE_SECONDS = 0.03


class Load:
    """What clients have seen, of whom each has a player to itself."""

    def __init__(self, site, token, players):
        self._site = site
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self.item = guid()
        self.reads = self.gifts = 0
        self.failures = []
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._client, args=[name]) for name in players]

    @contextmanager
    def running(self):
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(60)

    def _client(self, player):
        """Use one connection for all requests, as a proper client does."""
        connection = self._site.connection()
        while not self._stop.wait(PAUSE_SECONDS):
            try:
                self._read(connection, player)
                self._give(connection, player)
            except OSError as error:
                self.failures.append(repr(error))
                connection.close()
                connection = self._site.connection()
        connection.close()

    def _read(self, connection, player):
        connection.request("GET", f"/api/v1/players/{player}", headers=self._headers)
        self._note(connection.getresponse(), "reads")

    def _give(self, connection, player):
        headers = {**self._headers, "Idempotency-Key": guid()}
        body = json.dumps({"itemid": self.item, "quantity": 1})
        path = f"/api/v1/players/{player}/items/give"
        connection.request("POST", path, body, headers)
        self._note(connection.getresponse(), "gifts")

    def _note(self, response, kind):
        body = response.read()
        with self._lock:
            if response.status != 200:
                self.failures.append((kind, response.status, body))
            setattr(self, kind, getattr(self, kind) + 1)

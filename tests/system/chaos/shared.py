"""Clients that share a few stacks of items, through several stacks of the service.

What one of them was not told about may be mistaken for what another one was, so all that counts is
the sum. Each tells for sure in the end what was done, as it repeats what it does not know.
"""

import json
import time

from tests.factories import guid, make_player
from tests.system.chaos.clients import Client, KeylessClient
from tests.system.chaos.storm import Storm

# More of the one than all clients together take: refusing any is a lie. The other runs out.
PLENTY, FEW = 100_000, 20
# So few players that many a change is made to one while a client waits to repeat another.
PLAYERS, PACE_SECONDS = 3, 0.5


class SharingClient(Client):
    """Gives and takes what others give and take as well."""

    # A stack that waits longer for the database than others do is waited for longer.
    latest_seconds = 15.0

    def __init__(self, number, service, players, items, pace, token):
        super().__init__(number, service, players, pace, token)
        self._items = items

    def _act(self, player):
        operation = self._rng.choice(("give", "take"))
        self._write(player, self._rng.choice(self._items), operation, self._rng.randint(1, 9))

    def _refused(self, request, status, body, began):
        path, body_sent = request[1], request[2]
        if status != 409 or not path.endswith("/take"):
            super()._refused(request, status, body, began)
            return
        asked, player = json.loads(body_sent), path.split("/")[4]
        self.ledger.refuse(player, asked["itemid"], asked["quantity"], began, time.monotonic())
        self.confirmed += 1


class SharedStorm(Storm):
    """Some clients at each stack of the service, all with the same players and items.

    At each stack there is one more, without keys. What became of its gifts may never be told, so it
    has an item of its own.
    """

    def __init__(self, name, services, uri, clients, players=PLAYERS, pace=PACE_SECONDS):
        self._count, self._pace = players, pace
        self.items = guid(), guid()
        super().__init__(name, services, uri, clients, services[0].sign_in())

    def _make_players(self):
        slots = {
            str(n): {"ItemId": item, "Quantity": quantity}
            for n, (item, quantity) in enumerate(zip(self.items, (PLENTY, FEW), strict=True))
        }
        return [make_player(Inventory=slots) for _ in range(self._count)]

    def _make_clients(self, clients, token):
        sharing = [
            SharingClient(n, service, self.ids, self.items, self._pace, token)
            for n, service in enumerate(clients)
        ]
        keyless = [
            KeylessClient(len(clients) + n, service, self.ids, self._pace, token)
            for n, service in enumerate(self._services)
        ]
        return [*sharing, *keyless]

"""A tool that follows the events while things break: it must see every entry, and none twice."""

from collections import Counter
from urllib.parse import quote

from tests.system.chaos.clients import Client
from tests.system.programs import wait_until

PACE_SECONDS = 0.2
PAGE_SIZE = 100


class Follower(Client):
    """Polls, and remembers what it was told."""

    def __init__(self, service, token=None):
        super().__init__("that follows", service, (None,), PACE_SECONDS, token)
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
        self.notes.append(f"a tool followed {self.seen.total():,} events, each of them once")

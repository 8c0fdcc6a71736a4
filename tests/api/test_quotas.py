"""A limit on all requests of a caller, where an operator sets one."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from app.core.errors import RateLimited
from app.storage.client import Storage
from app.storage.limits import MINUTE, Limit, Limits
from tests.applications import replace_service, service

PLAYERS = "/api/v1/players"


class HeldClock:
    """Stands still, so that no test straddles the end of a minute."""

    def now(self):
        return datetime(2099, 1, 1, 12, 0, 20, tzinfo=timezone.utc)


def requests_a_minute(most, storage):
    return Limits(storage, {"requests": Limit(most, MINUTE, "caller", "requests")}, HeldClock())


def test_a_caller_has_its_requests_of_a_minute_and_no_more(app, client, as_role):
    replace_service(app, requests_a_minute(3, service(app, Storage)))
    one, other = as_role(), as_role()
    statuses = [client.get(PLAYERS, headers=one).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    refused = client.get(PLAYERS, headers=one)
    assert refused.headers["Retry-After"] == "60"
    assert refused.json["Message"] == "Too many requests; please try again in 60 seconds."
    assert client.get(PLAYERS, headers=other).status_code == 200
    assert client.get("/healthz").status_code == 200


def test_by_default_nobody_is_counted(client, as_role, db):
    headers = as_role()
    for _ in range(5):
        assert client.get(PLAYERS, headers=headers).status_code == 200
    assert db.quotas.count_documents({}) == 0


def test_the_count_is_exact_however_many_come_at_once(real_storage, real_db):
    limits = requests_a_minute(10, real_storage)

    def use(_):
        try:
            limits.count_request("somebody")
        except RateLimited:
            return "limited"
        return "served"

    with ThreadPoolExecutor(8) as pool:
        assert Counter(pool.map(use, range(40))) == {"served": 10, "limited": 30}

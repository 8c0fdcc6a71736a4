"""What /metrics shows of requests, operations, retries, mails and limits."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import config
from app.core import metrics
from app.core.changes import Change
from app.core.permissions import Role
from app.storage.client import Storage
from tests.applications import service
from tests.changes import change, meant
from tests.exposition import Exposition
from tests.factories import World, guid, sha256
from tests.mongod import on_mongodb

PLAYERS, USERS = "/api/v1/players", "/api/v1/users"
QUERY = (Role.API, Role.USERS_QUERY)


class Growth:
    """Tells by how much a sum of /metrics has grown since this began."""

    def __init__(self, client):
        self._client, self._before = client, Exposition(client.get("/metrics").text)

    def __call__(self, name, **labels):
        after = Exposition(self._client.get("/metrics").text)
        return after.sum(name, **labels) - self._before.sum(name, **labels)


@pytest.fixture
def growth(client):
    return Growth(client)


def test_it_is_prometheus_text_open_to_all(client):
    response = client.get("/metrics", headers={"X-Request-ID": "scrape-1"})
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["X-Request-ID"] == "scrape-1"
    assert "# TYPE quartermaster_http_requests_total counter" in response.text


def test_a_request_is_counted_by_its_route_method_and_status(client, as_role, world, growth):
    headers, route = as_role(), f"{PLAYERS}/<player:key>"
    for key in (world.add_player()["_id"], world.add_player()["Name"], "Nobody"):
        client.get(f"{PLAYERS}/{key}", headers=headers)
    client.get(f"{PLAYERS}/Nobody")
    requests = partial(growth, "http_requests_total", route=route, method="GET")
    assert [requests(status=status) for status in ("200", "404", "401")] == [2, 1, 1]
    assert growth("http_request_duration_seconds_count", route=route, method="GET") == 4


def test_latencies_are_a_histogram(client, growth):
    for _ in range(5):
        client.get("/healthz")
    name = "http_request_duration_seconds"
    counts = [growth(f"{name}_bucket", route="/healthz", le=le) for le in ("0.001", "10.0", "+Inf")]
    assert counts[0] <= counts[1] == counts[2] == 5
    assert 0 < growth(f"{name}_sum", route="/healthz") < 10


def test_whatever_paths_and_methods_a_client_thinks_of_are_one_label_each(client, growth):
    labels = set(Exposition(client.get("/metrics").text).values_of("method"))
    for number in range(5):
        client.get(f"/nothing/{number}")
        client.open("/healthz", method=f"BREW{number}")
        client.open(f"{PLAYERS}/Bob", method="TRACE")
    assert growth("http_requests_total", route="(none)", method="GET", status="404") == 5
    assert growth("http_requests_total", route="(none)", method="(other)", status="405") == 10
    after = Exposition(client.get("/metrics").text)
    assert after.values_of("method") - labels <= {"(other)"}
    assert "BREW" not in after.text


def test_operations_are_timed_by_what_they_do_and_to_which_collection(
    make_app, mongodb_uri, real_db
):
    app = make_app(config.load({"QM_ENV": "testing"}, MONGODB_URI=mongodb_uri))
    client, world = app.test_client(), World(app)
    headers, player = world.headers(), world.add_player()
    growth = partial(Growth(client), "mongodb_operation_duration_seconds_count")
    body = {"itemid": guid(), "quantity": 1}
    assert client.get(f"{PLAYERS}/{player['_id']}", headers=headers).status_code == 200
    client.post(f"{PLAYERS}/{player['_id']}/items/give", json=body, headers=headers)
    assert growth(operation="find", collection="players") == 2
    assert growth(operation="update", collection="players") == 1
    assert growth(operation="find", collection="users") == 2


def test_a_failed_operation_is_counted_as_one(make_app, as_role):
    headers, away = as_role(), {"MONGODB_URI": "mongodb://127.0.0.1:1/"}
    waits = {"MONGODB_SELECTION_SECONDS": 0.1, "MONGODB_OPERATION_SECONDS": 0.5}
    client = make_app(config.load({"QM_ENV": "testing"}, **away, **waits)).test_client()
    growth = Growth(client)
    assert client.get(PLAYERS, headers=headers).status_code == 503
    assert growth("mongodb_operation_failures_total") == 1
    assert growth("mongodb_operation_failures_total", operation="connect") == 1


def test_a_name_that_is_taken_is_no_failure(client, as_role, growth):
    body = {"username": "Twice", "password": sha256("x"), "email": "twice@example.com"}
    for status in (200, 409):
        answer = client.post(f"{USERS}/register", json=body, headers=as_role(*QUERY))
        assert answer.status_code == status
    assert growth("mongodb_operation_failures_total") == 0


@on_mongodb
def test_retries_of_a_change_are_counted(app, world, growth):
    players, player = service(app, Storage).db["players"], world.add_player()
    overtaken = iter([True, True])

    def rule(document):
        if next(overtaken, False):
            with ThreadPoolExecutor(1) as other:
                raised = {"$inc": {"Version": 1}}
                other.submit(players.update_one, {"_id": player["_id"]}, raised).result()
        return Change({"Level": 7}, None)

    intent = meant("raise", "key-1", "print")
    change(service(app, Storage), {"_id": player["_id"]}, ("Level",), rule, intent)
    assert growth("transaction_retries_total", kind="player") == 2


def test_mails_are_counted_as_sent_or_failed(app, client, world, as_role, growth, tmp_path):
    app.config["DATA_DIR"] = str(tmp_path)
    alice, headers = world.add_user("pw"), as_role(*QUERY)
    ask = partial(client.get, f"{USERS}/{alice['_id']}/password/reset", headers=headers)
    assert ask().status_code == 200
    assert [growth("mails_total", outcome=outcome) for outcome in ("sent", "failed")] == [1, 0]
    app.config["ENV"] = "production"
    assert ask().status_code == 503
    assert [growth("mails_total", outcome=outcome) for outcome in ("sent", "failed")] == [1, 1]


@pytest.mark.parametrize(
    ("setting", "limit"),
    [("ACCOUNT_FAILURES", "account"), ("ADDRESS_FAILURES", "address")],
)
def test_a_limit_on_failures_counts_its_refusals(make_app, settings, setting, limit):
    setattr(settings, setting, 2)
    client = make_app(settings).test_client()
    growth = Growth(client)
    body = {"grant_type": "password", "username": "nobody", "password": sha256("guess")}
    statuses = [client.post("/api/oauth/token", json=body).status_code for _ in range(4)]
    assert statuses == [400, 400, 429, 429]
    assert growth("rate_limited_total", limit=limit) == growth("rate_limited_total") == 2


def test_a_limit_on_requests_counts_its_refusals(make_app, settings):
    settings.REQUESTS_PER_MINUTE = 1
    app = make_app(settings)
    client, headers = app.test_client(), World(app).headers()
    growth = Growth(client)
    statuses = [client.get(PLAYERS, headers=headers).status_code for _ in range(4)]
    assert statuses.count(429) >= 2  # a minute may have ended in between
    assert growth("rate_limited_total", limit="caller") == statuses.count(429)


def test_labels_hold_no_name_id_or_token(client, world):
    user = world.add_user("pw", roles=Role, Name="Zanzibar", Email="zanzibar@example.com")
    player = world.add_player(Name="Quetzalcoatl", UserId=user["_id"])
    headers, item = {**world.headers(user=user), "Idempotency-Key": "Tenochtitlan"}, guid()
    for key in ("Quetzalcoatl", player["_id"], "Xochimilco"):
        client.get(f"{PLAYERS}/{key}/variables/{item}", headers=headers)
        give = {"itemid": item, "quantity": 1}
        client.post(f"{PLAYERS}/{key}/items/give", json=give, headers=headers)
        client.get(f"/Quetzalcoatl/{key}?search=Zanzibar", headers=headers)
    client.delete(f"/api/oauth/token/Zanzibar/{item}", headers=headers)
    shown = client.get("/metrics").text
    assert "/api/oauth/token/<lookup:account>/<token_id>" in shown
    names = ("Quetzalcoatl", "Zanzibar", "Xochimilco", "Tenochtitlan", "example.com")
    ids = (user["_id"], player["_id"], item)
    assert [word for word in (*names, *ids) if word.lower() in shown.lower()] == []


@pytest.mark.parametrize("lacks", ["room", "folder"])
def test_a_worker_without_room_for_its_files_counts_for_itself(
    tmp_path, monkeypatch, caplog, lacks
):
    folder = tmp_path / "metrics"
    if lacks == "room":
        folder.mkdir()
        full = shutil.disk_usage(tmp_path)._replace(free=0)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    metrics.share(str(folder))
    assert "quartermaster_http_requests_total" in metrics.exposition().decode()
    assert "This worker shows only its own metrics" in caplog.text
    assert list(tmp_path.rglob("*.db")) == []


def test_the_dashboard_can_be_imported():
    dashboard = json.loads((Path(__file__).parents[2] / "docs" / "grafana.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert dashboard["schemaVersion"] >= 36
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["targets"]
        assert panel["description"]

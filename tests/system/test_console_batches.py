"""Batches in a real browser: planned, looked at, run and undone, with scripts and without."""

from __future__ import annotations

import pytest

from app.demo.names import guid
from tests.system.console import Api, Console, Demo, session_cookie
from tests.system.programs import serving

TONIC, TONIC_ID = "Perfect Tonic of Stone", guid("item", "Perfect Tonic of Stone")
PLAYERS = [Demo("player", number) for number in range(20, 26)]
SOME = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory, database):
    folder = tmp_path_factory.mktemp("batches")
    with serving(folder, "--demo", "--workers", "1", **database) as server:
        yield server


@pytest.fixture(scope="module")
def api(server):
    return Api(server)


@pytest.fixture(scope="module")
def session(server):
    return session_cookie(server.base)


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def console(request, browser, server, session):
    console = Console(browser, server, session)
    if not request.param:
        console.without_scripts()
    return console


with_scripts = pytest.mark.parametrize("console", [True], ids=["with scripts"], indirect=True)


@pytest.fixture
def file(tmp_path):
    """Return a maker of CSV files, which gives each of some names a tonic."""

    def write(names):
        path = tmp_path / "batch.csv"
        rows = [f"{name},give,{TONIC_ID},2\n" for name in names]
        path.write_text("Player,Operation,ItemId,Quantity\n" + "".join(rows))
        return str(path)

    return write


def plan_file(console, path, **fields):
    console.open("/batches/new?kind=file")
    console.one("#file-file").send_keys(path)
    console.send("file", **fields)


def run(console):
    """Press the button, and without scripts once more as long as there is one."""
    console.one("details.run > summary").click()
    while console.all("#form-run"):
        console.press("#form-run .do")


def tonics(api, player):
    slots = api.get(f"players/{player.id}/items/inventory")
    return sum(slot["Quantity"] for slot in slots if slot["ItemId"] == TONIC_ID)


def test_a_file_is_planned_looked_at_run_and_undone(console, api, file):
    before = [tonics(api, player) for player in PLAYERS]
    names = [player.name for player in PLAYERS]
    plan_file(console, file([*names, "The Nobody"]), Name="Gifts", reason="Ticket 4711")
    assert console.text("h1") == "Gifts"
    assert len(console.all("table.plan tbody tr")) == len(PLAYERS) + 1
    console.press(".warning a")
    assert console.texts("table.plan tbody td:nth-child(2)") == ["The Nobody"]
    assert "No player with name 'The Nobody'." in console.text("table.plan tbody")
    console.one("details.run > summary").click()
    assert console.text(".question") == f"Give 2 × {TONIC} to {len(PLAYERS)} players?"
    assert [tonics(api, player) for player in PLAYERS] == before
    console.one("details.run > summary").click()
    run(console)
    assert console.notice == "The batch is done."
    assert console.text(".n-done b") == str(len(PLAYERS))
    assert [tonics(api, player) for player in PLAYERS] == [count + 2 for count in before]
    console.send("undo-batch", reason="Wrong item")
    assert console.text("h1") == "Undo of Gifts"
    assert f"+2 {TONIC}" in console.text("table.plan tbody")
    run(console)
    assert [tonics(api, player) for player in PLAYERS] == before


def test_a_list_of_players_is_planned_and_cancelled(console):
    console.open("/batches/new")
    console.fill("players", itemid=TONIC, quantity="3", Name="For some")
    console.enter("#players-players", "\n".join(player.name for player in PLAYERS))
    console.press("#form-players > .do")
    assert "6 players" in console.text("dl.facts-list")
    console.enter("#filter-player", PLAYERS[0].name)
    console.press(".plan-rows .filters button")
    assert console.texts("table.plan tbody td:nth-child(2)") == [PLAYERS[0].name]
    console.send("cancel")
    assert console.notice == "The batch was cancelled."
    console.open("/batches")
    assert "cancelled 0 of 6 done" in console.text(".batches tbody tr")


@with_scripts
def test_a_run_goes_on_by_itself_after_a_reload(console, file):
    plan_file(console, file([player.name for player in PLAYERS for _ in range(SOME)]))
    path = console.path
    console.one("details.run > summary").click()
    # As a reload in the middle of a run leaves it.
    action = console.all(".run-form")[0].get_dom_attribute("action")
    console.browser.execute_script("sessionStorage.setItem(`run ${arguments[0]}`, 1)", action)
    console.browser.refresh()
    console.wait.until(lambda _: console.notice == "The batch is done.")
    assert console.path == path
    assert console.text(".n-done b") == str(SOME * len(PLAYERS))
    assert console.severe() == []


def away(console, offline):
    """Take the server away from the browser, or bring it back."""
    limits = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    console.command("Network.emulateNetworkConditions", offline=offline, **limits)


@with_scripts
def test_a_run_waits_for_a_server_that_is_away_and_can_be_paused(console, file):
    plan_file(console, file([player.name for player in PLAYERS]))
    console.one("details.run > summary").click()
    away(console, True)
    for _ in range(2):
        console.one("#form-run .do").click()
        console.wait.until(lambda _: "busy or away" in console.text("#run-status"))
        assert console.text("#form-run .do") == "Pause"
        console.one("#form-run .do").click()
        assert console.text("#run-status").startswith("Paused.")
        assert console.text("#form-run .do") != "Pause"
    console.one("#form-run .do").click()
    console.wait.until(lambda _: "busy or away" in console.text("#run-status"))
    away(console, False)
    console.wait.until(lambda _: console.notice == "The batch is done.")
    assert console.text(".n-done b") == str(len(PLAYERS))


@with_scripts
def test_a_file_that_is_too_large_is_refused_before_it_is_sent(console, tmp_path):
    path = tmp_path / "large.csv"
    with path.open("wb") as file:
        file.truncate(33 * 1024 * 1024)
    console.open("/batches/new?kind=file")
    console.one("#file-file").send_keys(str(path))
    console.one("#form-file > .do").click()
    assert console.text("#file-file-about.fault").startswith("This file is too large")
    assert console.path == "/console/batches/new?kind=file"

"""The whole way of a sign-in with a company account, in a real browser."""

import pytest

from tests.openid_provider import ANNA, running
from tests.system.console import DARK, NARROW, Console


@pytest.fixture(scope="module")
def provider():
    with running() as provider:
        yield provider


@pytest.fixture(scope="module")
def server(serve, provider):
    with serve("--demo", "--workers", "1", AUTH_CACHE_SECONDS="0", **provider.settings()) as server:
        identity = {"Issuer": provider.issuer, "Subject": ANNA["sub"]}
        server.db.users.update_one({"Name": "demo"}, {"$set": {"OpenId": identity}})
        yield server


def test_a_company_account_leads_to_the_page_that_was_asked_for(browser, server, provider):
    console = Console(browser, server)
    console.bring_axe()
    console.open("/players")
    console.look(NARROW, DARK)
    assert (console.violations(), console.overflow()) == ([], 0)
    console.one("a.do").click()
    console.one("button[value=no]").click()
    assert "You cancelled the sign-in" in console.text(".refusal")
    assert ["403" in line for line in console.severe()] == [True]
    console.one("a.do").click()
    console.one("button[value=yes]").click()
    console.one("#search, main h1")
    assert console.path == "/console/players"
    console.open("/sign-ins")
    assert "company account" in console.text("main table")
    assert console.severe() == []

"""The documentation page in a real browser: somebody signs in on it and tries a call."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.ui import WebDriverWait

from app.http.examples import ITEM, PLAYER, PLAYER_ID
from tests.system.programs import serving

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER),
    reason="no browser is installed: apt-get install chromium chromium-driver",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("docs"), "--demo", "--workers", "1") as server:
        yield server


@pytest.fixture
def browser(tmp_path):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    options.add_argument("--headless=new")
    options.add_argument(f"--user-data-dir={tmp_path}")
    options.add_argument("--window-size=1400,2000")
    options.add_argument("--disable-dev-shm-usage")
    if os.geteuid() == 0:  # to whom Chromium refuses its sandbox
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield browser
    browser.quit()


class Page:
    """The page, as its reader uses it."""

    def __init__(self, browser, base):
        self.browser = browser
        self._wait = WebDriverWait(browser, 30)
        browser.get(f"{base}/api/docs")

    def click(self, selector):
        button = self._wait.until(expected.presence_of_element_located((By.CSS_SELECTOR, selector)))
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        self._wait.until(expected.element_to_be_clickable(button)).click()

    def type(self, selector, text):
        where = (By.CSS_SELECTOR, selector)
        self._wait.until(expected.visibility_of_element_located(where)).send_keys(text)

    def text(self, selector):
        where = (By.CSS_SELECTOR, selector)
        return self._wait.until(expected.visibility_of_element_located(where)).text

    def sign_in(self, name, password):
        self.click("button.authorize")
        self.type("#oauth_username", name)
        self.type("#oauth_password", password)
        self.click(".auth-container button.authorize")

    def execute(self, operation):
        """Press Execute, and return the status and the body that the page shows."""
        place = f"#operations-Players-{operation}"
        self.click(f"{place} .opblock-summary-control")
        self.click(f"{place} button.execute")
        status = self.text(f"{place} .live-responses-table .response .response-col_status")
        body = self.text(f"{place} .live-responses-table .response .highlight-code code")
        return status.split()[0], json.loads(body)


def test_somebody_signs_in_on_the_page_and_executes_calls(server, browser):
    page = Page(browser, server.base)
    page.sign_in("demo", "demo")
    assert "Authorized" in page.text(".auth-container h6")
    page.click("button.btn-done")
    status, player = page.execute("getPlayer")
    assert status == "200"
    assert (player["Id"], player["Name"]) == (PLAYER_ID, PLAYER)
    status, given = page.execute("giveItem")
    assert status == "200"
    assert given["id"] == ITEM
    assert given["quantity"]["total"] >= 5


def test_a_call_without_signing_in_is_refused_on_the_page(server, browser):
    status, body = Page(browser, server.base).execute("getPlayer")
    assert status == "401"
    assert body == {"Message": "Authorization has been denied for this request."}


def test_a_wrong_password_is_told_on_the_page(server, browser):
    page = Page(browser, server.base)
    page.sign_in("demo", "nonsense")
    assert "The username or the password is wrong." in page.text(".auth-container .errors")


def test_the_page_asks_nobody_but_us_and_logs_no_fault(server, browser):
    page = Page(browser, server.base)
    assert "Give an item to a player" in page.text("#operations-Players-give_item")
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
        and message["params"]["documentURL"].startswith(server.base)
    ]
    assert f"{server.base}/api/openapi.json" in sent
    assert [url for url in sent if not url.startswith((server.base, "data:"))] == []
    faults = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert faults == []

"""The documentation page in a real browser: somebody signs in on it and tries a call."""

import json

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.ui import WebDriverWait

from app.http.examples import ITEM, PLAYER, PLAYER_ID
from tests import tiers
from tests.system.programs import wait_until

LOCKS = """
    const locks = document.querySelectorAll("button.authorize, .authorization__btn");
    return [...locks].map((lock) => [...lock.classList].pop());
"""


# Swagger UI takes seconds of CPU time for the whole document, at each change of the page.
FEWER_OPERATIONS = """
    const ask = window.fetch;
    window.fetch = async (asked, ...options) => {
        const answer = await ask(asked, ...options);
        if (!(asked.url ?? String(asked)).endsWith("/api/openapi.json")) return answer;
        const {paths, ...rest} = await answer.json();
        const isUsed = ([path]) => /lookupKey\\}(\\/items\\/give)?$/.test(path);
        const few = Object.fromEntries(Object.entries(paths).filter(isUsed));
        const shorter = new Response(JSON.stringify({...rest, paths: few}), answer);
        Object.defineProperty(shorter, "url", {value: answer.url});
        return shorter;
    };
"""


class Page:
    """The page, as its reader uses it."""

    def __init__(self, browser, base, is_whole=False):
        self.browser = browser
        self._wait = WebDriverWait(browser, 120)
        if not is_whole:
            script = {"source": FEWER_OPERATIONS}
            browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
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
        self.type("#sign-in [name=username]", name)
        self.type("#sign-in [name=password]", password)
        self.click("#by-password button.main")

    def wait_for_lock(self, state):
        """Wait until all locks of the page are locked, or unlocked."""
        self._wait.until(lambda _: self.locks() == {state})

    def locks(self):
        return set(self.browser.execute_script(LOCKS))

    def kept(self):
        """What the tab keeps of the sign-in."""
        kept = self.browser.execute_script("return sessionStorage.getItem('quartermaster.sign-in')")
        return json.loads(kept or "null")

    def execute(self, operation):
        """Press Execute, and return the status and the body that the page shows."""
        place = f"#operations-Players-{operation}"
        if not self.browser.find_elements(By.CSS_SELECTOR, f"{place} button.execute"):
            self.click(f"{place} .opblock-summary-control")
        if self.browser.find_elements(By.CSS_SELECTOR, f"{place} .btn-clear"):
            self.click(f"{place} .btn-clear")
        self.click(f"{place} button.execute")
        status = self.text(f"{place} .live-responses-table .response .response-col_status")
        body = self.text(f"{place} .live-responses-table .response .highlight-code code")
        return status.split()[0], json.loads(body)


def assert_asks_nobody_else_and_logs_no_fault(page, demo):
    assert "Give an item to a player" in page.text("#operations-Players-giveItem")
    messages = [
        json.loads(entry["message"])["message"] for entry in page.browser.get_log("performance")
    ]
    sent = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
        and message["params"]["documentURL"].startswith(demo.base)
    ]
    assert f"{demo.base}/api/openapi.json" in sent
    assert [url for url in sent if not url.startswith((demo.base, "data:"))] == []
    faults = [entry for entry in page.browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert faults == []


def test_somebody_signs_in_executes_calls_and_signs_out_for_everybody(demo, browser):
    page = Page(browser, demo.base, tiers.is_everything)
    assert_asks_nobody_else_and_logs_no_fault(page, demo)
    denied = {
        "Message": "Authorization has been denied for this request.",
        "Code": "UNAUTHORIZED",
    }
    assert page.execute("getPlayer") == ("401", denied)
    page.sign_in("demo", "nonsense")
    assert "The username or the password is wrong." in page.text("#fault")
    page.type("#sign-in [name=password]", Keys.CONTROL + "a")
    page.type("#sign-in [name=password]", "demo")
    page.click("#by-password button.main")
    page.wait_for_lock("locked")
    status, player = page.execute("getPlayer")
    assert status == "200"
    assert (player["Id"], player["Name"]) == (PLAYER_ID, PLAYER)
    status, given = page.execute("giveItem")
    assert status == "200"
    assert given["id"] == ITEM
    # No key is filled in, so what is executed again is done again.
    status, more = page.execute("giveItem")
    assert status == "200"
    assert more["quantity"]["total"] == given["quantity"]["total"] + 5
    kept = page.kept()
    page.click("button.authorize")
    assert "demo" in page.text("#signed-in")
    page.click("#signed-in button")
    page.wait_for_lock("unlocked")
    assert page.kept() is None
    wait_until(lambda: is_denied(demo, kept["accessToken"]))
    assert not browser.find_element(By.ID, "ended").is_displayed()


def is_denied(demo, token):
    return demo.status("/api/v1/players", token) == 401


def revoke(demo, token):
    assert demo.ask("DELETE", "/api/oauth/token/demo", token=token)[0] == 200


@pytest.mark.everything
def test_a_sign_in_outlives_its_access_token_and_a_reload_and_is_shared_by_twin_tabs(
    browser, serve
):
    with serve("--demo", "--workers", "1", ACCESS_TOKEN_SECONDS="8") as hasty:
        page = Page(browser, hasty.base)
        page.sign_in("demo", "demo")
        page.wait_for_lock("locked")
        first, tab = page.kept(), browser.current_window_handle
        browser.execute_script("open(location)")
        (twin,) = set(browser.window_handles) - {tab}
        wait_until(lambda: is_denied(hasty, first["accessToken"]))
        assert page.execute("getPlayer")[0] == "200"
        renewed = page.kept()
        assert renewed["refreshToken"] != first["refreshToken"]
        browser.switch_to.window(twin)
        page.wait_for_lock("locked")
        assert page.execute("getPlayer")[0] == "200"
        browser.refresh()
        page.wait_for_lock("locked")
        assert page.execute("getPlayer")[0] == "200"
        assert not browser.find_element(By.ID, "ended").is_displayed()
        assert browser.execute_script("return localStorage.length") == 0


def assert_ended(page):
    assert page.execute("getPlayer")[0] == "401"
    assert "no longer signed in" in page.text("#ended")
    page.wait_for_lock("unlocked")
    page.click("#ended button")
    assert page.browser.switch_to.active_element.get_attribute("name") == "username"


@pytest.mark.everything
def test_a_sign_in_or_an_access_token_that_was_revoked_is_said_to_have_ended(demo, browser):
    page = Page(browser, demo.base)
    page.sign_in("demo", "demo")
    page.wait_for_lock("locked")
    assert page.execute("getPlayer")[0] == "200"
    revoke(demo, page.kept()["accessToken"])
    assert_ended(page)
    token = demo.sign_in()
    page.click("#sign-in summary")
    page.type("#sign-in [name=token]", token)
    page.click("#by-token button")
    page.wait_for_lock("locked")
    assert not browser.find_element(By.ID, "ended").is_displayed()
    assert page.execute("getPlayer")[0] == "200"
    revoke(demo, token)
    assert_ended(page)

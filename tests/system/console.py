"""The console in a real browser, as somebody uses it."""

import functools
import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
import requests
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.ui import WebDriverWait

from app.maintenance.demo.catalogue import guid, player_name, user_name
from tests.system.programs import wait_until

WIDE, NARROW = 1440, 390
LIGHT, DARK = "light", "dark"
HEIGHT = 950
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What somebody sees: a driver's own ways to ask for that take several times as long.
IN_SIGHT = """
    const element = document.querySelector(arguments[0]);
    const isSeen = element?.checkVisibility({opacityProperty: true, visibilityProperty: true})
        && element.getClientRects().length;
    return isSeen ? element : null;
"""
TEXTS = """
    const lines = (part) => part.innerText.replace(/[\\t\\u00a0 ]+/g, " ").split("\\n");
    const parts = arguments[0].map ? arguments[0] : [...document.querySelectorAll(arguments[0])];
    return parts.map((part) => part.checkVisibility({visibilityProperty: true})
        ? lines(part).map((line) => line.trim()).filter(Boolean).join("\\n") : "");
"""
RUN_AXE = """
    const [options, done] = arguments;
    axe.run(document, {...options, resultTypes: ["violations"]}).then(
        (found) => done(found.violations.map(
            ({id, nodes}) => `${id}: ${nodes.map((node) => node.html).join(" ")}`)),
        (error) => done([String(error)]));
"""


def session_cookie(base, name="demo", password="demo"):
    """Sign in as a browser without scripts does, and return what its cookie holds."""
    url = f"{base}/console/sign-in"
    with requests.Session() as visitor:
        form = visitor.get(url, timeout=120).text
        token = re.search('name="token" value="(.*?)"', form)[1]
        fields = {"token": token, "username": name, "password": password}
        answer = visitor.post(url, fields, headers={"Origin": base}, timeout=120)
        assert answer.ok, answer.text
        return visitor.cookies["quartermaster"]


class Console:
    """A tab with the console."""

    def __init__(self, browser, server, session=None):
        self.browser, self.base = browser, server.base
        # While one page makes way for another, the driver knows several words for that.
        self.wait = WebDriverWait(browser, 120, 0.05, [WebDriverException])
        self.look()
        if session:
            cookie = {"name": "quartermaster", "value": session, "httpOnly": True}
            url = f"{self.base}/console"
            browser.execute_cdp_cmd("Network.setCookie", {**cookie, "url": url})

    def command(self, name, **arguments):
        return self.browser.execute_cdp_cmd(name, arguments)

    def without_scripts(self):
        self.command("Emulation.setScriptExecutionDisabled", value=True)

    def look(self, width=WIDE, scheme=LIGHT, height=HEIGHT):
        """Choose the size of the page, and whether the reader likes it light or dark."""
        self.resize(width, height)
        # What moves is clicked beside.
        media = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.command("Emulation.setEmulatedMedia", features=features)

    def resize(self, width, height=HEIGHT):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **size)

    def open(self, path=""):
        self.browser.get(f"{self.base}/console{path}")

    @property
    def path(self):
        """Where the tab is, without what the form before has done."""
        return re.sub("[?&]done=.*", "", self.browser.current_url.removeprefix(self.base))

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        """Return an element in sight, once it is there; what is folded up is opened."""
        return self.wait.until(lambda _: self._in_sight(selector))

    def _in_sight(self, selector):
        if element := self.browser.execute_script(IN_SIGHT, selector):
            return element
        hidden = self.browser.find_element(By.CSS_SELECTOR, selector)
        for summary in hidden.find_elements(By.XPATH, "ancestor::details[not(@open)]/summary"):
            summary.click()
        return None

    def text(self, selector="main"):
        return self.wait.until(lambda _: self.texts([self._in_sight(selector)]))[0]

    def texts(self, wanted):
        """Return what somebody reads in some elements, or in those of a selector, at once."""
        return self.browser.execute_script(TEXTS, wanted)

    def fill(self, form, **fields):
        """Fill in the fields of a form and leave them; whatever was there before goes."""
        for name, text in fields.items():
            self.enter(f"#{form}-{name}", text).send_keys(Keys.TAB)

    def enter(self, selector, text):
        """Replace what a field holds, and return it."""
        field = self.one(selector)
        self.browser.execute_script("arguments[0].focus(); arguments[0].select()", field)
        # At once, as one pastes: letter by letter, a long text takes seconds.
        self.command("Input.insertText", text=text)
        return field

    def press(self, selector):
        """Click on a link or a button that leads to another page, and wait for that."""
        self.leave(self.one(selector).click)

    def leave(self, act):
        """Do what leads to another page, and wait for that."""
        former = self.browser.find_element(By.CSS_SELECTOR, "html")
        act()
        self.wait.until(expected.staleness_of(former))
        self.one("main")

    def send(self, form, **fields):
        self.fill(form, **fields)
        self.press(f"#form-{form} > button, #form-{form} > :is(.buttons, .line) > .do")

    def value(self, field):
        return self.one(f"#{field}").get_attribute("value")

    @property
    def notice(self):
        return self.text(".toast > span")

    @property
    def slots(self):
        """What the inventory shows: names and quantities."""
        return self.texts("#inventory .slot:not(.empty)")

    def sign_in(self, name, password):
        self.enter("#sign-in-username", name)
        self.enter("#sign-in-password", password)
        self.press("form button")

    def overflow(self):
        """Return by how many pixels the page is wider than its window."""
        return self.browser.execute_script(
            "return document.documentElement.scrollWidth - innerWidth"
        )

    def severe(self):
        """Return the faults that the browser has logged since this was asked last."""
        log = self.browser.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def events(self, method):
        """Return the events of the network since this was asked last."""
        log = self.browser.get_log("performance")
        messages = [json.loads(entry["message"])["message"] for entry in log]
        return [message["params"] for message in messages if message["method"] == method]

    def bring_axe(self):
        """Let every page that is opened from now on have axe; its own policy allows no script."""
        self.command("Page.addScriptToEvaluateOnNewDocument", source=axe_source())

    def violations(self, rules=None):
        """Return what axe finds on the page, with everything that can be opened open."""
        self.browser.execute_script(
            "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
        )
        only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": AXE_TAGS}
        return self.browser.execute_async_script(RUN_AXE, {"runOnly": only})


@functools.cache
def axe_source():
    npm = shutil.which("npm")
    root = subprocess.run([npm, "root", "-g"], capture_output=True, text=True) if npm else None
    path = Path(root.stdout.strip()) / "axe-core" / "axe.min.js" if root else None
    if path is None or not path.is_file():
        pytest.skip("axe is not installed: npm install --global axe-core@4")
    return path.read_text()


class Api:
    """Somebody who changes players and users at the same time, over the API."""

    def __init__(self, server, name="demo", password="demo"):
        self._server, self._token = server, server.sign_in(name, password)

    def get(self, path, **query):
        return self._ask("GET", f"{path}?{urlencode(query)}")

    def post(self, path, because="", **body):
        return self._ask("POST", path, body, X_Reason=quote(because))

    def put(self, path, **body):
        return self._ask("PUT", path, body)

    def delete(self, path):
        return self._ask("DELETE", path)

    def erase(self, user):
        """Erase somebody of the demo world; on a busy machine, this takes several requests."""
        path, body = f"/api/v1/users/{user.id}/erase", {"Confirm": user.name}
        wait_until(lambda: self._server.ask("POST", path, body, self._token)[0] == 200)

    def _ask(self, method, path, body=None, **headers):
        return self._server.json(method, f"/api/v1/{path}", body, self._token, **headers)


class Demo:
    """Somebody of the demo world, by number: a player or a user."""

    def __init__(self, kind, number):
        self.id = guid(kind, number)
        self.name = (player_name if kind == "player" else user_name)(number)
        self.path = f"/{kind}s/{self.id}"

"""The leaderboard of docs/examples in a real browser, on a page of another origin."""

import http.server
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.ports import free_port
from tests.system.console import Api
from tests.system.programs import serving

PAGE = (Path(__file__).parents[2] / "docs" / "examples" / "leaderboard.html").read_text()
PATIENCE_SECONDS = 60


@contextmanager
def hosting(text, port):
    """Serve one page at a port of this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def shown(browser, tmp_path, mongodb_uri):
    """Return what the page shows, with a key of these scopes, and whether its origin is listed."""
    ports = free_port(), free_port()

    with serving(
        tmp_path,
        "--demo",
        WORKERS="1",
        MONGODB_URI=mongodb_uri,
        MONGODB_DATABASE="leaderboard",
        CORS_ORIGINS=f"http://127.0.0.1:{ports[0]}",
    ) as server:
        api = Api(server)

        def show(listed, *scopes):
            key = api.post("keys", Name=f"page {listed} {scopes[0]}", Scopes=list(scopes))
            text = PAGE.replace("http://127.0.0.1:8000", server.base).replace("qm_...", key["Key"])
            with hosting(text, ports[not listed]) as address:
                browser.get(address)
                WebDriverWait(browser, PATIENCE_SECONDS).until(
                    lambda page: page.find_elements(By.CSS_SELECTOR, "li, #problem:not([hidden])")
                )
                lines = [line.text for line in browser.find_elements(By.TAG_NAME, "li")]
                return lines, browser.find_element(By.ID, "problem").text, api

        yield show


def test_a_page_of_a_listed_origin_shows_names_levels_and_ranks(shown):
    lines, problem, api = shown(True, "leaderboard.read")
    best = api.get("players/rank", pageSize=10)["Values"]
    assert lines == [f"{player['Name']}, level {player['Level']}" for player in best]
    assert problem == ""
    lines, problem, _ = shown(True, "history.read")
    assert (lines, "SCOPE_MISSING" in problem) == ([], True)
    lines, problem, _ = shown(False, "leaderboard.read")
    assert lines == []
    assert "cannot be shown" in problem

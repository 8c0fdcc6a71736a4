"""Real nginx, with the configuration that we ship, in front of real gunicorn."""

import gzip
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from app.http.examples import KEY
from tests.factories import guid, make_player, sha256
from tests.guide import blocks
from tests.ports import free_port
from tests.system import nginx
from tests.system.nginx import parsed, proxying
from tests.system.programs import wait_until

pytestmark = pytest.mark.skipif(not nginx.NGINX, reason=nginx.MISSING)

SIGN_IN = {"grant_type": "password", "username": "demo", "password": sha256("demo")}
SECRETS = [
    *(sha256("password"), KEY, "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo"),
    *(
        "WyJ0b2tlbiIsImV4YW1wbGUiXQ.aBcD",
        "gAAAAABmExampleExampleExample==",
        "eyJhbGciOiJub25lIn0.e30",
    ),
]
ODD_NAMES = ["a b", "who?", "a#b", "50%", "a&b=c", "Ünï", "玩家", "a+b", "..", "a;b", "x%2Fy"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("nginx")


@pytest.fixture(scope="module")
def server(serve_socket):
    with serve_socket("--demo", LOG_FORMAT="json") as server:
        server.db.players.insert_many([make_player(Name=name) for name in ODD_NAMES])
        yield server


@pytest.fixture(scope="module")
def site(folder, server):
    with proxying(folder / "site", server.socket) as site:
        site.sign_in()
        yield site


def assert_is_our_error(headers, body):
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["x-request-id"]
    assert list(json.loads(body)) == ["Message", "Code"]


def test_an_endpoint_and_a_page_are_reached(site):
    for method, path, body in (
        ("GET", "/readyz", None),
        ("GET", "/api/docs", None),
        ("POST", "/api/oauth/token", SIGN_IN),
        ("GET", "/api/v1/players/rank?pageSize=2", None),
    ):
        status, headers, _ = site.ask(method, path, body)
        assert (path, status) == (path, 200)
        assert headers["X-Request-ID"]


def test_the_health_check_of_the_container_asks_over_the_socket(server, folder):
    program = Path(__file__).parents[2] / "deploy" / "healthcheck.py"
    for path, ending in ((server.socket, 0), (str(folder / "nobody.sock"), 1)):
        done = subprocess.run([sys.executable, "-I", program], env={"QM_SOCKET": path})
        assert done.returncode == ending


def test_a_path_reaches_the_application_as_it_was_sent(site, server):
    for path in (
        *("/api/v1/players//", "/api/v1//players", "//healthz", "/healthz/", "/x.html"),
        *("/api/v1/players/a%2Fb", "/api/v1/players/a%252Fb", "/api/v1/players/%2E%2E/items"),
        *("/api/v1/players/nobody/../rank", "/api/v1/players?page=%zz"),
        *(f"/api/v1/players/{quote(name, safe='')}" for name in ODD_NAMES),
    ):
        status, _, body = site.ask("GET", path)
        direct_status, _, direct_body = server.ask("GET", path, token=site.token)
        assert (path, status, body) == (path, direct_status, direct_body)


def last_line(server, request_id):
    wait_until(lambda: request_id in server.output.read_text())
    lines = [json.loads(t) for t in server.output.read_text().splitlines() if t.startswith("{")]
    return next(line for line in lines if line["request_id"] == request_id)


def test_a_client_cannot_choose_its_address(site, server):
    forged = {"X_Forwarded_For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    site.ask("GET", "/healthz", X_Request_ID="forger-1", **forged)
    assert last_line(server, "forger-1")["address"] == "127.0.0.1"


def test_a_sane_request_id_is_the_same_everywhere_and_any_other_is_replaced(site, server):
    for given in ("tool-42:a/b", "a b", "x" * 129, "<script>", *SECRETS):
        _, headers, _ = site.ask("GET", "/healthz", X_Request_ID=given)
        kept = headers["X-Request-ID"]
        assert (kept == given) == (given == "tool-42:a/b")
        assert last_line(server, kept)["path"] == "/healthz"
        wait_until(lambda id=kept: id in [line["request_id"] for line in site.logged()])


HOST = b"Host: x\r\n"


def ask_without_tls(site, path):
    with socket.create_connection(("127.0.0.1", site.plain_port), timeout=120) as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        return nginx.read_all(stream)


def test_plain_http_is_refused_in_json_on_both_ports(site):
    to_tls = b"GET /console HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    paths = ("/api/v1/players", "//api/v1/players", "/api/docsx", "/consoles", "/healthz")
    for answer in (site.send(to_tls, plain=True), *(ask_without_tls(site, path) for path in paths)):
        status, headers, body = parsed(answer)
        assert (status, json.loads(body)["Message"]) == (
            400,
            "This service is reached by HTTPS only.",
        )
        assert_is_our_error(headers, body)


def test_a_page_without_https_is_redirected_to_it(site):
    for path in ("/", "/console", "/console/players?search=a%2fb", "/api/docs", "/api/docs/"):
        status, headers, _ = parsed(ask_without_tls(site, path))
        # Not to the host that the request names.
        assert (status, headers["location"]) == (301, f"https://{nginx.NAME}{path}")
        assert headers["x-request-id"]


def test_a_large_answer_is_compressed_and_whole(site):
    path = "/api/v1/players?pageSize=100"
    _, _, plain = site.ask("GET", path)
    _, headers, packed = site.ask("GET", path, Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert headers["Vary"] == "Accept-Encoding"
    assert len(plain) > 50_000 > len(packed)
    assert json.loads(gzip.decompress(packed)) == json.loads(plain)


def test_a_token_is_not_compressed(site):
    _, headers, _ = site.ask("POST", "/api/oauth/token", SIGN_IN, Accept_Encoding="gzip")
    assert "Content-Encoding" not in headers


def logged_path(site, name):
    site.ask("GET", f"/api/v1/players/{name}", X_Request_ID=(request := guid()))
    wait_until(lambda: request in site.access_log.read_text())
    return next(line["path"] for line in site.logged() if line["request_id"] == request)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_a_path_is_not_logged_however_it_is_encoded(site, secret):
    hidden = f"%{ord(secret[0]):02x}{secret[1:]}"
    for written in (secret, quote(secret, safe=""), hidden, quote(hidden), f"a%20{secret}"):
        assert (written, logged_path(site, written)) == (written, "-")


def test_logs_are_json_and_hold_no_token_and_no_query(site):
    tokens = site.json("POST", "/api/oauth/token", SIGN_IN)
    refresh = tokens["refresh_token"]
    for path in (
        *(f"/api/oauth/token/demo/{refresh}", f"/API//oauth/token/demo/{refresh}"),
        *(f"/api/%6Fauth/tokens/demo/{refresh}", f"/api/v1/players?search={refresh}"),
    ):
        site.ask("DELETE", path, token=tokens["access_token"])
    assert logged_path(site, quote("玩家")) == f"/api/v1/players/{quote('玩家')}"
    site.ask("GET", "/api/v1/players", token="", X_Request_ID="the-last-one")
    wait_until(lambda: "the-last-one" in site.access_log.read_text())
    line = site.logged()[-1]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/players", 401)
    written = site.access_log.read_text() + site.error_log.read_text()
    assert refresh not in written
    assert tokens["access_token"] not in written
    assert "search" not in written


def test_a_flood_from_one_address_is_a_429_that_says_when_to_come_back(folder, server):
    little = {
        "limit_req_zone": "limit_req_zone $qm_client zone=qm_requests:1m rate=1r/s;",
        "limit_req ": "limit_req zone=qm_requests burst=2 nodelay;",
    }
    with proxying(folder / "flood", server.socket, **little) as site:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: site.ask("GET", "/healthz"), range(8)))
        # Even where nginx has something else to say.
        assert site.ask("POST", "/healthz", b" " * 2_000_000)[0] == 413
    refused = [answer for answer in answers if answer[0] == 429]
    assert len(refused) in (4, 5)
    for _, headers, body in refused:
        assert headers["Retry-After"] == "1"
        assert_is_our_error(headers, body)


def test_the_outside_sees_no_metrics_and_no_readiness(folder, server):
    others = {"allow 127.": "allow 192.0.2.1;"}
    with proxying(folder / "outside", server.socket, **others) as site:
        for path in ("/metrics", "/readyz/", "/%72eadyz", "/x/../metrics", "/nginx/503"):
            status, headers, body = site.ask("GET", path)
            assert (path, status) == (path, 404)
            assert_is_our_error(headers, body)
        assert site.ask("GET", "/healthz")[0] == 200


def test_behind_a_balancer_a_client_keeps_its_address(folder, server):
    """By the lines of the guide; the other port stands for the one that Prometheus asks."""
    (lines,) = [block for block in blocks() if block.startswith("listen 443")]
    port = free_port()
    listen, _, *trusted = lines.replace("10.0.0.5", "127.0.0.1").splitlines()
    changes = {"listen [::]:443": listen.replace("443", f"127.0.0.1:{port}") + " ".join(trusted)}
    with proxying(folder / "balancer", server.socket, **changes) as site:
        for path, status in (("/healthz", 200), ("/metrics", 404)):
            raw = socket.create_connection(("127.0.0.1", port), timeout=120)
            raw.sendall(b"PROXY TCP4 203.0.113.9 127.0.0.1 40000 443\r\n")
            with site.tls.wrap_socket(raw, server_hostname=nginx.NAME) as stream:
                asked = f"GET {path} HTTP/1.1\r\nX-Request-ID: balanced{path}\r\n".encode()
                stream.sendall(asked + HOST + b"Connection: close\r\n\r\n")
                assert parsed(nginx.read_all(stream))[0] == status
        assert last_line(server, "balanced/healthz")["address"] == "203.0.113.9"
        assert site.ask("GET", "/metrics")[0] == 200


def test_without_the_application_it_is_a_503_that_says_when_to_come_back(folder):
    secret = guid()
    with proxying(folder / "alone", folder / "nobody.sock") as site:
        for method, path, body in (
            ("GET", "/api/v1/players", None),
            ("POST", "/api/v1/players", {}),
            ("DELETE", f"/api/oauth/token/demo/{secret}", None),
        ):
            status, headers, body = site.ask(method, path, body)
            assert (status, headers["Retry-After"]) == (503, "2")
            assert_is_our_error(headers, body)
        assert secret not in site.error_log.read_text()

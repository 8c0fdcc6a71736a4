"""Many sign-ins at once leave the service to others, at real gunicorn."""

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pymongo import MongoClient

from tests.factories import sha256
from tests.system.programs import exchange, run, serving, wait_until

SIGN_INS = 30
LINE = 2
# A password takes seconds, and so there is time to look around meanwhile.
DEAR = {"ARGON2_TIME_COST": "100"}
CHEAP = {"ARGON2_TIME_COST": "1", "ARGON2_MEMORY_KIB": "64"}


@pytest.fixture
def server(tmp_path, mongodb_uri):
    few = {"WORKERS": "1", "THREADS": "2", "HASH_PLACES": "1", "HASH_LINE": str(LINE)}
    settings = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "hashing", **few}
    # On a busy machine, a password takes longer than a request may.
    settings |= {"MONGODB_OPERATION_SECONDS": "120"}
    with MongoClient(mongodb_uri) as client:
        account = ("reader", "--email", "reader@example.com", "--password-stdin")
        run(tmp_path, "user", "create", *account, stdin="word", **settings, **CHEAP)
        run(tmp_path, "api", "grant", "reader", "api", **settings, **CHEAP)
        with serving(tmp_path, **settings, **DEAR) as server:
            server.token = run(tmp_path, "token", "reader", **settings, **CHEAP).stdout.strip()
            yield server
        client.drop_database("hashing")


def ask(server, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    status, headers, _ = exchange(connection, method, path, body and json.dumps(body), headers)
    return status, headers


def test_while_passwords_are_hashed_others_are_served_and_the_surplus_is_refused(server):
    answers, lock = [], threading.Lock()

    def sign_in(number):
        body = {"grant_type": "password", "username": f"n{number}", "password": sha256("x")}
        status, headers = ask(server, "POST", "/api/oauth/token", body)
        with lock:
            answers.append((status, headers["Retry-After"]))

    with ThreadPoolExecutor(SIGN_INS) as crowd:
        for number in range(SIGN_INS):
            crowd.submit(sign_in, number)
        # One hashes, some wait for it, and all others know at once that it has no use.
        wait_until(lambda: len(answers) >= SIGN_INS - 1 - LINE)
        reads = [ask(server, "GET", "/api/v1/players")[0] for _ in range(5)]
        meanwhile = list(answers)
    assert reads == [200] * 5
    assert {status for status, _ in meanwhile} == {503}
    # They are told to come back one after another.
    assert len({wait for _, wait in meanwhile}) > 1
    # Who hashed was answered, and who waited was or was told to come back.
    assert (400, None) in answers
    assert {status for status, _ in answers} == {400, 503}

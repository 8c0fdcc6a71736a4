"""Many sign-ins at once leave the service to others, at real gunicorn."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.factories import sha256
from tests.system.programs import wait_until

SIGN_INS = 30
LINE = 2
FEW = {
    **{"WORKERS": "1", "THREADS": "2", "HASH_PLACES": "1", "HASH_LINE": str(LINE)},
    # A password takes a second, and so there is time to look around meanwhile.
    "ARGON2_TIME_COST": "60",
    # On a busy machine, a password takes longer than a request may.
    "MONGODB_OPERATION_SECONDS": "120",
}


@pytest.mark.everything
def test_while_passwords_are_hashed_others_are_served_and_the_surplus_is_refused(serve):
    answers, lock = [], threading.Lock()

    def sign_in(number):
        body = {"grant_type": "password", "username": f"n{number}", "password": sha256("x")}
        status, headers, _ = server.ask("POST", "/api/oauth/token", body)
        with lock:
            answers.append((status, headers["Retry-After"]))

    with serve(**FEW) as server:
        server.add_account("reader", "api")
        with ThreadPoolExecutor(SIGN_INS) as crowd:
            for number in range(SIGN_INS):
                crowd.submit(sign_in, number)
            # One hashes, some wait for it, and all others know at once that it has no use.
            wait_until(lambda: len(answers) >= SIGN_INS - 1 - LINE)
            reads = [server.status("/api/v1/players") for _ in range(5)]
            meanwhile = list(answers)
    assert reads == [200] * 5
    assert {status for status, _ in meanwhile} == {503}
    # They are told to come back one after another.
    assert len({wait for _, wait in meanwhile}) > 1
    # Who hashed was answered, and who waited was or was told to come back.
    assert (400, None) in answers
    assert {status for status, _ in answers} == {400, 503}

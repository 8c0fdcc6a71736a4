"""What looks like a secret, and what only looks a little like one."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.auth.tokens import AccessTokens
from app.http.masking import masked
from app.server.gunicorn_server import GunicornLogger
from app.users.passwords import Passwords
from app.users.second_factor.vault import Vault
from tests.factories import numbered_guid, sha256

TOKENS = AccessTokens(["k" * 32], 300)


@given(st.uuids(), st.uuids(), st.integers(0, 2**33))
def test_every_access_token_is_masked(user, chain, now):
    token = TOKENS.issue(str(user), str(chain), now)
    assert masked(f"No user with name '{token}'.") == "No user with name '***'."
    # Cut off somewhere, it still says whose it is.
    assert masked(token[:100]) == "***"


ID_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiI0NzExIn0.c2lnbmF0dXJl"
SEALED = Vault(["k" * 32], lambda: 1_790_000_000.0).seal("SecondFactor", "A" * 32)


def test_an_id_token_in_part_or_whole_and_what_is_encrypted_are_masked():
    for text in (ID_TOKEN, ID_TOKEN[:40], f"{ID_TOKEN}.x", SEALED):
        assert masked(f"Bad: {text}") == "Bad: ***"


# A fresh hash has a random salt, and would make the test's id another in every process.
HASHES = {
    "lower": sha256("x"),
    "upper": sha256("x").upper(),
    "twice": sha256("x") * 2,
    "argon2": Passwords(1, 64, 1).hash("X"),
}


@pytest.mark.parametrize("secret", HASHES.values(), ids=HASHES.keys())
def test_every_hash_is_masked(secret):
    assert masked(f"/api/v1/users/{secret} 404") == "/api/v1/users/*** 404"
    assert masked(f"{{'PasswordHash': '{secret}'}}") == "{'PasswordHash': '***'}"


def test_what_mongodb_would_not_store_is_masked():
    error = "Document failed validation, full error: {'a': {'Code': 'ABCDEFGH'}}\nand so on"
    assert masked(error) == "Document failed validation, full error: ***\nand so on"


def test_names_and_ids_are_not():
    guid = numbered_guid(1)
    for text in (
        *("/api/v1/players/Aladric/items", guid, guid.replace("-", ""), "Wyatt", "WyIsForMe"),
        "No user with name 'Żółć'.",
    ):
        assert masked(text) == text


@pytest.fixture
def gunicorn_log(caplog):
    """Return a logger of gunicorn's kind, whose lines caplog keeps."""
    logger = GunicornLogger.__new__(GunicornLogger)
    logger.error_log = logging.getLogger("gunicorn of a test")
    return logger


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            'Invalid request from ip=::1: Invalid HTTP request line: \'{"code": "ABCDEFGH"}\'',
            "Invalid request from ip=::1: Invalid HTTP request line",
        ),
        (
            "Invalid request from ip=: Invalid HTTP Header: 'Authorization: pw'\nand more",
            "Invalid request from ip=: Invalid HTTP Header",
        ),
        ("Worker (pid:7) was sent SIGKILL!", "Worker (pid:7) was sent SIGKILL!"),
    ],
)
def test_gunicorn_tells_why_it_refuses_a_request_and_not_what_stood_in_it(
    gunicorn_log, caplog, said, kept
):
    gunicorn_log.warning(said)
    assert caplog.messages == [kept]


def test_gunicorn_tells_of_a_failure_without_the_query(gunicorn_log, caplog):
    gunicorn_log.exception("Error handling request %s %s", "GET", "/x?password=pw")
    assert caplog.messages == ["Error handling request GET /x"]

"""A new secret on a running service: nobody is signed out who has not to be."""

import pytest
import requests

from tests.factories import sha256
from tests.system.programs import run, serving

OLD, NEW = "the former secret of 32 and more", "the coming secret of 32 and more"


@pytest.fixture
def serve(tmp_path, mongodb_uri, real_storage):
    """Return a way to run the service with given secrets on the same data."""
    shared = {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": "rotation"}
    shared |= {"WORKERS": "1"}
    account = ("Zoe", "--email", "z@example.com", "--password-stdin")
    run(tmp_path, "user", "create", *account, stdin="secret", **shared)
    run(tmp_path, "api", "grant", "Zoe", "api", **shared)
    yield lambda **secrets: serving(tmp_path, ENV="production", **shared, **secrets)
    real_storage.client.drop_database("rotation")


def tokens(server, **credentials):
    answer = requests.post(f"{server.base}/api/oauth/token", json=credentials, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def sign_in(server):
    return tokens(server, grant_type="password", username="Zoe", password=sha256("secret"))


def refresh(server, token):
    return tokens(server, grant_type="refresh_token", refresh_token=token)


def status(server, token):
    headers = {"Authorization": f"Bearer {token['access_token']}"}
    return requests.get(f"{server.base}/api/v1/players", headers=headers, timeout=120).status_code


def test_secrets_change_without_signing_anybody_out(serve):
    with serve(SECRET_KEY=OLD) as server:
        before, kept = sign_in(server), sign_in(server)
    with serve(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=OLD) as server:
        during = sign_in(server)
        refreshed = refresh(server, kept["refresh_token"])
        for token in (before, kept, during, refreshed):
            assert status(server, token) == 200
    with serve(SECRET_KEY=NEW) as server:
        assert [status(server, token) for token in (before, kept)] == [401, 401]
        assert [status(server, token) for token in (during, refreshed)] == [200, 200]
        # Whoever slept through all of it goes on with the refresh token.
        assert status(server, refresh(server, before["refresh_token"])) == 200

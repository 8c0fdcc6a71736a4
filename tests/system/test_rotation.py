"""A new secret on a running service: nobody is signed out who has not to be."""

from tests.factories import sha256

OLD, NEW = "the former secret of 32 and more", "the coming secret of 32 and more"
PRODUCTION = {"ENV": "production", "WORKERS": "1"}


def tokens(server, **credentials):
    return server.json("POST", "/api/oauth/token", credentials, "")


def sign_in(server):
    return tokens(server, grant_type="password", username="Zoe", password=sha256("secret"))


def refresh(server, token):
    return tokens(server, grant_type="refresh_token", refresh_token=token)


def status(server, token):
    return server.status("/api/v1/players", token["access_token"])


def test_secrets_change_without_signing_anybody_out(serve):
    with serve(SECRET_KEY=OLD, **PRODUCTION) as server:
        server.add_account("Zoe", "api")
        before, kept = sign_in(server), sign_in(server)
    with serve(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=OLD, **PRODUCTION) as server:
        during = sign_in(server)
        refreshed = refresh(server, kept["refresh_token"])
        for token in (before, kept, during, refreshed):
            assert status(server, token) == 200
    with serve(SECRET_KEY=NEW, **PRODUCTION) as server:
        assert [status(server, token) for token in (before, kept)] == [401, 401]
        assert [status(server, token) for token in (during, refreshed)] == [200, 200]
        # Whoever slept through all of it goes on with the refresh token.
        assert status(server, refresh(server, before["refresh_token"])) == 200

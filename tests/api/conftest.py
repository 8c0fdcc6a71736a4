"""Tests in one process, and the actors that many of them share."""

import email
import email.policy
from datetime import timedelta

import pytest

from app.batches.running import BatchWorker
from app.core.permissions import Permission, Role, new_role
from app.game.actions.store import Actions
from app.storage.client import Storage
from tests.applications import service, written
from tests.callers import Caller
from tests.console_visitor import PASSWORD, Visitor, visitor
from tests.factories import sha256

TOKEN = "/api/oauth/token"


@pytest.fixture
def real_db(real_storage):
    """The real database; all that is stored in it was written by this process."""
    yield real_storage.db
    written.empty(real_storage.db)


@pytest.fixture
def staff(client, world):
    """A caller of the API with all roles, named Clerk."""
    user = world.add_user(roles=tuple(Role), Name="Clerk")
    return Caller(client, world.headers(user=user), "/api/v1/", user)


@pytest.fixture
def person(client, world):
    """Return a maker of callers with all permissions and these limits."""

    def make(name="Limited", permissions=tuple(Permission), **limits):
        role = new_role(f"role of {name}", [Permission(one).value for one in permissions], None)
        # A test may store limits that cannot be read.
        world.db.roles.insert_one({**role, "Limits": limits}, bypass_document_validation=True)
        user = world.add_user(password=PASSWORD, Name=name, Roles=[role["_id"]])
        return Caller(client, world.headers(user=user), "/api/v1/", user)

    return make


@pytest.fixture
def caller_of(client, world):
    """Return a maker of callers for stored users."""
    return lambda user: Caller(client, world.headers(user=user), "/api/v1/", user)


@pytest.fixture
def with_key(client, world):
    """Return a maker of callers with a key of these scopes, of somebody who may do everything."""
    return lambda *scopes, **fields: Caller(
        client, world.key_headers(*scopes, **fields), "/api/v1/"
    )


@pytest.fixture
def sign_in(client):
    """Return a way to ask for tokens with a password, by a form as the RFC wants it."""

    def sign_in(name="Alice", password="secret", address="127.0.0.1", **more):
        form = {"grant_type": "password", "username": name, "password": sha256(password), **more}
        return client.post(TOKEN, data=form, environ_base={"REMOTE_ADDR": address})

    return sign_in


@pytest.fixture
def refresh(client):
    """Return a way to ask for the next tokens of a chain."""

    def refresh(token, **options):
        body = {"grant_type": "refresh_token", "refresh_token": token}
        return client.post(TOKEN, json=body, **options)

    return refresh


@pytest.fixture
def mails(data_dir):
    """Return the mails that were written, the oldest first."""

    def read():
        files = sorted((data_dir / "outbox").glob("*.eml"))
        policy = email.policy.default
        return [email.message_from_bytes(file.read_bytes(), policy=policy) for file in files]

    return read


@pytest.fixture
def pass_time(app, monkeypatch):
    """Return a way to let the clock of the database go on."""
    clock, passed = service(app, Storage).clock, [timedelta()]
    real = type(clock).now
    monkeypatch.setattr(type(clock), "now", lambda self: real(self) + passed[0])

    def later(**time):
        passed[0] += timedelta(**time)

    return later


@pytest.fixture
def alice(world):
    """A user who may use the API, with the password "secret"."""
    return world.add_user("secret", roles=(Role.API,), Name="Alice")


@pytest.fixture
def player(world):
    return world.add_player(Name="Aladric")


@pytest.fixture
def browser(app):
    """Somebody at the console who has not signed in."""
    return Visitor(app)


@pytest.fixture
def lead(app, world):
    """Somebody at the console with all roles."""
    return visitor(app, world, *Role)


@pytest.fixture
def impatient(app):
    """Wait for no answer of a game, for what is not about the waiting."""
    service(app, Actions).wait_seconds = 0.0


@pytest.fixture
def run_batches(app):
    """Return what carries out all started batches, as the thread of a worker does."""

    def run():
        while service(app, BatchWorker).work():
            pass

    return run

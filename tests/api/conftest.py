"""Tests in one process, and the actors that many of them share."""

import pytest

from app.core.permissions import Permission, Role, new_role
from app.game.actions.store import Actions
from tests.applications import service, written
from tests.callers import Caller
from tests.console_visitor import PASSWORD, Visitor


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
        role = new_role(f"role of {name}", [one.value for one in permissions], None)
        # A test may store limits that cannot be read.
        world.db.roles.insert_one({**role, "Limits": limits}, bypass_document_validation=True)
        user = world.add_user(password=PASSWORD, Name=name, Roles=[role["_id"]])
        return Caller(client, world.headers(user=user), "/api/v1/", user)

    return make


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
def impatient(app):
    """Wait for no answer of a game, for what is not about the waiting."""
    service(app, Actions).wait_seconds = 0.0

"""Tests in one process, and somebody who may do everything there."""

import pytest

from app.auth.roles import Role
from tests.applications import written
from tests.callers import Caller


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

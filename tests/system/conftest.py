"""What the tests of running services share."""

from __future__ import annotations

import pytest
from pymongo import MongoClient


@pytest.fixture(scope="module")
def database(request, mongodb_uri):
    """Settings for a database that a file has to itself, on the server that all files share."""
    name = request.module.__name__.rpartition(".")[2]
    yield {"MONGODB_URI": mongodb_uri, "MONGODB_DATABASE": name}
    with MongoClient(mongodb_uri) as client:
        client.drop_database(name)

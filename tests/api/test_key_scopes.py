"""A key of each older scope and permission opens what it opened when these were two things."""

import pytest

from app.auth.callers import Callers
from app.core.errors import Forbidden
from app.core.permissions import ADMINISTRATOR, NAMES, OLDER_SCOPES, Role
from app.storage.limits import Limits
from tests.applications import service
from tests.callers import Caller
from tests.endpoint_table import DOORS
from tests.older_databases import key_scopes

# By route, and by permission that views ask for, the sets of names that opened it.
OPENERS = key_scopes()
ANY_KEY = [{"any"}]
# Names that meant the same as a scope and as a permission.
SAME = {"history.read", "leaderboard.read", "objects.change", "users.read"}


def were_open(scopes):
    """Return what a key of these scopes opened."""
    may_any = set(scopes) != {"leaderboard.read"}
    return {
        row
        for row, openers in OPENERS.items()
        if (may_any if openers == ANY_KEY else any(one <= set(scopes) for one in openers))
    }


class Admitted(Exception):
    """The decorator of a view has admitted the caller."""


@pytest.fixture
def backend_uri():
    return "mongomock://localhost"


@pytest.fixture
def opened(app, monkeypatch, db):
    """Return a function that returns what a key opens now. No view is executed."""
    routes = app.url_map.bind("localhost")
    views = {
        row: app.view_functions[routes.match(door.path, door.method)[0]]
        for door in DOORS
        if (row := f"{door.method} {door.route}") in OPENERS
    }

    def admit(_):
        raise Admitted

    def is_open(view):
        try:
            view()
        except Admitted:
            return True
        except Forbidden:
            return False

    def open_all(headers):
        # It is what the key may do that matters.
        db.users.update_many({}, {"$set": {"Roles": [ADMINISTRATOR]}})
        with monkeypatch.context() as patch, app.test_request_context(headers=headers):
            patch.setattr(service(app, Limits), "count_request", admit)
            rows = {row for row, view in views.items() if is_open(view)}
        caller = service(app, Callers).get_by_key(headers["Authorization"].split()[1])
        return rows | {f"may {name}" for name in NAMES if caller.may(NAMES[name])} & OPENERS.keys()

    return open_all


@pytest.mark.parametrize("scope", sorted([*OLDER_SCOPES, *SAME]))
def test_a_new_key_of_an_older_scope_opens_the_same(scope, opened, client, world):
    """And its answer lists the permissions, which mean the same when they are sent again."""
    person, body = Caller(client, world.headers(*Role)), {"Name": "a", "Scopes": [scope]}
    made = person("POST /api/v1/keys", body).json
    again = person("POST /api/v1/keys", {"Name": "b", "Scopes": made["Scopes"]}).json
    assert set(made["Scopes"]) <= NAMES.keys()
    assert again["Scopes"] == made["Scopes"]
    assert opened({"Authorization": f"Bearer {made['Key']}"}) == were_open({scope})

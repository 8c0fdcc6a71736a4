"""A key of each older scope opens what it opened when scopes and permissions were two things."""

import pytest

from app.core.permissions import NAMES, OLDER_SCOPES, permissions_named, permissions_of_scopes
from tests.endpoint_table import DOORS
from tests.older_databases import key_scopes

# Names that meant the same as a scope and as a permission.
SAME = ("history.read", "leaderboard.read", "objects.change", "users.read")
ANY_KEY = {"any"}
# By route, and by permission that views ask for, what a key needs: as test_doors shows.
NEEDS = {f"{door.method} {door.route}": set(door.scopes) for door in DOORS}
NEEDS |= {f"may {name}": {name} for name in NAMES}


@pytest.mark.parametrize("scope", [*OLDER_SCOPES, *SAME])
def test_a_new_key_of_an_older_scope_opens_the_same(scope):
    permissions = permissions_of_scopes([scope])
    held = {one.value for one in permissions_named(permissions)}
    is_any = scope != "leaderboard.read"
    for route, openers in key_scopes().items():
        was_open = is_any if openers == [ANY_KEY] else any(one <= {scope} for one in openers)
        is_open = is_any if NEEDS[route] == ANY_KEY else NEEDS[route] <= held
        assert is_open == was_open, route
    # A key lists its permissions, which mean the same when they are sent again.
    assert permissions_of_scopes(permissions) == permissions

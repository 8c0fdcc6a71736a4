"""What an account may do by its Power and its roles."""

from hypothesis import given
from hypothesis import strategies as st

from app.core.permissions import (
    LIMIT_NAMES,
    NAMES,
    Permission,
    Role,
    permissions_of_power,
    permissions_of_role,
    rights_of,
    shipped_roles,
    with_role,
)
from app.users.domain import NO_POWER

ALL = frozenset(Permission)
names = st.lists(st.sampled_from([*NAMES, "players.fly"]), max_size=6)
numbers = st.none() | st.integers(0, 100)
roles = st.builds(
    lambda permissions, limits: {
        "Permissions": permissions,
        "Limits": dict(zip(LIMIT_NAMES, limits, strict=True)),
    },
    names,
    st.tuples(numbers, numbers, numbers),
)


def power(*held):
    found = dict(NO_POWER)
    for role in held:
        found = with_role(found, role)
    return found


def test_every_permission_has_words_and_a_role():
    for permission in Permission:
        assert permission.about.endswith(".")
        assert permission.role in Role


def test_power_stands_for_sets_that_grow():
    sizes = [len(permissions_of_power(power(*list(Role)[:count]))) for count in range(4)]
    assert sizes == sorted(set(sizes))
    assert permissions_of_power(power(*Role)) == ALL - {Permission.APPROVE}


@given(st.dictionaries(st.sampled_from("abc"), roles), st.lists(st.sampled_from("abcd")))
def test_rights_are_the_union_of_roles_and_the_largest_limits(stored, held):
    stored = {name: {"_id": name, **role} for name, role in stored.items()}
    rights = rights_of({"Roles": held}, stored)
    having = [stored[name] for name in dict.fromkeys(held) if name in stored]
    assert rights.permissions == frozenset().union(*map(permissions_of_role, having))
    moving = [role for role in having if Permission.ITEMS_MOVE in permissions_of_role(role)]
    if moving:
        limits = [role["Limits"]["ItemsPerDay"] for role in moving]
        if None in limits:
            assert rights.limits.items_per_day is None
        else:
            assert (rights.limits.items_per_day or max(limits) + 1) >= max(limits)


def test_a_role_that_only_reads_lifts_no_limit():
    user = {"Roles": ["support", "viewer"]}
    assert rights_of(user, shipped_roles()).limits.items_per_day == 1000


def test_power_has_no_limits_unless_a_role_says_so():
    user = {"Power": power(Role.API), "Roles": ["support"]}
    assert rights_of(user, shipped_roles()).limits == (None, None, None)
    limited = rights_of({"Power": power(Role.API)}, shipped_roles(), "support")
    assert limited.limits == (100, 1000, 100)


def test_a_disabled_account_may_nothing():
    user = {"Power": power(*Role), "Roles": ["administrator"], "IsDisabled": True}
    assert not rights_of(user, shipped_roles()).permissions

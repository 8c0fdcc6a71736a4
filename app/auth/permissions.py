"""Permissions: what people and keys may do, one for each view, page and form. Pure.

An account has the permissions of its named roles, and those that its Power stands for. A scope of a
key is a permission, or one of the older names in app/auth/scopes.py, which stand for several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from app.auth.roles import Role, roles_of
from app.auth.scopes import KeyAccess, Scope
from app.types import Document, whole

_MANAGING = (Scope.USERS_MANAGE, Role.USERS_MANAGE)


class Permission(Enum):
    """A right: its name, what it allows, the older scope and the role that include it."""

    about: str
    # The older scope that includes it, for keys.
    scope: Scope
    # The lowest role of the contract that includes it, for Power.
    role: Role

    def __new__(cls, name: str, about: str, scope: Scope, role: Role = Role.API) -> Permission:
        made = object.__new__(cls)
        made._value_ = name
        made.about, made.scope, made.role = about, scope, role
        return made

    PLAYERS_READ = "players.read", "Look at characters and the catalogue.", Scope.PLAYERS_READ
    HISTORY_READ = "history.read", "Look at history.", Scope.HISTORY_READ
    USERS_READ = (
        "users.read",
        "See personal data: accounts, email addresses, sign-ins.",
        *(Scope.USERS_READ, Role.USERS_QUERY),
    )
    ITEMS_MOVE = "items.move", "Give and take items.", Scope.PLAYERS_CHANGE
    PLAYERS_CHANGE = (
        "players.change",
        "Change spells, variables, levels and classes of characters.",
        Scope.PLAYERS_CHANGE,
    )
    PLAYERS_RENAME = "players.rename", "Rename characters.", Scope.PLAYERS_CHANGE
    PLAYERS_DELETE = "players.delete", "Delete characters.", Scope.PLAYERS_CHANGE
    MUTE = "moderate.mute", "Mute accounts and kick characters.", Scope.USERS_CHANGE
    BAN = "moderate.ban", "Ban accounts.", Scope.USERS_CHANGE
    NOTES_WRITE = "notes.write", "Write notes.", Scope.PLAYERS_CHANGE
    UNDO_OWN = "undo.own", "Undo one's own changes.", Scope.HISTORY_UNDO
    UNDO_ANY = "undo.any", "Undo changes of others.", Scope.HISTORY_UNDO
    BATCHES_PLAN = "batches.plan", "Plan batches.", Scope.PLAYERS_CHANGE
    BATCHES_RUN = "batches.run", "Run batches.", Scope.PLAYERS_CHANGE
    GAME_ACT = "game.act", "Kill, warp, chat, restart, act as a game.", Scope.GAME_ACT
    OBJECTS_CHANGE = "objects.change", "Set global variables.", Scope.OBJECTS_CHANGE
    HEALTH_READ = "health.read", "See the health of the service.", Scope.PLAYERS_READ
    KEYS_MANAGE = "keys.manage", "Create and revoke one's own keys.", Scope.USERS_MANAGE
    USERS_CHANGE = (
        "users.change",
        "Register accounts, check passwords, mail reset codes.",
        *(Scope.USERS_CHANGE, Role.USERS_QUERY),
    )
    USERS_MANAGE = (
        "users.manage",
        "Change accounts without their passwords; end sign-ins; manage the keys of others.",
        *_MANAGING,
    )
    STAFF_MANAGE = "staff.manage", "Manage staff and roles.", *_MANAGING
    APPROVE = "approve", "Approve what colleagues ask for.", *_MANAGING
    PRIVACY_EXPORT = "privacy.export", "Export personal data.", *_MANAGING
    PRIVACY_ERASE = "privacy.erase", "Erase people.", *_MANAGING


class SignedIn(Enum):
    """For views about the caller's own account, which need no permission."""

    ANYBODY = "anybody who is signed in"


# What a view declares: permissions of the caller, and scopes of a key if they are not those that
# include the permissions.
Need = Permission | SignedIn | Scope | KeyAccess
# The fields of an account that decide what it may do.
RIGHTS = ("Power", "Roles", "GroupRoles", "IsDisabled")
NAMES = {permission.value: permission for permission in Permission}
# The names that a key's list of scopes may contain.
SCOPE_NAMES = {
    **{scope.value: scope.about for scope in Scope},
    **{p.value: p.about for p in Permission if p.value not in {scope.value for scope in Scope}},
}


def permissions_of_power(power: Any) -> frozenset[Permission]:
    """Return what Power stands for: nobody approves by Power alone."""
    held = roles_of(power)
    return frozenset(p for p in Permission if p.role in held) - {Permission.APPROVE}


class Limits(NamedTuple):
    """How much a person may do; None means no limit."""

    largest_quantity: int | None = None
    items_per_day: int | None = None
    rows_per_batch: int | None = None


LIMIT_NAMES = ("LargestQuantity", "ItemsPerDay", "RowsPerBatch")
# A limit of a role counts if the role has one of the permissions that it limits: otherwise a role
# that only reads would lift the limits of all others.
MOVING = {
    *(Permission.ITEMS_MOVE, Permission.UNDO_OWN, Permission.UNDO_ANY, Permission.BATCHES_RUN),
    # These move an unknown number of items, and so need to be without a limit.
    *(Permission.GAME_ACT, Permission.PLAYERS_DELETE, Permission.PRIVACY_ERASE),
}
LIMITED = (MOVING, MOVING, {Permission.BATCHES_PLAN, Permission.BATCHES_RUN})


def limits_of(stored: Any) -> Limits:
    """Return the limits of a role; an unreadable one allows nothing."""
    if stored is None:
        return Limits()
    if not isinstance(stored, dict):
        return Limits(0, 0, 0)
    values = (stored.get(name) for name in LIMIT_NAMES)
    return Limits(*(None if value is None else whole(value) or 0 for value in values))


class Rights(NamedTuple):
    """What an account may do."""

    permissions: frozenset[Permission] = frozenset()
    limits: Limits = Limits()
    # The names of its roles that exist.
    roles: tuple[str, ...] = ()
    needs_second_factor: bool = False
    # The names of its roles, after those of the contract.
    names: tuple[str, ...] = ()


def lacking(own: Rights, other: Rights) -> frozenset[Permission]:
    """Return what somebody does not have of what another may do.

    The role users.manage of Power does not approve, but gives that to others.
    """
    gives = {Permission.APPROVE} if Role.USERS_MANAGE.value in own.names else frozenset()
    return other.permissions - own.permissions - gives


def covers(own: Rights, other: Rights) -> bool:
    """Tell whether somebody may do all that another may, and as much of it."""
    if lacking(own, other):
        return False
    for most, given, limited in zip(own.limits, other.limits, LIMITED, strict=True):
        if most is not None and other.permissions & limited and (given is None or given > most):
            return False
    return True


def rights_of_role(role: Document) -> Rights:
    return Rights(permissions_of_role(role), limits_of(role.get("Limits")))


def rights_of(user: Document, roles: Mapping[str, Document], power_role: str = "") -> Rights:
    """Return the rights of an account: the union of its roles and of what its Power stands for.

    Of several limits the largest counts. Power has no limits, unless the settings name a role whose
    limits apply to it.
    """
    if user.get("IsDisabled") is True:
        return Rights(names=tuple(all_role_names(user)))
    held = [roles[name] for name in role_names(user) if name in roles]
    by_power = permissions_of_power(user.get("Power"))
    power_limits = roles.get(power_role, {}).get("Limits")
    given = [(permissions_of_role(role), limits_of(role.get("Limits"))) for role in held]
    given.append((by_power, limits_of(power_limits)))
    return Rights(
        frozenset().union(*(permissions for permissions, _ in given)),
        _largest(given),
        tuple(role["_id"] for role in held),
        any(role.get("NeedsSecondFactor") is True for role in held),
        tuple(all_role_names(user)),
    )


def role_names(user: Document) -> list[str]:
    """Return the names of an account's roles: those given by hand and those of its groups."""
    names: list[str] = []
    for field in ("Roles", "GroupRoles"):
        stored = user.get(field)
        # A game may have stored something else.
        names += (
            [name for name in stored if isinstance(name, str)] if isinstance(stored, list) else []
        )
    return list(dict.fromkeys(names))


def all_role_names(user: Document) -> list[str]:
    """Return the names of an account's roles, after the roles of the contract."""
    by_power = roles_of(user.get("Power"))
    return [*(role.value for role in Role if role in by_power), *role_names(user)]


def permissions_of_role(role: Document) -> frozenset[Permission]:
    stored = role.get("Permissions")
    names: Iterable[Any] = stored if isinstance(stored, list) else ()
    return frozenset(NAMES[name] for name in names if isinstance(name, str) and name in NAMES)


def _largest(given: list[tuple[frozenset[Permission], Limits]]) -> Limits:
    """Return the largest of each limit; None if one of the roles has no such limit."""
    found = []
    for place, limited in enumerate(LIMITED):
        values = [limits[place] for permissions, limits in given if permissions & limited]
        numbers = [value for value in values if value is not None]
        found.append(max(numbers) if numbers and len(numbers) == len(values) else None)
    return Limits(*found)

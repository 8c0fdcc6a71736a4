"""What people and keys may do: permissions, the roles of the contract, and roles of staff. Pure.

Each view, page and form names its permission. An account has the permissions of its named roles,
and those that its Power stands for: flags that grant the roles of the contract. A key has those
that it was made with, and never more than its account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from app.core.errors import Conflict
from app.core.types import Document, whole


class Role(Enum):
    API = "api"
    USERS_QUERY = "users.query"
    USERS_MANAGE = "users.manage"


# Each role requires the one before it.
FLAGS = {
    Role.API: "Api",
    Role.USERS_QUERY: "ApiPersonalInformation",
    Role.USERS_MANAGE: "ApiUserManagement",
}

Power = Mapping[str, bool]


def roles_of(power: Power | None) -> list[Role]:
    """Return the roles of a Power; a role without the one that it requires does not count."""
    held = []
    for role, flag in FLAGS.items():
        if not (power and power.get(flag) is True):
            break
        held.append(role)
    return held


def with_role(power: Power, role: Role) -> dict[str, bool]:
    order = [*Role]
    place = order.index(role)
    if place and order[place - 1] not in roles_of(power):
        needed = order[place - 1].value
        raise Conflict(f"The role '{role.value}' needs '{needed}': grant that first.")
    return {**power, FLAGS[role]: True}


def without_role(power: Power, role: Role) -> dict[str, bool]:
    """Return the Power without a role, and without those that require it."""
    order = [*Role]
    gone = order[order.index(role) :]
    return {**power, **{FLAGS[one]: False for one in gone}}


class Permission(Enum):
    """A right: its name, what it allows, and the role that includes it."""

    about: str
    # The lowest role of the contract that includes it, for Power.
    role: Role

    def __new__(cls, name: str, about: str, role: Role = Role.API) -> Permission:
        made = object.__new__(cls)
        made._value_ = name
        made.about, made.role = about, role
        return made

    PLAYERS_READ = "players.read", "Look at characters and the catalogue."
    LEADERBOARD_READ = "leaderboard.read", "Look at names, levels and ranks alone."
    HISTORY_READ = "history.read", "Look at history."
    USERS_READ = (
        "users.read",
        "See personal data: accounts, email addresses, sign-ins.",
        Role.USERS_QUERY,
    )
    USERS_FIND = "users.find", "Name accounts in requests, without seeing them.", Role.USERS_QUERY
    ITEMS_MOVE = "items.move", "Give and take items."
    PLAYERS_CHANGE = (
        "players.change",
        "Change spells, variables, levels and classes of characters.",
    )
    PLAYERS_RENAME = "players.rename", "Rename characters."
    PLAYERS_DELETE = "players.delete", "Delete characters."
    KICK = "moderate.kick", "Kick characters."
    MUTE = "moderate.mute", "Mute accounts."
    BAN = "moderate.ban", "Ban accounts."
    NOTES_WRITE = "notes.write", "Write notes on characters."
    NOTES_USERS = "notes.users", "Write notes on accounts."
    UNDO_OWN = "undo.own", "Undo one's own changes."
    UNDO_ANY = "undo.any", "Undo changes of others."
    BATCHES_PLAN = "batches.plan", "Plan batches."
    BATCHES_RUN = "batches.run", "Run batches."
    GAME_ACT = "game.act", "Kill, warp, chat, restart, act as a game."
    OBJECTS_CHANGE = "objects.change", "Set global variables."
    HEALTH_READ = "health.read", "See the health of the service."
    KEYS_MANAGE = "keys.manage", "Create and revoke one's own keys."
    USERS_CHANGE = (
        "users.change",
        "Register accounts, check passwords, mail reset codes.",
        Role.USERS_QUERY,
    )
    USERS_MANAGE = (
        "users.manage",
        "Change accounts without their passwords; end sign-ins; manage the keys of others.",
        Role.USERS_MANAGE,
    )
    STAFF_MANAGE = "staff.manage", "Manage staff and roles.", Role.USERS_MANAGE
    APPROVE = "approve", "Approve what colleagues ask for.", Role.USERS_MANAGE
    PRIVACY_EXPORT = "privacy.export", "Export personal data.", Role.USERS_MANAGE
    PRIVACY_ERASE = "privacy.erase", "Erase people.", Role.USERS_MANAGE


class SignedIn(Enum):
    """For views about the caller's own account, which need no permission."""

    ANYBODY = "anybody who is signed in"


class KeyAccess(Enum):
    """How a view treats keys, if not by its permissions.

    ANY excludes keys for the leaderboard alone: everybody can read them in the source of a page.
    """

    ANY = "any key"
    NONE = "no key"


# What a view declares. Beside SignedIn, permissions are those of a key alone.
Need = Permission | SignedIn | KeyAccess
# The fields of an account that decide what it may do.
RIGHTS = ("Power", "Roles", "GroupRoles", "IsDisabled")
NAMES = {permission.value: permission for permission in Permission}
# Whoever has the first also has the second, which can be had alone.
INCLUDED = {
    Permission.PLAYERS_READ: Permission.LEADERBOARD_READ,
    Permission.USERS_READ: Permission.USERS_FIND,
}
# What a role with the first gets as well; only a key can have one of them alone.
IN_ROLES = {"moderate.mute": "moderate.kick", "notes.write": "notes.users"}
# What names meant while keys had scopes instead of permissions. A key that is made with one of them
# still gets all of this, so nothing is ever added or removed here.
OLDER_SCOPES = {
    "players.read": ("players.read", "health.read"),
    "players.change": (
        "items.move",
        "players.change",
        "players.rename",
        "players.delete",
        "notes.write",
        "batches.plan",
        "batches.run",
    ),
    "users.change": (
        "users.change",
        "users.find",
        "notes.users",
        "moderate.mute",
        "moderate.ban",
    ),
    "users.manage": (
        "users.manage",
        "users.find",
        "keys.manage",
        "staff.manage",
        "approve",
        "privacy.export",
        "privacy.erase",
    ),
    "history.undo": ("undo.own", "undo.any"),
    "game.act": ("game.act", "users.find", "moderate.kick"),
}
# The names that the input of a key may contain, and what they mean there.
SCOPES = {**{name: (name,) for name in NAMES}, **OLDER_SCOPES}


def scope_texts() -> dict[str, str]:
    """Return the names of SCOPES with what a key may do with them."""
    texts = {name: permission.about for name, permission in NAMES.items()}
    for name, meant in OLDER_SCOPES.items():
        more = ", ".join(one for one in meant if one != name)
        texts[name] = f"{texts.get(name, '')} Includes {more}.".strip()
    return texts


def permissions_of_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the names of the permissions that a key gets for names of SCOPES."""
    meant = {permission for name in scopes for permission in SCOPES.get(name, ())}
    return [name for name in NAMES if name in meant]


def permissions_named(stored: Iterable[str]) -> frozenset[Permission]:
    """Return the permissions of stored names, without those that are unknown."""
    held = {NAMES[name] for name in stored if name in NAMES}
    return frozenset(held.union(INCLUDED[one] for one in held & INCLUDED.keys()))


def of_people(needs: Iterable[Need]) -> tuple[Permission, ...]:
    """Return the permissions that a view needs of the account itself."""
    named = tuple(need for need in needs if isinstance(need, Permission))
    return () if SignedIn.ANYBODY in needs else named


def permissions_of_power(power: Power | None) -> frozenset[Permission]:
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
    Permission.ITEMS_MOVE,
    Permission.UNDO_OWN,
    Permission.UNDO_ANY,
    Permission.BATCHES_RUN,
    # These move an unknown number of items, and so need to be without a limit.
    Permission.GAME_ACT,
    Permission.PLAYERS_DELETE,
    Permission.PRIVACY_ERASE,
}
LIMITED = (MOVING, MOVING, {Permission.BATCHES_PLAN, Permission.BATCHES_RUN})


def limits_of(stored: Document | None) -> Limits:
    """Return the limits of a role."""
    return Limits(*(limit_of(stored or {}, name) for name in LIMIT_NAMES))


def limit_of(stored: Document, name: str) -> int | None:
    """Return a limit; one that cannot be read allows nothing."""
    return None if stored.get(name) is None else whole(stored[name]) or 0


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
    names = tuple(all_role_names(user))
    if user.get("IsDisabled"):
        return Rights(names=names)
    held = [roles[name] for name in role_names(user) if name in roles]
    given = [rights_of_role(role) for role in held]
    power_limits = limits_of(roles.get(power_role, {}).get("Limits"))
    given.append(Rights(permissions_of_power(user.get("Power")), power_limits))
    # The largest of each limit; None if one of the roles has no such limit.
    largest = []
    for place, limited in enumerate(LIMITED):
        values = [one.limits[place] for one in given if one.permissions & limited]
        numbers = [value for value in values if value is not None]
        largest.append(max(numbers) if numbers and len(numbers) == len(values) else None)
    return Rights(
        frozenset().union(*(one.permissions for one in given)),
        Limits(*largest),
        tuple(role["_id"] for role in held),
        any(role.get("NeedsSecondFactor") for role in held),
        names,
    )


def role_names(user: Document) -> list[str]:
    """Return the names of an account's roles: those given by hand and those of its groups."""
    return list(dict.fromkeys([*user.get("Roles", ()), *user.get("GroupRoles", ())]))


def all_role_names(user: Document) -> list[str]:
    """Return the names of an account's roles, after the roles of the contract."""
    return [*(role.value for role in roles_of(user.get("Power"))), *role_names(user)]


def permissions_of_role(role: Document) -> frozenset[Permission]:
    return permissions_named(role["Permissions"])


# The role that a rescue gives.
ADMINISTRATOR = "administrator"

_LOOK = ["players.read", "history.read", "health.read"]
_HELP = [*_LOOK, "users.read", "items.move", "players.change", "moderate.mute", "notes.write"]
_HELP += ["moderate.kick", "notes.users", "undo.own", "batches.plan", "users.change"]
_SENIOR = [*_HELP, "players.rename", "moderate.ban", "undo.any", "batches.run", "game.act"]
_SENIOR += ["keys.manage", "approve"]
_MODERATE = [*_LOOK, "users.read", "moderate.kick", "moderate.mute", "moderate.ban"]
_MODERATE += ["notes.write", "notes.users", "undo.own"]
_ECONOMY = [*_LOOK, "items.move", "players.change", "objects.change", "notes.write"]
_ECONOMY += [
    "notes.users",
    "undo.own",
    "undo.any",
    "batches.plan",
    "batches.run",
    "keys.manage",
    "approve",
]
# By name: permissions and limits.
SHIPPED: dict[str, tuple[list[str], dict[str, int]]] = {
    "viewer": (_LOOK, {}),
    "support": (_HELP, {"LargestQuantity": 100, "ItemsPerDay": 1_000, "RowsPerBatch": 100}),
    "senior-support": (
        _SENIOR,
        {"LargestQuantity": 10_000, "ItemsPerDay": 100_000, "RowsPerBatch": 10_000},
    ),
    "moderator": (_MODERATE, {"LargestQuantity": 100, "ItemsPerDay": 1_000}),
    "economy": (_ECONOMY, {}),
    ADMINISTRATOR: ([permission.value for permission in Permission], {}),
}


def shipped_roles() -> dict[str, Document]:
    return {
        name: new_role(name, permissions, limits or None, name == ADMINISTRATOR)
        for name, (permissions, limits) in SHIPPED.items()
    }


def new_role(
    name: str, permissions: list[str], limits: Document | None, needs_second_factor: bool = False
) -> Document:
    return {
        "_id": name,
        "Name": name,
        "Permissions": permissions,
        "Limits": limits,
        "NeedsSecondFactor": needs_second_factor,
        "RemovedAt": None,
        "Version": 0,
    }

"""API keys, by which tools authenticate: their format, and how they are stored. Pure.

A key is stored in the document of its account, so that creating or revoking one is a change like
any other, with a history entry. Only the SHA-256 of the secret is stored: 40 random characters
need no slow hash.
"""

from __future__ import annotations

import binascii
import hashlib
import ipaddress
import secrets
import string
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from app.core.permissions import Permission, permissions_named
from app.core.types import Document, whole

# Of every key, valid or not, and of no access token.
PREFIX = "qm_"
RANDOM_LENGTH = 40
CHECKSUM_LENGTH = 6
LENGTH = len(PREFIX) + RANDOM_LENGTH + CHECKSUM_LENGTH
LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# The length of the prefix of IPv6 addresses that represent IPv4 addresses.
MAPPED_BITS = 96
NOWHERE = ipaddress.IPv4Network("255.255.255.255/32")


class Budget(NamedTuple):
    """How many items a key may move; None means no limit."""

    largest_quantity: int | None = None
    items_per_day: int | None = None
    items: frozenset[str] | None = None


class AccessKey(NamedTuple):
    """A key, as a request uses it."""

    id: str
    name: str
    permissions: frozenset[Permission]
    # The expiry of the key, or of a secret that a rotation replaced, in seconds since 1970.
    ends_at: float
    networks: tuple[Network, ...] = ()
    budget: Budget | None = None

    def allows_address(self, address: str) -> bool:
        if not self.networks:
            return True
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)
        return any((mapped or parsed) in network for network in self.networks)


def new_secret() -> str:
    text = PREFIX + "".join(secrets.choice(LETTERS) for _ in range(RANDOM_LENGTH))
    return text + _checksum(text)


def is_well_formed(text: str) -> bool:
    """Return whether the checksum of a key is right, before querying the database."""
    if len(text) != LENGTH or not text.isascii():
        return False
    return _checksum(text[:-CHECKSUM_LENGTH]) == text[-CHECKSUM_LENGTH:]


def _checksum(text: str) -> str:
    """Return the CRC-32 of a text in base 62."""
    number = binascii.crc32(text.encode())
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(LETTERS))
        digits.append(LETTERS[digit])
    return "".join(reversed(digits))


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def access_key(user: Document, digest: str) -> AccessKey | None:
    for id_, key in keys_of(user):
        for secret in secrets_of(key):
            if secret["Digest"] == digest:
                return _access_key(id_, key, min(secret["EndsAt"], key["ExpiresAt"]))
    return None


def access_key_by_id(user: Document, id_: str) -> AccessKey | None:
    """Return a key of an account, for work that continues after the request that used it."""
    key = dict(keys_of(user)).get(id_)
    return _access_key(id_, key, key["ExpiresAt"]) if key else None


def _access_key(id_: str, key: Document, ends: datetime) -> AccessKey:
    return AccessKey(
        id_,
        key["Name"],
        permissions_named(key.get("Scopes")),
        ends.timestamp(),
        tuple(networks_of(key.get("Addresses"))),
        budget_of(key.get("Budget")),
    )


def keys_of(user: Document) -> Iterator[tuple[str, Document]]:
    """Yield the keys of an account by id, without malformed ones: a game may store anything."""
    keys = user.get("Keys")
    for id_, key in keys.items() if isinstance(keys, dict) else ():
        if _has(key, Name=str, ExpiresAt=datetime):
            yield id_, key


def secrets_of(key: Document) -> list[Document]:
    """Return the secrets of a key: the current one, and those that rotations have replaced."""
    found = key.get("Secrets")
    secrets = found if isinstance(found, list) else []
    return [secret for secret in secrets if _has(secret, Digest=str, EndsAt=datetime)]


def _has(value: Any, **fields: type) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), type_) for name, type_ in fields.items()
    )


def scopes_of(key: Document) -> list[str]:
    """Return the names of the permissions of a key."""
    held = permissions_named(key.get("Scopes"))
    return [permission.value for permission in Permission if permission in held]


def networks_of(addresses: Any) -> list[Network]:
    """Return the networks of stored addresses; an unreadable one allows nobody."""
    if addresses is None:
        return []
    found: list[Network] = []
    for address in addresses if isinstance(addresses, list) else ():
        try:
            network = ipaddress.ip_network(address, strict=False)
        except ValueError:
            network = NOWHERE
        mapped = getattr(network.network_address, "ipv4_mapped", None)
        if mapped is not None and network.prefixlen >= MAPPED_BITS:
            # Clients are compared by their IPv4 address.
            network = ipaddress.ip_network((mapped, network.prefixlen - MAPPED_BITS))
        found.append(network)
    return found or [NOWHERE]


def budget_of(stored: Any) -> Budget | None:
    """Return the budget of a key; an unreadable one allows nothing."""
    if stored is None:
        return None
    if not isinstance(stored, dict):
        return Budget(0, 0, frozenset())
    items = stored.get("Items")
    return Budget(
        _limit(stored.get("LargestQuantity")),
        _limit(stored.get("ItemsPerDay")),
        None if items is None else frozenset(items if isinstance(items, list) else ()),
    )


def _limit(stored: Any) -> int | None:
    return None if stored is None else whole(stored) or 0

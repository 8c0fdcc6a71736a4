"""API keys, by which tools authenticate: their format, and how they are stored. Pure.

A key is stored in the document of its account, so that creating or revoking one is a change like
any other, with a history entry. Only the SHA-256 of the secret is stored: 40 random characters
need no slow hash.
"""

from __future__ import annotations

import binascii
import hashlib
import secrets
import string
from datetime import datetime
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from app.core.permissions import Permission, limit_of, permissions_named
from app.core.types import Document

# Of every key, valid or not, and of no access token.
PREFIX = "qm_"
RANDOM_LENGTH = 40
CHECKSUM_LENGTH = 6
LETTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


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
    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    budget: Budget | None = None

    def allows_address(self, address: str) -> bool:
        if not self.networks:
            return True
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        # An IPv6 address that stands for an IPv4 address is in the networks of both.
        mapped = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network or mapped in network for network in self.networks)


def new_secret() -> str:
    text = PREFIX + "".join(secrets.choice(LETTERS) for _ in range(RANDOM_LENGTH))
    return text + _checksum(text)


def _checksum(text: str) -> str:
    """Return the CRC-32 of a text in base 62, by which scanners of secrets know a key."""
    number, places = binascii.crc32(text.encode()), reversed(range(CHECKSUM_LENGTH))
    return "".join(LETTERS[number // 62**place % 62] for place in places)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def access_key(user: Document, digest: str) -> AccessKey | None:
    for id_, key in keys_of(user).items():
        for secret in key["Secrets"]:
            if secret["Digest"] == digest:
                return _access_key(id_, key, min(secret["EndsAt"], key["ExpiresAt"]))
    return None


def access_key_by_id(user: Document, id_: str) -> AccessKey | None:
    """Return a key of an account, for work that continues after the request that used it."""
    key = keys_of(user).get(id_)
    return _access_key(id_, key, key["ExpiresAt"]) if key else None


def _access_key(id_: str, key: Document, ends: datetime) -> AccessKey | None:
    try:
        networks = tuple(ip_network(text, strict=False) for text in key.get("Addresses", ()))
    except ValueError:
        return None
    budget = None
    if stored := key.get("Budget"):
        items = stored.get("Items")
        budget = Budget(
            limit_of(stored, "LargestQuantity"),
            limit_of(stored, "ItemsPerDay"),
            None if items is None else frozenset(items),
        )
    permissions = permissions_named(key["Scopes"])
    return AccessKey(id_, key["Name"], permissions, ends.timestamp(), networks, budget)


def keys_of(user: Document) -> Document:
    """Return the keys of an account by id."""
    keys: Document = user.get("Keys", {})
    return keys


def scopes_of(key: Document) -> list[str]:
    """Return the names of the permissions of a key."""
    held = permissions_named(key["Scopes"])
    return [permission.value for permission in Permission if permission in held]

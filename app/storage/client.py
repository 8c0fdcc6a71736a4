"""The connection to MongoDB that one application holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pymongo
from bson import Code
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import ConfigurationError, PyMongoError

from app.core.errors import QuartermasterError, Unavailable
from app.core.limits import DatabasePlaces
from app.core.naming import Lookup
from app.core.services import current
from app.core.types import Document
from app.storage.clock import Clock, DatabaseClock, LocalClock
from app.storage.commands import OurDatabase
from app.storage.embedded import Lease, running_uri
from app.storage.history import Entries
from app.storage.lifetime import Lifetime
from app.storage.monitoring import CommandMetrics, Outage
from app.storage.transactions import Transactions
from config.base import Settings

# A game may store Code where a text belongs. In Python it is a str, but bson gives it no hash, so
# sets and maps would refuse it. To decode another class would cost each read a third more CPU.
Code.__hash__ = str.__hash__  # type: ignore[assignment]

# Identifies our connections in MongoDB, next to those of a game.
CLIENT_OPTIONS: Document = {
    "appname": "quartermaster",
    "tz_aware": True,
    # A stored date beyond year 9999 is clamped to datetime.max.
    "datetime_conversion": "DATETIME_CLAMP",
    # MongoDB stores strings unchecked, and a game may write invalid UTF-8.
    "unicode_decode_error_handler": "replace",
    "w": "majority",
    "retryWrites": True,
    # Connect at the first operation; some commands need no database.
    "connect": False,
}
MOCK_SCHEME = "mongomock://"
# The timeout of operations that scan a whole collection.
LONG_WORK_SECONDS = 24 * 3600


class Storage:
    """A database, its client, and the lease of the embedded server if it is used.

    Create it in the process that uses it: a MongoClient is not fork-safe.
    """

    def __init__(self, settings: Settings) -> None:
        self._lease: Lease | None = None
        self._selection_seconds = settings.MONGODB_SELECTION_SECONDS
        # Of the requests of this worker that use the database.
        self.places = DatabasePlaces(
            settings.THREADS, partial(pymongo.timeout, settings.MONGODB_OPERATION_SECONDS)
        )
        uri = settings.MONGODB_URI
        if uri is None:
            self._lease = Lease(settings.DATA_DIR, settings.MONGOD, settings.EMBEDDED_CACHE_GB)
            uri = self._lease.uri
        self.uri = uri
        self.is_mock = uri.startswith(MOCK_SCHEME)
        # A filter for the log of the process.
        self.outage = Outage()
        self.client = _mock_client() if self.is_mock else _client(uri, settings, self.outage)
        self.db: Database[Document] = self.client.get_default_database(settings.MONGODB_DATABASE)
        if not self.is_mock:  # mongomock refuses comments
            self.db = OurDatabase(self.client, self.db.name)
        self.clock: Clock = LocalClock() if self.is_mock else DatabaseClock(self.client)
        self.lifetime = Lifetime(self.client, uri)
        self.entries = Entries(self.db, settings.HISTORY_DAYS)
        self.transactions = Transactions(self.db, self.is_mock)

    @contextmanager
    def snapshot(self) -> Iterator[ClientSession]:
        """Return a session whose reads are of one moment, for long work."""
        with (
            pymongo.timeout(LONG_WORK_SECONDS),
            self.client.start_session(snapshot=True) as session,
        ):
            yield session

    def ping(self) -> None:
        """Raise Unavailable unless the database answers."""
        try:
            with pymongo.timeout(self._selection_seconds):
                self.db.command("ping")
        except PyMongoError as error:
            raise Unavailable("The database does not answer.") from error

    def describe(self) -> Document:
        """Return facts about the database server, for operators."""
        if self.is_mock:
            return {"Version": "mongomock", "Members": [], "Primary": None}
        hello = self.client.admin.command("hello")
        build = self.client.admin.command("buildInfo")
        members = [*hello.get("hosts", ()), *hello.get("passives", ()), *hello.get("arbiters", ())]
        return {"Version": build["version"], "Members": members, "Primary": hello.get("primary")}

    def close(self) -> None:
        self.client.close()
        if self._lease:
            self._lease.close()


def by_key(key: Lookup) -> Document:
    """Return the filter for a lookup key."""
    return {"_id": key.id} if key.id else {"NameKey": key.name_key}


def begins(text: str) -> Document:
    """Return the condition that a field begins with a text."""
    return {"$regex": f"^{re.escape(text)}"}


def name_contains(search: str | None) -> Document:
    """Return the filter of documents whose name contains a text; {}: of all."""
    return {"NameTails": begins(search)} if search else {}


def database_uri(settings: Settings) -> str:
    """Return the URI of the database with its name, without connecting."""
    uri = urlsplit(settings.MONGODB_URI or _embedded_uri(settings.DATA_DIR))
    if uri.path not in ("", "/"):
        return uri.geturl()
    query = uri.query
    options = {name.lower() for name in parse_qs(query)}
    if "@" in uri.netloc and not options & {"authsource", "authmechanism"}:
        # Without authSource, MongoDB looks for the account in the database that the URI names.
        query = f"{query}&authSource=admin".lstrip("&")
    return uri._replace(path=f"/{quote(settings.MONGODB_DATABASE)}", query=query).geturl()


def _embedded_uri(data_dir: str) -> str:
    """Return the URI of the embedded server, which another program has started."""
    folder = Path(data_dir).resolve() / "mongodb"
    if uri := running_uri(folder):
        return uri
    raise QuartermasterError(
        f"No embedded MongoDB runs in {folder}: start one with make run or quartermaster serve."
    )


def _client(uri: str, settings: Settings, outage: Outage) -> MongoClient[Document]:
    selection_ms = int(settings.MONGODB_SELECTION_SECONDS * 1000)
    try:
        return MongoClient(
            uri,
            serverSelectionTimeoutMS=selection_ms,
            connectTimeoutMS=selection_ms,
            timeoutMS=int(settings.MONGODB_OPERATION_SECONDS * 1000),
            maxPoolSize=settings.MONGODB_POOL_SIZE,
            event_listeners=[CommandMetrics(outage.end)],
            **CLIENT_OPTIONS,
        )
    except (ConfigurationError, ValueError) as error:
        # pymongo's error may quote a part of the password.
        reason = re.sub(r"[\"'].*[\"']", "...", str(error)).rstrip(". ")
        raise QuartermasterError(
            f"QM_MONGODB_URI cannot be used: {reason}. In a password, signs such as / : @ ? # % "
            "are percent-encoded."
        ) from None


def _mock_client() -> MongoClient[Document]:
    import mongomock  # for tests

    client: MongoClient[Document] = mongomock.MongoClient(tz_aware=True)
    return client


storage = current(Storage)

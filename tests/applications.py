"""Applications for tests: one of a test's own, or one that tests with the same settings share."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from pymongo import MongoClient, monitoring

from app import create_app
from app.database import COLLECTIONS
from app.http.context import SERVICES
from app.storage.client import Storage
from app.storage.schema import migrations
from app.storage.schema.collections import init_database


class Applications:
    """Makes applications, and closes their connections in the end."""

    def __init__(self):
        self._shared, self._storages = {}, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # All at once: the driver takes seconds to close a connection to a database that is away.
        with ThreadPoolExecutor(max_workers=32) as pool:
            list(pool.map(Storage.close, self._storages))

    def make(self, settings):
        app = create_app(settings)
        storage = service(app, Storage)
        self._storages.append(storage)
        if storage.is_mock:
            init_database(storage.db, COLLECTIONS)
        return app

    def shared(self, settings, extend=None):
        """Return the one application with these settings: making one takes longer than a test.

        The function that extends it, with routes for example, is called once.
        """
        values = [(name, getattr(settings, name)) for name in dir(settings) if name.isupper()]
        key = (str(values), extend)
        if key not in self._shared:
            self._shared[key] = self.make(settings)
            if extend:
                extend(self._shared[key])
        return self._shared[key]


def service(app, kind):
    """Return the application's service of a kind, such as its Players."""
    return app.extensions[SERVICES][kind]


def replace_service(app, replacement):
    """Let the application use this service instead of its own of the same kind."""
    app.extensions[SERVICES][type(replacement)] = replacement


def storage_with(storage, **collections):
    """Return a storage like this one in which some collections are replaced."""

    class Replaced:
        def with_options(self, **_):
            return self

        def __getitem__(self, name):
            return collections[name] if name in collections else storage.db[name]

    return SimpleNamespace(
        db=Replaced(),
        clock=storage.clock,
        entries=storage.entries,
        transactions=storage.transactions,
    )


class Written(monitoring.CommandListener):
    """Knows which collections this process has written to: no others need be emptied."""

    def __init__(self):
        self._names = set()

    def started(self, event):
        if event.command_name in ("insert", "update", "findAndModify"):
            self._names.add((event.database_name, event.command[event.command_name]))

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass

    def empty(self, db):
        """Delete what was written to a database; the collections and their indexes stay."""
        for database, name in [written for written in self._names if written[0] == db.name]:
            self._names.discard((database, name))
            if name != migrations.VERSIONS:
                db[name].delete_many({})


written = Written()
monitoring.register(written)


def empty(db):
    """Delete all documents, whichever program wrote them."""
    names = [name for name in db.list_collection_names() if name != migrations.VERSIONS]
    for name in filled(db, names):
        db[name].delete_many({})


def filled(db, names):
    """Return which collections hold anything: to ask for all at once is cheaper than to delete."""
    if not isinstance(db.client, MongoClient):  # mongomock knows no $unionWith
        return [name for name in names if db[name].estimated_document_count()]
    first, *others = ([{"$limit": 1}, {"$project": {"_id": {"$literal": name}}}] for name in names)
    unions = [
        {"$unionWith": {"coll": name, "pipeline": pipeline}}
        for name, pipeline in zip(names[1:], others, strict=True)
    ]
    return [found["_id"] for found in db[names[0]].aggregate([*first, *unions])]

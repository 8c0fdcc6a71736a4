"""Compare-and-swaps without an application, for tests of the storage."""

from app.changes import Intent, Origin
from app.database import SUBJECTS
from app.storage.clock import LocalClock
from app.storage.journal import Journals
from app.storage.swap import Swapper

TESTER = Origin(None, "tester", "api", "request-1")


def meant(operation, key=None, fingerprint=None, **options):
    """Return the intent of a tester."""
    return Intent(operation, TESTER, {}, key, fingerprint, **options)


def journals_of(db, days=400):
    return Journals(db, days)


def swapper_of(db, name="players", collection=None, journals=None):
    """Return what changes the documents of a collection, or of one that stands in for it."""
    collection = db[name] if collection is None else collection
    return Swapper(collection, SUBJECTS[name], journals or journals_of(db), LocalClock())


def swap(db, where, reads, rule, intent, **options):
    """Apply a rule to a player."""
    return swapper_of(db).swap(where, reads, rule, intent, **options)


def move_all(db, name="players"):
    """Move all entries of a collection to history."""
    holders = db[name].find({"Journal.0": {"$exists": True}}, ["_id"])
    journals_of(db).move(SUBJECTS[name], [holder["_id"] for holder in holders])

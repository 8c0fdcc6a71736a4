"""Changes without an application, for tests of the storage."""

from pymongo.client_session import ClientSession
from pymongo.errors import AutoReconnect

from app.changes import Intent, Origin
from app.database import SUBJECTS
from app.storage import transactions
from app.storage.changes import Changes

TESTER = Origin(None, "tester", "api", "request-1")


def meant(operation, key=None, fingerprint=None, **options):
    """Return the intent of a tester."""
    return Intent(operation, TESTER, {}, key, fingerprint, **options)


def change(storage, where, reads, rule, intent, name="players"):
    """Apply a rule to a document, a player unless said."""
    return Changes(storage, SUBJECTS[name]).change(where, reads, rule, intent)


def entries_of(db, document):
    """Return the entries of history about a document, the oldest first."""
    return list(db.history.find({"Subject.Id": document["_id"]}, sort=[("At", 1)]))


def cut_off(patch):
    """Let nothing commit, as on a primary that a split has cut off, and that still reads."""

    def unconfirmed(_):
        error = AutoReconnect("cut off")
        error._add_error_label("UnknownTransactionCommitResult")
        raise error

    patch.setattr(transactions, "PATIENCE_SECONDS", 0.05)
    patch.setattr(ClientSession, "commit_transaction", unconfirmed)

"""Changes without an application, and processes that die amid one."""

from contextlib import suppress

import pytest
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import AutoReconnect

from app.core.changes import Intent, Origin
from app.core.naming import Lookup
from app.database import SUBJECTS
from app.storage import transactions
from app.storage.changes import Changes

COMMANDS = (
    *("find", "insert_one", "insert_many", "update_one", "replace_one", "delete_one"),
    "bulk_write",
    "find_one_and_update",
)
TESTER = Origin(None, "tester", "api", "request-1")


def meant(operation, key=None, fingerprint=None, **options):
    """Return the intent of a tester."""
    return Intent(operation, TESTER, {}, key, fingerprint, **options)


def change(storage, where, reads, rule, intent, name="players"):
    """Apply a rule to a document, a player unless said."""
    return Changes(storage, SUBJECTS[name]).change(
        Lookup(where["_id"], where["_id"], None), reads, rule, intent
    )


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


class Killed(BaseException):
    """The process dies here."""


def deaths(act):
    """Do something until it is done, and die at its first command, its second and so on.

    Commands count that belong to a transaction. After each death, yield its number.
    """
    for number in range(100):
        with pytest.MonkeyPatch.context() as patch:
            has_died = _die_at(patch, number)
            with suppress(Killed):
                act()
        if not has_died:
            return
        yield number
    raise AssertionError("it is never done")


def _die_at(patch, number):
    """Raise Killed at a command of a transaction; the list that is returned is then not empty."""
    done, has_died = [], []

    def dying(plain):
        def command(collection, *args, **options):
            if options.get("session") is None:
                return plain(collection, *args, **options)
            done.append(collection.name)
            if len(done) == number + 1:
                has_died.append(number)
                raise Killed
            return plain(collection, *args, **options)

        return command

    for name in COMMANDS:
        patch.setattr(Collection, name, dying(getattr(Collection, name)))
    patch.setattr(Database, "command", dying(Database.command))
    return has_died

"""What MongoDB's errors mean to those above, who know no MongoDB."""

from __future__ import annotations

from pymongo.errors import (
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
    WTimeoutError,
)

from app.errors import Unavailable

DatabaseError = PyMongoError

# Servers that are stopping, electing, overloaded or out of disk say so with these.
PASSING_CODES = frozenset(
    {6, 7, 50, 64, 89, 91, 134, 189, 202, 262, 290, 317, 10107, 11600, 11602, 13435, 13436, 14031}
)


def explain(error: PyMongoError) -> Unavailable | None:
    """Return what to tell a caller who may try again, or None where the fault is a bug of ours."""
    passing = isinstance(
        error, ConnectionFailure | ExecutionTimeout | WTimeoutError | WriteConcernError
    )
    if isinstance(error, OperationFailure):
        passing = passing or error.code in PASSING_CODES
    if passing or error.timeout:
        return Unavailable("The database is not available at the moment; please try again.")
    return None

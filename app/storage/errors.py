"""Translates errors of MongoDB for the layers above, which know no MongoDB."""

from __future__ import annotations

from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
    WTimeoutError,
)

from app.errors import Unavailable

DatabaseError = PyMongoError

UNAUTHORIZED = 13
DUPLICATE_KEY = 11000

# Errors of servers that are shutting down, electing a primary, overloaded or out of disk space.
TRANSIENT_CODES = frozenset(
    {6, 7, 50, 64, 89, 91, 134, 189, 202, 262, 290, 317, 10107, 11600, 11602, 13435, 13436, 14031}
)


def explain(error: PyMongoError) -> Unavailable | None:
    """Return Unavailable for a transient error, or None for one that is a bug of ours."""
    transient = isinstance(
        error, ConnectionFailure | ExecutionTimeout | WTimeoutError | WriteConcernError
    )
    if isinstance(error, BulkWriteError):
        details = error.details or {}
        faults = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
        transient = any(fault.get("code") in TRANSIENT_CODES for fault in faults)
    elif isinstance(error, OperationFailure):
        transient = transient or error.code in TRANSIENT_CODES
    if transient or error.timeout:
        return Unavailable("The database is not available at the moment; please try again.")
    return None


def has_only_duplicate_keys(error: BulkWriteError) -> bool:
    """Tell whether duplicate keys are the only errors, and a majority acknowledged the rest."""
    faults = error.details["writeErrors"]
    return not error.details.get("writeConcernErrors") and all(
        fault["code"] == DUPLICATE_KEY for fault in faults
    )


def is_forbidden(error: PyMongoError) -> bool:
    """Tell whether the MongoDB account lacks a privilege; it may still read and write."""
    return isinstance(error, OperationFailure) and error.code == UNAUTHORIZED

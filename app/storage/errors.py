"""Translates errors of MongoDB for the layers above, which know no MongoDB."""

from __future__ import annotations

from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WTimeoutError,
)

from app import metrics
from app.errors import Unavailable

DatabaseError = PyMongoError

UNAUTHORIZED = 13
DUPLICATE_KEY = 11000

# An index that a query used was dropped, as another process does that brings a schema up to date.
QUERY_PLAN_KILLED = 175

# Errors after which the same operation may succeed, with MongoDB's names.
TRANSIENT_CODES = {
    # A server is shutting down, or a primary is being elected.
    91: "ShutdownInProgress",
    189: "PrimarySteppedDown",
    10107: "NotWritablePrimary",
    11600: "InterruptedAtShutdown",
    11602: "InterruptedDueToReplStateChange",
    13435: "NotPrimaryNoSecondaryOk",
    13436: "NotPrimaryOrSecondary",
    133: "FailedToSatisfyReadPreference",
    134: "ReadConcernMajorityNotAvailableYet",
    # The network between servers.
    6: "HostUnreachable",
    7: "HostNotFound",
    89: "NetworkTimeout",
    202: "NetworkInterfaceExceededTimeLimit",
    317: "ConnectionPoolExpired",
    9001: "SocketException",
    # A server is overloaded, or out of disk space.
    24: "LockTimeout",
    50: "MaxTimeMSExpired",
    64: "WriteConcernFailed",
    262: "ExceededTimeLimit",
    290: "TransactionExceededLifetimeLimitSeconds",
    14031: "OutOfDiskSpace",
    # What a query was reading has gone: the server restarted, or somebody ended the query.
    43: "CursorNotFound",
    QUERY_PLAN_KILLED: "QueryPlanKilled",
    237: "CursorKilled",
    11601: "Interrupted",
}


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
    if isinstance(error, ServerSelectionTimeoutError):
        # No command was sent that could be counted as failed.
        metrics.MONGODB_FAILURES.labels("connect", "").inc()
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

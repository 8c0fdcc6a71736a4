"""Translates MongoDB errors for the layers above, which do not depend on MongoDB."""

from __future__ import annotations

import re

from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WTimeoutError,
)

from app.core import metrics
from app.core.errors import Unavailable

DatabaseError = PyMongoError

UNAUTHORIZED = 13
DUPLICATE_KEY = 11000

# An index that a query used was dropped, for example by a process that updates the schema.
QUERY_PLAN_KILLED = 175

# Errors after which the same operation may succeed, with their MongoDB names.
TRANSIENT_CODES = {
    # A server is shutting down, or a primary is being elected.
    91,  # ShutdownInProgress
    189,  # PrimarySteppedDown
    10107,  # NotWritablePrimary
    11600,  # InterruptedAtShutdown
    11602,  # InterruptedDueToReplStateChange
    13435,  # NotPrimaryNoSecondaryOk
    13436,  # NotPrimaryOrSecondary
    133,  # FailedToSatisfyReadPreference
    134,  # ReadConcernMajorityNotAvailableYet
    # The network between servers is unavailable.
    6,  # HostUnreachable
    7,  # HostNotFound
    89,  # NetworkTimeout
    202,  # NetworkInterfaceExceededTimeLimit
    317,  # ConnectionPoolExpired
    9001,  # SocketException
    # A server is overloaded, or out of disk space.
    24,  # LockTimeout
    50,  # MaxTimeMSExpired
    64,  # WriteConcernFailed
    262,  # ExceededTimeLimit
    290,  # TransactionExceededLifetimeLimitSeconds
    14031,  # OutOfDiskSpace
    # A query lost its cursor or snapshot: a restart, a killed query, or a changed collection.
    43,  # CursorNotFound
    QUERY_PLAN_KILLED,
    237,  # CursorKilled
    246,  # SnapshotUnavailable
    11601,  # Interrupted
}


# What MongoDB and the driver call the errors after which a transaction, or its commit, is repeated.
OF_TRANSACTIONS = ("TransientTransactionError", "UnknownTransactionCommitResult")


def explain(error: PyMongoError) -> Unavailable | None:
    """Return Unavailable for a transient error, or None for a bug in this program."""
    transient = lacks_sessions(error) or isinstance(
        error, ConnectionFailure | ExecutionTimeout | WTimeoutError | WriteConcernError
    )
    if isinstance(error, BulkWriteError):
        details = error.details or {}
        faults = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
        transient = any(fault.get("code") in TRANSIENT_CODES for fault in faults)
    elif isinstance(error, OperationFailure):
        transient = transient or error.code in TRANSIENT_CODES
    if isinstance(error, ServerSelectionTimeoutError):
        # No command was sent, so none was counted as failed.
        metrics.MONGODB_FAILURES.labels("connect", "").inc()
    # A transaction was ended by MongoDB, or its commit was not confirmed, until the deadline.
    transient = transient or any(map(error.has_error_label, OF_TRANSACTIONS))
    if transient or error.timeout:
        return Unavailable("The database is not available at the moment; please try again.")
    return None


def lacks_sessions(error: PyMongoError) -> bool:
    """Tell whether a connection was opened while its server had no sessions, in an election."""
    return isinstance(error, ConfigurationError) and "Sessions are not" in str(error)


def describe(error: PyMongoError) -> str:
    """Return a sentence for operators, who can mend a wrong host, set or password."""
    if isinstance(error, ServerSelectionTimeoutError | ConfigurationError):
        return f"MongoDB cannot be reached: {reason(error)}."
    if known := explain(error):
        return f"{known} ({reason(error)})"
    return f"MongoDB refused: {reason(error)}."


def reason(error: PyMongoError) -> str:
    """Return an error of pymongo without its timeouts, the state of all servers, and the reply."""
    text = re.split(", Timeout: |, full error: ", str(error))[0]
    text = re.sub(r" *\(configured timeouts: [^)]*\)|\[Errno -?[0-9]+\] ", "", text)
    # The faults of several servers follow each other without a space.
    return re.sub(r",\b", ", ", text).rstrip(".")


def has_only_duplicate_keys(error: BulkWriteError) -> bool:
    """Return whether duplicate keys are the only errors, and a majority acknowledged the rest."""
    faults = error.details["writeErrors"]
    return not error.details.get("writeConcernErrors") and all(
        fault["code"] == DUPLICATE_KEY for fault in faults
    )


def is_forbidden(error: PyMongoError) -> bool:
    """Return whether the MongoDB account lacks a privilege; it may still read and write."""
    return isinstance(error, OperationFailure) and error.code == UNAUTHORIZED

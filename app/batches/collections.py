"""The collections of batches: their shapes and indexes."""

from __future__ import annotations

from app.core.types import Document
from app.storage.schema.plan import CollectionPlan, expiry, index
from app.storage.schema.shapes import COUNT, GUID, MOMENT, TEXT, TEXT_OR_NULL, object_shape

OBJECT: Document = {"bsonType": "object"}
BATCHES = CollectionPlan(
    "batches",
    object_shape(
        {
            "_id": GUID,
            "Name": TEXT,
            "Reason": TEXT_OR_NULL,
            "At": MOMENT,
            "By": OBJECT,
            "Via": TEXT,
            "State": TEXT,
            "Rows": COUNT,
            "Counts": OBJECT,
        },
        {
            "StartedBy": OBJECT,
            "ApprovedBy": OBJECT,
            "PausedWhy": TEXT_OR_NULL,
            "Lease": OBJECT,
            "RequestKey": TEXT,
            "Fingerprint": TEXT,
            "ExpiresAt": MOMENT,
        },
    ),
    (
        index("time", "At", "_id"),
        index("author", "By.UserId"),
        index("starter", "StartedBy.UserId", sparse=True),
        index("approver", "ApprovedBy.UserId", sparse=True),
        index("planning", "At", partialFilterExpression={"State": "planning"}),
        index("running", "BegunAt", partialFilterExpression={"State": "running"}),
        index("request_key", "RequestKey", unique=True, sparse=True),
        expiry(),
    ),
)
# Rows whose player is unknown. Only these may hold the name of somebody else.
UNKNOWN: Document = {"Subject": None}
BATCH_ROWS = CollectionPlan(
    "batch_rows",
    object_shape(
        {
            "_id": TEXT,
            "Batch": GUID,
            "Player": TEXT_OR_NULL,
            "Subject": {"bsonType": ["object", "null"]},
            "Operation": TEXT_OR_NULL,
            "Arguments": OBJECT,
            "Verdict": TEXT,
            "Why": TEXT_OR_NULL,
            "Replanned": {"bsonType": "bool"},
        },
        {"Sent": OBJECT},
    ),
    (
        index("verdict", "Batch", "Verdict", "_id"),
        index("replanned", "Batch", "_id", partialFilterExpression={"Replanned": True}),
        index("unknown", "Batch", "_id", partialFilterExpression=UNKNOWN),
        index("subject", "Subject.Id", "_id"),
        expiry(),
    ),
)

"""Quartermaster without its history, which tells what history costs.

Everything else is as deployed: the same routes, rules and compare-and-swap, which then changes a
document without appending an entry to its Journal. So there is nothing to move, and no mover.
"""

from __future__ import annotations

from app import create_app
from app.changes import Applied, Change, Intent, Rule
from app.http.context import SERVICES
from app.storage import client
from app.storage.bulk_swap import BulkSwapper
from app.storage.schema.preparation import Preparation
from app.storage.swap import PATIENCE_SECONDS
from app.types import Document


class EntrylessSwapper(BulkSwapper):
    """Changes documents as if every change were bookkeeping, which has no entry."""

    def swap(
        self,
        where: Document,
        reads: tuple[str, ...],
        rule: Rule,
        intent: Intent,
        patience: float = PATIENCE_SECONDS,
    ) -> Applied:
        def entryless(document: Document) -> Change:
            return rule(document)._replace(has_entry=False)

        return super().swap(where, reads, entryless, intent, patience)


# The stores ask the storage for what changes their documents.
client.BulkSwapper = EntrylessSwapper  # type: ignore[misc]

app = create_app()
app.extensions[SERVICES][Preparation].begin()

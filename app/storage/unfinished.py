"""Changes of several documents, which any worker can finish.

MongoDB changes one document at a time. A change that spans several documents follows four rules:

1. One document decides. Its write contains the decision, the history entry, and a mark.
2. The others follow, each with a majority write whose filter contains its preconditions. So a step
   that is repeated, or runs an hour late, changes nothing.
3. Nothing is removed before a majority holds its replacement.
4. The mark is removed last. A worker that finds a mark carries out the remaining steps.

Every worker looks for marks about every five seconds, and so does db check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from app import metrics
from app.errors import Unavailable


class Unfinished(NamedTuple):
    """A kind of change that spans documents: how to find unfinished ones, and to finish them."""

    # For metrics and db check, such as "deletion of a player".
    name: str
    # Returns the ids of marked documents.
    find: Callable[[], Sequence[str]]
    # Carries out the remaining steps, or raises Unavailable to be retried later.
    finish: Callable[[str], None]


class UnfinishedWork:
    """All kinds of changes in one application that span documents."""

    def __init__(self, kinds: Sequence[Unfinished]) -> None:
        self._kinds = kinds

    def finish_all(self) -> None:
        """Finish the changes that others left unfinished; every worker does this regularly."""
        for kind in self._kinds:
            ids = kind.find()
            metrics.UNFINISHED.labels(kind.name).set(len(ids))
            for id_ in ids:
                self.finish(kind, id_)

    def find_all(self) -> Iterator[tuple[Unfinished, str]]:
        """Yield all changes that are unfinished at the moment."""
        for kind in self._kinds:
            for id_ in kind.find():
                yield kind, id_

    @staticmethod
    def finish(kind: Unfinished, id_: str) -> bool:
        """Try to finish a change; return whether it is finished."""
        try:
            kind.finish(id_)
        except Unavailable:
            return False
        return True

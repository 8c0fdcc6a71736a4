"""Changes of several documents, finished by whoever finds them half done.

MongoDB changes one document at a time. A change that spans several goes by four rules:

1. One document decides. Its write holds the decision, the entry of history, and a mark.
2. The others follow, each by a write that a majority acknowledges, and whose filter holds what it
   rests on. So a step that is repeated, or comes an hour late, changes nothing.
3. Nothing is removed before a majority is known to hold what takes its place.
4. The mark is removed last. Whoever finds one carries out what is left.

Every worker looks for marks about every five seconds, and so does db check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from app import metrics
from app.errors import Unavailable


class Unfinished(NamedTuple):
    """A kind of change that spans documents: how marks of it are found, and it is carried out."""

    # For metrics and db check, such as "deletion of a player".
    name: str
    # Returns the ids of what is marked.
    find: Callable[[], Sequence[str]]
    # Carries out what is left, or raises Unavailable: then it is tried again later.
    finish: Callable[[str], None]


class UnfinishedWork:
    """All kinds of changes of one application that span documents."""

    def __init__(self, kinds: Sequence[Unfinished]) -> None:
        self._kinds = kinds

    def finish_all(self) -> None:
        """Carry out what others have left; a chore of every worker."""
        for kind in self._kinds:
            ids = kind.find()
            metrics.UNFINISHED.labels(kind.name).set(len(ids))
            for id_ in ids:
                self.finish(kind, id_)

    def find_all(self) -> Iterator[tuple[Unfinished, str]]:
        """Yield all that is half done at the moment."""
        for kind in self._kinds:
            for id_ in kind.find():
                yield kind, id_

    @staticmethod
    def finish(kind: Unfinished, id_: str) -> bool:
        """Try to carry out what is left of a change; tell whether all of it is done."""
        try:
            kind.finish(id_)
        except Unavailable:
            return False
        return True

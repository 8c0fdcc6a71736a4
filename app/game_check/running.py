"""What a write tells by its filter, caught while MongoDB carries it out. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from app.game_check import habits
from app.game_check.findings import Findings, terminal_text
from app.game_check.stored import OWN_FIELDS, PRESENCE
from app.types import Document

# The same write may be caught several times, one soon after another.
MOST_REMEMBERED = 10_000
# Who sets all of these sets all that it has read.
_OF_WHOLE_DOCUMENTS = ({"Journal", "NameKey"}, {"Journal", "SlotCount"}, {"_id"})


class RunningWrites:
    """Judges writes as $currentOp shows them, each once."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._seen: OrderedDict[Any, None] = OrderedDict()
        # Of how many writes of a game the filter was seen.
        self.count = 0

    def see(self, operation: Document) -> None:
        """Judge a write that is neither the service's nor part of a transaction."""
        command = operation.get("command")
        key = (operation.get("host"), operation.get("opid"))
        if key in self._seen or not isinstance(command, dict):
            return
        self._seen[key] = None
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)
        where = command.get("q", command.get("query"))
        update = command.get("u", command.get("update"))
        fields = set(_fields_of(update))
        if not isinstance(where, dict) or fields <= PRESENCE | {"Version"}:
            return
        self.count += 1
        self._judge(operation, where, update, fields)

    def _judge(self, operation: Document, where: Document, update: Any, fields: set[str]) -> None:
        noun = f"write to {str(operation.get('ns')).rpartition('.')[2]}"
        example = terminal_text(str(where.get("_id")))
        if any(names <= fields for names in _OF_WHOLE_DOCUMENTS):
            self._findings.add(habits.WHOLE_DOCUMENTS, noun, example)
        elif fields <= OWN_FIELDS:
            # In a change stream, this looks like the service that moves entries.
            self._findings.add(habits.OWN_FIELDS_WRITTEN, noun, example, sorted(fields))
        elif _counts_up(update) and not _names_version(where):
            self._findings.add(habits.UNFILTERED_WRITES, noun, example, [_client_of(operation)])


def _fields_of(update: Any) -> Iterable[str]:
    """Yield the top-level fields that an update names: one by operators, or a pipeline."""
    stages = update if isinstance(update, list) else [update]
    for stage in stages:
        for operator, values in stage.items() if isinstance(stage, dict) else ():
            if not operator.startswith("$"):
                yield operator  # A replacement.
            elif isinstance(values, dict):
                yield from (str(path).partition(".")[0] for path in values)


def _counts_up(update: Any) -> bool:
    counted = update.get("$inc") if isinstance(update, dict) else None
    return isinstance(counted, dict) and counted.get("Version") == 1


def _names_version(where: Any) -> bool:
    """Tell whether a filter says anything of Version, at whatever depth."""
    if isinstance(where, dict):
        return "Version" in where or any(map(_names_version, where.values()))
    return isinstance(where, list) and any(map(_names_version, where))


def _client_of(operation: Document) -> str:
    """Return by what name a client has introduced itself to MongoDB."""
    metadata = operation.get("clientMetadata")
    driver = metadata.get("driver") if isinstance(metadata, dict) else None
    name = driver.get("name") if isinstance(driver, dict) else None
    unnamed = f"a client without a name ({name})" if name else "a client without a name"
    return str(operation.get("appName") or unnamed)

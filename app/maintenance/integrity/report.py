"""The output of db check."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

import click

from app.core.naming import printable
from app.core.types import Document
from app.storage.schema.explain_validator import Fault

# The id of a refresh token is its hash: a report shows only enough digits to distinguish tokens.
TOKEN_HASH_DIGITS_SHOWN = 8
CLASH = "another has the same key, or it was being changed"


class Report:
    """Prints findings during the scan, and counts them for the summary."""

    def __init__(self, repair: bool) -> None:
        self._repair = repair
        self._checked: Counter[str] = Counter()
        self._notes: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._repairable = self._repaired = self.unrepaired = 0

    def count(self, name: str, count: int) -> None:
        """Count the documents that were checked."""
        self._checked[name] += count

    def add(
        self, fault: str, is_repairable: bool, is_repaired: bool = False, why_not: str = ""
    ) -> None:
        """Report a fault, and whether it can be or was repaired."""
        self.unrepaired += not is_repaired
        self._repaired += is_repaired
        self._repairable += is_repairable
        outcome = "can be repaired" if is_repairable else "needs manual repair"
        if self._repair and is_repairable:
            outcome = "repaired" if is_repaired else f"not repaired: {why_not}"
        _print(f"{fault} ({outcome})")

    def add_fault(
        self, name: str, document: Document, fault: Fault, is_repairable: bool, is_repaired: bool
    ) -> None:
        """Report a fault of a document."""
        line = f"{_label(name, document)}: {printable(fault.where)} {printable(fault.what)}"
        self.add(line, is_repairable, self._repair and is_repaired, CLASH)

    def add_lost_player(self, last: Document) -> None:
        """Report a player that is in neither collection, with its last history entry."""
        at = last["At"].isoformat(timespec="seconds")
        fault = f"was deleted at {at}, but is neither among the players nor among the deleted"
        label = _label("players", {**last["Subject"], "_id": last["Subject"]["Id"]})
        self.add(f"{label}: {fault} players: restore it from another dump", is_repairable=False)

    def add_note(self, name: str, id_: str, note: str) -> None:
        """Note what may be a fault; notes are printed together."""
        self._notes[name, note].append(id_)

    def print_notes(self) -> None:
        for (name, note), ids in sorted(self._notes.items()):
            more = f" and {len(ids) - 1:,} others" if len(ids) > 1 else ""
            _print(f"Note: {name} {printable(ids[0])}{more}: {note}")

    def summary(self, database: str) -> str:
        checked = ", ".join(f"{count} {name}" for name, count in self._checked.items() if count)
        found = self.unrepaired + self._repaired
        noun = "fault" if found == 1 else "faults"
        outcome = f"{found or 'no'} {noun} found"
        if self._repair and found:
            outcome += f", {self._repaired} repaired, {self.unrepaired} left"
        elif found:
            outcome += f", of which --repair repairs {self._repairable}"
        return f"{database}: checked {checked or 'nothing'}; {outcome}."


def _label(collection: str, document: Document) -> str:
    id_, name = str(document["_id"]), document.get("Name")
    if collection == "refresh_tokens":
        id_ = f"{id_[:TOKEN_HASH_DIGITS_SHOWN]}..."
    return f"{collection} {printable(id_)}" + (
        f" ({printable(name)})" if isinstance(name, str) else ""
    )


def _print(line: str) -> None:
    if sys.stderr.isatty():
        # Clear the progress bar; its next update redraws it below the line.
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(line)

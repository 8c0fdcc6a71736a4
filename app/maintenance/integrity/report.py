"""The output of db check."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict

import click

from app.core.naming import printable
from app.core.types import Document

# The id of a refresh token is its hash: a report shows only enough digits to distinguish tokens.
TOKEN_HASH_DIGITS_SHOWN = 8


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

    def add(self, fault: str, is_repairable: bool, is_repaired: bool = False) -> None:
        """Report a fault, and whether it can be or was repaired."""
        self.unrepaired += not is_repaired
        self._repaired += is_repaired
        self._repairable += is_repairable
        outcome = "can be repaired" if is_repairable else "needs manual repair"
        if self._repair and is_repairable:
            why_not = "another has the same key, or it was being changed"
            outcome = "repaired" if is_repaired else f"not repaired: {why_not}"
        _print(f"{fault} ({outcome})")

    def add_fault(
        self, name: str, document: Document, fault: str, is_repairable: bool, is_repaired: bool
    ) -> None:
        """Report a fault of a document."""
        id_, called = str(document["_id"]), document.get("Name")
        if name == "refresh_tokens":
            id_ = f"{id_[:TOKEN_HASH_DIGITS_SHOWN]}..."
        label = f" ({printable(called)})" if isinstance(called, str) else ""
        line = f"{name} {printable(id_)}{label}: {printable(fault)}"
        self.add(line, is_repairable, is_repairable and is_repaired)

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
        outcome = f"{found or 'no'} {'fault' if found == 1 else 'faults'} found"
        if self._repair and found:
            outcome += f", {self._repaired} repaired, {self.unrepaired} left"
        elif found:
            outcome += f", of which --repair repairs {self._repairable}"
        return f"{database}: checked {checked or 'nothing'}; {outcome}."


def _print(line: str) -> None:
    if sys.stderr.isatty():
        # Clear the progress bar; its next update redraws it below the line.
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(line)

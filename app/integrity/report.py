"""What db check prints."""

from __future__ import annotations

import sys
from collections import Counter

import click

from app.integrity.scan import Finding

# Who reads a report need not see the hashes by which tokens are known.
SHOWN_OF_HASH = 8


class Report:
    """Prints findings as they come, and counts them."""

    def __init__(self, repair: bool) -> None:
        self._repair = repair
        self._checked: Counter[str] = Counter()
        self._repairable = self._repaired = self.left = 0

    def add_of_database(self, name: str, fault: str) -> None:
        """Report what is wrong with a collection as a whole."""
        self.left += 1
        self._repairable += not self._repair
        _print(f"{name}: {fault} ({'left to you' if self._repair else 'can be repaired'})")

    def add(self, name: str, count: int, findings: list[Finding]) -> None:
        """Report what was found on some documents."""
        self._checked[name] += count
        for finding in findings:
            is_repaired = self._repair and finding.is_repaired
            self.left += not is_repaired
            self._repaired += is_repaired
            self._repairable += finding.is_repairable
            where, what = _printable(finding.fault.where), _printable(finding.fault.what)
            _print(f"{_named(finding)}: {where} {what} ({self._outcome(finding)})")

    def _outcome(self, finding: Finding) -> str:
        if not finding.is_repairable:
            return "left to you"
        if not self._repair:
            return "can be repaired"
        is_changing = "not repaired: another has the same key, or it was being changed"
        return "repaired" if finding.is_repaired else is_changing

    def summary(self, database: str) -> str:
        """Return the last line."""
        checked = ", ".join(f"{count} {name}" for name, count in self._checked.items() if count)
        found = self.left + self._repaired
        noun = "fault" if found == 1 else "faults"
        outcome = f"{found or 'no'} {noun} found"
        if self._repair and found:
            outcome += f", {self._repaired} repaired, {self.left} left"
        elif found:
            outcome += f", of which --repair repairs {self._repairable}"
        return f"{database}: checked {checked or 'nothing'}; {outcome}."


def _named(finding: Finding) -> str:
    id_ = str(finding.document["_id"])
    if finding.collection == "refresh_tokens":
        id_ = f"{id_[:SHOWN_OF_HASH]}..."
    name = finding.document.get("Name")
    named = f" ({_printable(name)})" if isinstance(name, str) else ""
    return f"{finding.collection} {_printable(id_)}{named}"


def _printable(text: str) -> str:
    """Return a text that is one line, whatever somebody stored."""
    return text if text.isprintable() else repr(text)


def _print(line: str) -> None:
    if sys.stderr.isatty():
        # The bar is drawn anew below the line.
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(line)

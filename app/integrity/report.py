"""The output of db check."""

from __future__ import annotations

import sys
from collections import Counter

import click

from app.integrity.scan import Finding
from app.naming import printable
from app.types import Document

# The id of a refresh token is its hash: a report shows only enough digits to distinguish tokens.
TOKEN_HASH_DIGITS_SHOWN = 8


class Report:
    """Prints findings during the scan, and counts them for the summary."""

    def __init__(self, repair: bool) -> None:
        self._repair = repair
        self._checked: Counter[str] = Counter()
        self._repairable = self._repaired = self.unrepaired = 0

    def add_collection_fault(self, name: str, fault: str) -> None:
        """Report a missing index, a missing validator or duplicate keys."""
        self.unrepaired += 1
        self._repairable += not self._repair
        _print(f"{name}: {fault} ({'needs manual repair' if self._repair else 'can be repaired'})")

    def add_returned(self, name: str, id_: str, is_text: bool, is_repaired: bool) -> None:
        """Report an erased person whose data has returned, or who is named in a text."""
        fault = "names somebody who was erased" if is_text else "was erased, but exists again"
        self._add_repairable(f"{name} {printable(id_)}: {fault}", is_repaired)

    def add_unfinished(self, kind: str, id_: str, is_repaired: bool) -> None:
        """Report a change of several documents that is not finished."""
        self._add_repairable(f"{kind} {printable(id_)}: is not finished", is_repaired)

    def add_lost_player(self, last: Document) -> None:
        """Report a player that is in neither collection, with its last history entry."""
        self.unrepaired += 1
        subject, at = last["Subject"], last["At"].isoformat(timespec="seconds")
        done = "restored" if last["Operation"] == "undo" else "deleted"
        fault = (
            f"was {done} at {at}, but is neither among the players nor among the deleted players"
        )
        name = f" ({printable(subject['Name'])})" if isinstance(subject.get("Name"), str) else ""
        _print(
            f"players {subject['Id']}{name}: {fault}: restore it from another dump "
            "(needs manual repair)"
        )

    def _add_repairable(self, fault: str, is_repaired: bool) -> None:
        outcome = "repaired" if is_repaired else "not repaired: it is in progress"
        self.unrepaired += not is_repaired
        self._repaired += is_repaired
        self._repairable += 1
        _print(f"{fault} ({outcome if self._repair else 'can be repaired'})")

    def add_findings(self, name: str, count: int, findings: list[Finding]) -> None:
        """Report the findings of a batch of count documents."""
        self._checked[name] += count
        for finding in findings:
            is_repaired = self._repair and finding.is_repaired
            self.unrepaired += not is_repaired
            self._repaired += is_repaired
            self._repairable += finding.is_repairable
            where, what = printable(finding.fault.where), printable(finding.fault.what)
            _print(f"{_label(finding)}: {where} {what} ({self._outcome(finding)})")

    def _outcome(self, finding: Finding) -> str:
        if not finding.is_repairable:
            return "needs manual repair"
        if not self._repair:
            return "can be repaired"
        not_repaired = "not repaired: another has the same key, or it was being changed"
        return "repaired" if finding.is_repaired else not_repaired

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


def _label(finding: Finding) -> str:
    id_ = str(finding.document["_id"])
    if finding.collection == "refresh_tokens":
        id_ = f"{id_[:TOKEN_HASH_DIGITS_SHOWN]}..."
    name = finding.document.get("Name")
    name_shown = f" ({printable(name)})" if isinstance(name, str) else ""
    return f"{finding.collection} {printable(id_)}{name_shown}"


def _print(line: str) -> None:
    if sys.stderr.isatty():
        # Clear the progress bar; its next update redraws it below the line.
        click.echo("\r\x1b[K", nl=False, err=True)
    click.echo(line)

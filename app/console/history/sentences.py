"""Sentences about entries of history, and about the rows of batches. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from app.console.frame.times import parsed
from app.core.operations import BY_CHANGES, NOTICE, batch_operations, find_operation
from app.core.texts import Names, count_text, name_of, sentence, short_text, whole_text, words_of
from app.core.types import Document, whole

MINUS = "\N{MINUS SIGN}"
ARROW = "\N{RIGHTWARDS ARROW}"
GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNIT_SECONDS = {"day": 86400, "hour": 3600, "minute": 60}
ITEM_FIELDS = ("ItemId", "BagId", "StatBuffs")
# The arguments that only developers need.
RAW = ("Event", "Item")
# The sides of a change, each with the sign of its value.
SIDES = (("Before", -1), ("After", 1))
# The labels of the filters on the page of a batch.
FILTER_LABELS = {
    "By": "made by",
    "Key": "with the key",
    "Operation": "with the operation",
    "Item": "about",
    "From": "from",
    "To": "before",
}


class Line(NamedTuple):
    """A line about a change: a signed amount, if something was added or removed, and a text."""

    text: str
    amount: int = 0

    @property
    def sign(self) -> str:
        """Return the amount with its sign: +5, or a minus sign (U+2212) and 5."""
        return f"{'+' if self.amount > 0 else MINUS}{abs(self.amount):,}" if self.amount else ""

    def __str__(self) -> str:
        return f"{self.sign} {self.text}".strip()


def lines_text(entry: Document) -> str:
    return ", ".join(map(str, entry["Lines"]))


def with_names(text: str, names: Names) -> str:
    """Return a text with the ids of objects replaced by names."""
    return GUID.sub(lambda match: names.get(match[0]) or match[0], text)


def named_arguments(arguments: Document | None, names: Names) -> Document:
    """Return the arguments of an entry with names instead of ids."""
    return {
        name: (names.get(value) or value) if isinstance(value, str) else value
        for name, value in (arguments or {}).items()
    }


def lines(entry: Document, names: Names) -> list[Line]:
    """Return the lines about the effects of a change."""
    operation = find_operation(entry["Operation"], entry["Subject"]["Kind"])
    template = operation.sentence if operation else BY_CHANGES
    if template.startswith("{changes") and entry["Changes"]:
        return _change_lines(entry["Changes"], names)
    otherwise = f"{entry['Operation'].capitalize()}: nothing changed"
    arguments = named_arguments(entry.get("Arguments"), names)
    return [Line(sentence(template, **arguments, changes=otherwise))]


def reverse_of(entry: Document) -> Document:
    """Return an entry with its changes reversed, as an undo does."""
    changes = [
        {**change, "Before": change["After"], "After": change["Before"]}
        for change in entry["Changes"]
    ]
    return {**entry, "Changes": changes}


def _change_lines(changes: Iterable[Document], names: Names) -> list[Line]:
    """Return lines about items, summed over all containers, and then about other changes."""
    items: Counter[str] = Counter()
    others = []
    for change in changes:
        root = change["Path"].partition(".")[0]
        if root in ("Inventory", "Bank", "Slots"):
            for side, sign in SIDES:
                if _is_slot(slot := change[side]):
                    items[slot["ItemId"]] += sign * (whole(slot.get("Quantity")) or 0)
        else:
            others += _other_lines(change, names)
    return [Line(name_of(id_, names), count) for id_, count in items.items()] + others


def _other_lines(change: Document, names: Names) -> list[Line]:
    """Return the lines about a change of anything but items, by its field."""
    before, after = change["Before"], change["After"]
    root, _, place = change["Path"].partition(".")
    if root == "Spells":
        return [Line(name_of(change[side], names), sign) for side, sign in SIDES if change[side]]
    if root == "DeletedAt":
        return [Line("Deleted" if after else "Brought back")]
    if root == "NeedsSecondFactor":
        return [Line(f"Second factor {'required' if after else 'no longer required'}")]
    if before is None and after is None:
        # History stores no values of secrets and notes, and of somebody who was erased.
        return [Line(f"{words_of(root)} changed")]
    if root in ("Roles", "GroupRoles", "Permissions"):
        former, held = (side if isinstance(side, list) else [] for side in (before, after))
        added = [f"+{name}" for name in held if name not in former]
        removed = [f"{MINUS}{name}" for name in former if name not in held]
        return [Line(f"{change['Path']}: {', '.join([*added, *removed]) or 'in another order'}")]
    label = change["Path"]
    if root == "Variables":
        label = name_of(place, names)
    elif root == "Name":
        label = "Renamed"
    elif root == "Limits":
        # The path ends with a name such as ItemsPerDay.
        label = words_of(place or root)
        before, after = ("no limit" if most is None else most for most in (before, after))
    return [Line(f"{label}: {value_text(before, names)} {ARROW} {value_text(after, names)}")]


def _is_slot(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("ItemId"), str)


def value_text(value: Any, names: Names) -> str:
    """Return a value of a change as text, with the names of objects and items."""
    if not _is_slot(value):
        name = names.get(value) if isinstance(value, str) else None
        return name or short_text(value)
    rest = {k: v for k, v in value.items() if k not in ("Quantity", *ITEM_FIELDS)}
    text = f"{short_text(value.get('Quantity'))} {item_text(value, names)}"
    return f"{text} {short_text(rest)}" if rest else text


def item_text(item: Document, names: Names) -> str:
    """Return the name of the item in a slot, with what makes it special."""
    buffs = item.get("StatBuffs")
    text = name_of(item["ItemId"], names)
    if isinstance(buffs, list) and any(buffs):
        text = f"{text} +{sum(filter(whole, buffs))} ({', '.join(map(str, buffs))})"
    return f"{text} with its contents" if item.get("BagId") else text


def path_text(path: str, names: Names) -> str:
    """Return the path of a change as words: Inventory, slot 4."""
    root, _, place = path.partition(".")
    where = f"slot {place}" if place.isdecimal() else names.get(place, place)
    return f"{words_of(root)}{', ' if where else ''}{where}"


def argument_texts(entry: Document, names: Names) -> list[tuple[str, str]]:
    named = named_arguments(entry.get("Arguments"), names)
    return [
        (words_of(name), ("no", "yes")[value] if isinstance(value, bool) else short_text(value))
        for name, value in named.items()
        if name not in RAW
    ]


def notice(entry: Document, names: Names) -> str:
    """Return the notice about a change that was just made."""
    operation = find_operation(entry["Operation"], entry["Subject"]["Kind"])
    text = sentence(
        operation.notice if operation else NOTICE,
        **named_arguments(entry.get("Arguments"), names),
        whom=entry["Subject"]["Name"] or "it",
        lines=lines_text({"Lines": lines(entry, names)}),
    )
    return f"{text} {entry['Warning']}" if entry.get("Warning") else text


def duration(seconds: int) -> str:
    """Return a duration in its largest unit."""
    for unit, size in UNIT_SECONDS.items():
        if seconds >= size:
            return count_text(seconds // size, unit)
    return "less than a minute"


def row_sentence(row: Document, names: Names) -> str:
    """Return a sentence about what a row does; a malformed row has no arguments."""
    if row["Operation"] is None or not row["Arguments"]:
        return row["Operation"] or ""
    found = batch_operations()[row["Operation"]].batch
    return sentence(found.order if found else "", **named_arguments(row["Arguments"], names))


def filter_texts(chosen: Document, names: Names) -> list[tuple[str, str]]:
    """Return the filters of the changes that a batch undoes, as labels and texts."""
    texts = []
    for name, label in FILTER_LABELS.items():
        if text := str(chosen.get(name, "")):
            if name == "Item":
                text = name_of(text, names)
            elif name in ("From", "To"):
                text = whole_text(parsed(text) or text)
            texts.append((label, text))
    return texts

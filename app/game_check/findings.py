"""Which habits a game shows, how often, and some of the documents that show them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from app.game_check.habits import Habit
from app.naming import printable
from app.types import Document

MOST_EXAMPLES = 2
# Of the fields that show a habit, how many are named and how many are counted.
FIELDS_NAMED, FIELDS_COUNTED = 4, 100
LONGEST_TEXT = 80
_VERBS = {"was": "were", "is": "are", "has": "have"}


class Finding:
    """A habit, how many documents or writes show it, and some of them."""

    def __init__(self, habit: Habit, noun: str) -> None:
        self.habit = habit
        self.noun = noun
        self.count = 0
        self._fields: Counter[str] = Counter()
        self._examples: list[str] = []

    def add(self, example: str | None, fields: Iterable[str] = (), count: int = 1) -> None:
        self.count += count
        for field in fields:
            if field in self._fields or len(self._fields) < FIELDS_COUNTED:
                self._fields[field] += 1
        is_new = example is not None and example not in self._examples
        if is_new and len(self._examples) < MOST_EXAMPLES:
            self._examples.append(str(example))

    def sentence(self) -> str:
        verbs = {one: several if self.count != 1 else one for one, several in _VERBS.items()}
        return self.habit.sentence.format(many=self._many(), fields=self._named(), **verbs)

    def _many(self) -> str:
        """Return how many there are, and some of them as an apposition."""
        many = counted_noun(self.count, self.noun)
        if not self._examples:
            return many
        such = "such as " if self.count > len(self._examples) else ""
        return f"{many}, {such}{' and '.join(self._examples)},"

    def text(self) -> str:
        return f"{self.sentence()} {self.habit.instead}"

    def _named(self) -> str:
        names = [name for name, _ in self._fields.most_common()]
        shown, more = names[:FIELDS_NAMED], len(names) - FIELDS_NAMED
        return enumeration([*shown, f"{more} more"] if more > 0 else shown)

    def as_record(self) -> Document:
        return {
            "Habit": self.habit.name,
            "Of": self.noun,
            "Count": self.count,
            "Fields": sorted(self._fields),
            "Examples": self._examples,
            "Sentence": self.sentence(),
            "Instead": self.habit.instead,
        }


class Findings:
    """All that was found, in bounded memory: counts, and a few examples of each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Finding] = {}

    def __iter__(self) -> Iterator[Finding]:
        yield from self._found.values()

    def __len__(self) -> int:
        return len(self._found)

    def add(
        self,
        habit: Habit,
        noun: str,
        example: str | None,
        fields: Iterable[str] = (),
        count: int = 1,
    ) -> None:
        """Note that documents show a habit; the noun is what one of them is."""
        if count:
            found = self._found.setdefault((habit.name, noun), Finding(habit, noun))
            found.add(example, map(terminal_text, fields), count)


def example_of(document: Document) -> str:
    """Return the name and the id of a document, as far as it has them."""
    id_, name = terminal_text(str(document.get("_id"))), document.get("Name")
    return f"{terminal_text(name)} ({id_})" if isinstance(name, str) else id_


def terminal_text(text: str) -> str:
    """Return a text of a database as a terminal may show it."""
    text = printable(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def counted_noun(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    # The plural of "write to players" is in its middle.
    head, to, rest = noun.partition(" to ")
    return f"{count:,} {head}s{to}{rest}"


def enumeration(names: list[str]) -> str:
    """Return names as a sentence lists them."""
    *most, last = names or [""]
    return f"{', '.join(most)} and {last}" if most else last

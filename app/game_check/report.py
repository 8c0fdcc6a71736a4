"""The report of game check: habits, how often each was seen, and a summary. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from app.game_check.habits import Habit
from app.naming import printable
from app.types import Document

MOST_EXAMPLES = 2
# How many fields of a finding are named, and how many are counted.
FIELDS_NAMED, FIELDS_COUNTED = 4, 100
LONGEST_TEXT = 80
_VERBS = {"was": "were", "is": "are", "has": "have"}
_NOUNS = {"games": "game server"}


class Finding:
    """A habit, the number of documents or writes that show it, and some examples."""

    def __init__(self, habit: Habit, noun: str) -> None:
        self.habit = habit
        self.noun = noun
        self.count = 0
        self._fields: Counter[str] = Counter()
        self._examples: list[str] = []

    def add(self, example: str | None, fields: Iterable[str], count: int) -> None:
        self.count += count
        for field in map(terminal_text, fields):
            if field in self._fields or len(self._fields) < FIELDS_COUNTED:
                self._fields[field] += 1
        is_new = example is not None and example not in self._examples
        if is_new and len(self._examples) < MOST_EXAMPLES:
            self._examples.append(str(example))

    def sentence(self) -> str:
        many = counted_noun(self.count, self.noun)
        if self._examples:
            such = "such as " if self.count > len(self._examples) else ""
            many = f"{many}, {such}{' and '.join(self._examples)},"
        names = [name for name, _ in self._fields.most_common()]
        more = len(names) - FIELDS_NAMED
        fields = [*names[:FIELDS_NAMED], f"{more} more"] if more > 0 else names
        verbs = {one: several if self.count != 1 else one for one, several in _VERBS.items()}
        return self.habit.sentence.format(many=many, fields=enumeration(fields), **verbs)

    def text(self) -> str:
        return f"{self.sentence()} {self.habit.instead}"

    def as_record(self) -> Document:
        return {
            "Habit": self.habit.label,
            "Of": self.noun,
            "Count": self.count,
            "Fields": sorted(self._fields),
            "Examples": self._examples,
            "Sentence": self.sentence(),
            "Instead": self.habit.instead,
        }


class Findings(dict[tuple[Habit, str], Finding]):
    """All findings, in bounded memory: counts, and a few examples of each."""

    def add(
        self,
        habit: Habit,
        noun: str,
        example: str | None,
        fields: Iterable[str] = (),
        count: int = 1,
    ) -> None:
        """Add documents or writes that show a habit; the noun names one of them."""
        if count:
            self.setdefault((habit, noun), Finding(habit, noun)).add(example, fields, count)


def example_of(document: Document) -> str:
    """Return the name and the id of a document, without what is missing."""
    id_, name = terminal_text(str(document.get("_id"))), document.get("Name")
    return f"{terminal_text(name)} ({id_})" if isinstance(name, str) else id_


def terminal_text(text: str) -> str:
    """Return a text from the database, escaped for a terminal."""
    text = printable(text)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def counted_noun(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    # The plural of "write to players" is "writes to players".
    head, to, rest = noun.partition(" to ")
    return f"{count:,} {head}s{to}{rest}"


def enumeration(names: list[str]) -> str:
    """Return names as a list in a sentence: a, b and c."""
    *most, last = names or [""]
    return f"{', '.join(most)} and {last}" if most else last


def summary(database: str, looked_at: Counter[str], watched: str, count: int) -> str:
    seen = enumeration(
        [counted_noun(n, _NOUNS.get(name, name.removesuffix("s"))) for name, n in looked_at.items()]
    )
    outcome = "No bad habits were found."
    if count:
        outcome = f"{counted_noun(count, 'habit')} to change, by the rules of docs/game.rst."
    return f"{database}: looked at {seen or 'nothing'}. {watched} {outcome}"


def watch_summary(
    seconds: int, compared: int | None, writes: int, presence: int, idle: int, filters: int | None
) -> str:
    if not seconds:
        return "Its writes were not watched."
    time = counted_noun(seconds, "second")
    if compared is not None:
        players = f"{counted_noun(compared, 'player')} that were looked at twice"
        if not writes:
            return f"In {time}, no game was seen to change {players}."
        return f"In {time}, a game changed {writes:,} of {players}. {_filters_seen(filters)}"
    if writes or presence:
        seen = f"{counted_noun(writes, 'write')} of a game and {presence:,} of who is online"
        return f"In {time}, {seen} were seen. {_filters_seen(filters)}"
    nothing = f"In {time}, no write of a game took effect"
    if not idle:
        return f"{nothing}."
    refused = "MongoDB refused them, or they matched nothing"
    return f"{nothing}, and {counted_noun(idle, 'write')} changed nothing: {refused}."


def _filters_seen(count: int | None) -> str:
    if count is None:
        return "The filters of its writes are not visible: the account lacks the privilege inprog."
    if not count:
        return "No filters of its writes were seen: watch for longer."
    return f"The filter of {counted_noun(count, 'write')} was seen."


def left_online(count: int, seconds: int) -> str:
    """Return a sentence on how many players are Online although no game confirms it any more."""
    players, are = counted_noun(count, "player"), "is" if count == 1 else "are"
    return (
        f"{players} {are} Online, but no game reports them: by {online_setting(seconds)}, "
        "they would count as offline."
    )


def online_setting(seconds: int) -> str:
    return f"the {counted_noun(seconds, 'second')} of QM_ONLINE_TTL_SECONDS"

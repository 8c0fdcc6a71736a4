"""Operations: one declaration contains all that the service needs to execute and show one. Pure.

Each room declares its operations in its operations.py, next to their rules. Routes, history
filters, undo, batches, the console, the commands and the OpenAPI document read them from here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

from app.core.changes import Applied, Change, Intent, Rule
from app.core.errors import QuartermasterError
from app.core.permissions import Need, Permission, of_people
from app.core.types import Document

# The subject of an operation that changes documents of every kind.
ANY = "any"
# The history sentence of an operation that is best described by its changes.
BY_CHANGES = "{changes}"
# The default notice of a console page.
NOTICE = "{whom}: {lines}."


class IncompleteOperation(Exception):
    """The declaration of an operation is incomplete, or contradicts another."""


class Prepared(NamedTuple):
    """A change that is ready to be made: the fields that it reads, its rule, and its intent."""

    reads: tuple[str, ...]
    rule: Rule
    intent: Intent


ReadsAndRule = tuple[tuple[str, ...], Rule]
Prepare = Callable[[Document], ReadsAndRule]
Key = Any
# Executes an operation on the document with a key, with its arguments and for an intent.
Run = Callable[[Key, Document, Intent], Applied]
# Returns the changes that it would make, or raises why it is impossible or not allowed.
Preview = Callable[[Key, Document, Intent], list[Document]]
# The number of items that are moved, by item id. A text means unknown, and names the change: a key
# with a budget and a person with a limit are then refused. None: the change moves no items.
Moved = Mapping[str, int] | str | None


def no_items(_: Any) -> Moved:
    return None


@dataclass(frozen=True)
class UnknownItems:
    """Nobody can tell which items a change moves; what names it in the refusal."""

    what: str

    def __call__(self, _: Any) -> Moved:
        return self.what


class NotUndoable(NamedTuple):
    """Why an operation cannot be undone."""

    why: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Inverse:
    """Undoes changes to some fields; undoing the undo restores them."""

    fields: tuple[str, ...]
    # Takes the document, and the changes of the entry as changes.
    rule: Callable[..., Change]
    # What the rule reads, if that is not these fields.
    reads: tuple[str, ...] = ()
    # The items that it moves.
    moves: Callable[[list[Document]], Moved] = no_items
    # Whether a batch may combine it with others; values that must be unique are written one by one.
    in_bulk: bool = True
    # Whether the rule takes is_partial, to undo as much as possible and warn about the rest.
    takes_partial: bool = False

    def prepare(self, changes: list[Document], intent: Intent) -> Prepared:
        """Return the undo that an intent asks for: of all changes, or as much as possible."""
        rule = partial(self.rule, changes=changes)
        if self.takes_partial:
            rule = partial(rule, is_partial=bool(intent.arguments.get("Partial")))
        return Prepared(self.reads or self.fields, rule, intent)


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnInverse:
    """An inverse that changes several documents, and so executes itself."""

    fields: tuple[str, ...]
    make: Callable[[Document, Intent], Applied]
    moves: Callable[[list[Document]], Moved]


class BatchRow(NamedTuple):
    """How a batch executes an operation, and the sentences for one row and for all rows of a kind.

    The arguments of a row have their history names. The sentence for all rows may contain {object}
    and {whom}. If an argument is named quantity or value, it may also contain {count}, {in_all} and
    {to_value}.
    """

    order: str
    orders: str
    # Set if a batch prepares the change differently from a single request.
    prepare: Prepare | None = None
    # The label in the console's form for a list of players; empty: not offered there.
    # The form has the fields of the operation's own form in app/console/players/views.py.
    label: str = ""


class Route(NamedTuple):
    """The route of an operation in the API."""

    method: str
    path: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation:
    """Something that a caller can do. Only the last fields have defaults."""

    # The name in history and its filters, in batches and in documents.
    name: str
    # The kind of document that it changes, or ANY.
    subject: str
    # What its caller needs. None: only for the command line.
    needs: tuple[Need, ...] | None
    # The schema of its arguments; None: no arguments.
    arguments: Any
    # What undoes it; None: the inverse of the operations that change the same fields.
    inverse: Inverse | OwnInverse | NotUndoable | None
    # The items that it moves.
    moves: Callable[[Document], Moved]
    # If it changes one document: its store, a Changes; what is read of it; and the rule.
    store: Any = None
    reads: tuple[str, ...] = ()
    rule: Callable[..., Change] | None = None
    # What prepares the change instead, if the arguments must be checked or completed before.
    prepare: Prepare | None = None
    # Otherwise, what executes it; the store then only finds the result of an earlier request.
    run: Run | None = None
    # What a request for approval would change, if that is not all that its rule changes.
    preview: Preview | None = None
    # Raise unless a caller may do it to the document with a key, with these arguments.
    requires: tuple[Callable[[Key, Document], Any], ...] = ()
    # The sentence in lists of history: {changes}, the arguments by history name, or plain text.
    sentence: str = BY_CHANGES
    # How a batch executes it; None: not in batches.
    batch: BatchRow | None = None
    # The notice of the page after the change; it may also contain {whom} and {lines}.
    notice: str = NOTICE
    # Adds a warning, or a refusal, to a change whose object is not in the catalogue.
    in_catalogue: Callable[[Document, Prepared], Prepared] | None = None
    # Whether its routes accept an Idempotency-Key; forms in the console always send one.
    takes_key: bool = True
    # The rule of QM_APPROVAL that may require a second person for it; empty: none does.
    approval: str = ""
    # What a request for approval calls it, if its changes do not say it.
    title: str = ""
    # Raised if somebody asks for it, or approves it, for the own account.
    own_account: type[QuartermasterError] | None = None
    # By view name.
    routes: dict[str, Route] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if (self.name, self.subject) in _DECLARED:
            raise IncompleteOperation(
                f"The operation '{self.name}' of the subject '{self.subject}' is declared twice."
            )
        _DECLARED[self.name, self.subject] = self

    def prepare_change(self, args: Document, intent: Intent, in_batch: bool = False) -> Prepared:
        prepare = (in_batch and self.batch and self.batch.prepare) or self.prepare
        if prepare:
            reads, rule = prepare(args)
        elif self.rule:
            reads, rule = self.reads, partial(self.rule, **args)
        else:
            raise IncompleteOperation(f"The operation '{self.name}' has no rule.")
        prepared = Prepared(reads, rule, intent)
        return self.in_catalogue(args, prepared) if self.in_catalogue else prepared

    @property
    def changes_one(self) -> bool:
        """Whether it changes one document, by a rule."""
        return bool(self.prepare or self.rule)

    @property
    def counts_items(self) -> bool:
        """Whether it moves items, whose number is known."""
        return self.moves is not no_items and not isinstance(self.moves, UnknownItems)

    @property
    def permissions(self) -> tuple[Permission, ...]:
        return of_people(self.needs or ())

    @property
    def is_undo(self) -> bool:
        """Whether it undoes another operation; then it is about an entry instead of a player."""
        return self.inverse is None

    @property
    def route(self) -> Route:
        """Its only route in the API."""
        (route,) = self.routes.values()
        return route

    @cached_property
    def object_types(self) -> dict[str, str]:
        """The arguments that are ids of catalogue objects, with the type of the object."""
        named = self.arguments.fields if self.arguments else {}
        types = {name: field.metadata.get("object_type") for name, field in named.items()}
        return {name: type_ for name, type_ in types.items() if type_}

    def history_arguments(self, arguments: Mapping[str, Any]) -> Document:
        """Return the arguments by history name, without those that history must not record."""
        declared = self.arguments.fields if self.arguments else {}
        known = {name: declared[name].metadata if name in declared else {} for name in arguments}
        return {
            about.get("history_name") or name[:1].upper() + name[1:]: arguments[name]
            for name, about in known.items()
            if not about.get("unrecorded")
        }


_DECLARED: dict[tuple[str, str], Operation] = {}


# The functions below are complete only if all rooms are imported: none is called at import.
def all_operations() -> Iterator[Operation]:
    """Yield all operations by name."""
    for _, operation in sorted(_DECLARED.items()):
        yield operation


def operation_names() -> list[str]:
    """Return the operation names that history entries may contain."""
    return list(dict.fromkeys(operation.name for operation in all_operations()))


def find_operation(name: str, subject: str) -> Operation | None:
    """Return the operation of this name for a kind of document, or else for any kind."""
    named = (found for found in all_operations() if found.name == name)
    return _DECLARED.get((name, subject)) or next(named, None)


@cache
def batch_operations() -> Mapping[str, Operation]:
    return {one.name: one for one in all_operations() if one.batch}


@cache
def object_arguments() -> Mapping[str, str]:
    """Return the history names of arguments that are catalogue ids, with the type of the object."""
    found: dict[str, str] = {}
    for one in all_operations():
        found |= one.history_arguments(one.object_types)
    return found


@cache
def object_fields() -> Container[str]:
    """Return the document fields that contain ids of catalogue objects."""
    named = (one.inverse for one in all_operations() if one.object_types)
    return {name for one in named if isinstance(one, Inverse) for name in one.fields}


def find_inverse(changed: str, subject: str) -> Inverse | OwnInverse | None:
    """Return the inverse of the operations that change a field of a kind of document."""
    for one in all_operations():
        inverse = one.inverse if one.subject == subject else None
        if isinstance(inverse, Inverse | OwnInverse) and changed in inverse.fields:
            return inverse
    return None

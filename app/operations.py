"""What an operation is: one declaration holds all that the service knows of it. Pure.

Each room declares its operations in its file operations.py, beside their rules. Routes, the filters
of history, undo, batches, the console, the commands and the OpenAPI document read them from here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from app.auth.scopes import KeyAccess, Scope
from app.changes import Applied, Intent, Rule
from app.errors import QuartermasterError
from app.types import Document

# The subject of an operation that changes documents of every kind.
ANY = "any"
# The sentence of an operation whose entry tells best by its changes.
BY_CHANGES = "{changes}"
# What a page says of an operation that has no better words.
NOTICE = "{whom}: {lines}."


class IncompleteOperation(Exception):
    """The declaration of an operation that lacks a fact, or contradicts another."""


class Prepared(NamedTuple):
    """A change that is ready to be made: the fields that it reads, and the rule."""

    reads: tuple[str, ...]
    rule: Rule


Prepare = Callable[[Document], Prepared]
# By item, how many of it are moved.
Quantities = Mapping[str, int]


@dataclass(frozen=True, eq=False, kw_only=True)
class Inverse:
    """What undoes changes of some fields, and by another undo makes them again."""

    fields: tuple[str, ...]
    # Made of the changes in the entry.
    prepare: Callable[[list[Document]], Prepared]
    # Which items it moves. A text: nobody can say, so a key with a budget is refused this.
    moves: Callable[[list[Document]], Quantities] | str | None = None
    # Whether a batch may make it together with others: what must be unique is made alone.
    in_bulk: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnInverse:
    """An inverse that changes several documents, and so makes and previews itself."""

    fields: tuple[str, ...]
    make: Callable[[Document, Intent], Applied]
    preview: Callable[[Document, Intent], Document]
    moves: str
    in_bulk: bool = False


class InverseByFields:
    """The inverse of an undo: that of the fields which it changed."""


class BatchRow(NamedTuple):
    """How a batch makes an operation, and tells it: one row, and all rows of a kind.

    Arguments have the names of history in a row. For all rows there are {object}, {whom}, and of an
    argument that is called quantity or value, {count}, {in_all} and {to_value}.
    """

    order: str
    orders: str
    # Where many at once are made in another way than a single one.
    prepare: Prepare | None = None
    # What the console's form for a list of players calls it; empty: that form does not offer it.
    # It has the fields of the operation's form in app/console/players/forms.py.
    label: str = ""


class Route(NamedTuple):
    """Where the API takes an operation."""

    method: str
    path: str


class Endpoint(NamedTuple):
    """Where the API takes an operation that needs no view of its own, and what it answers."""

    # The name of its view, from which the id in the OpenAPI document follows.
    view: str
    # Behind the prefix of the blueprint.
    path: str
    # The schema of the answer.
    answers: Any
    # The summary in one line, an empty line, and the description.
    about: str
    # Examples of errors that the rule may raise.
    refusals: tuple[QuartermasterError, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation:
    """One thing that can be done, and all facts about it. Only the last ones have a default."""

    # In history and its filters, in batches and in documents.
    name: str
    # The kind of documents that it changes, or ANY.
    subject: str
    # What a key needs for it. None: it is for the command line alone.
    scope: Scope | KeyAccess | None
    # The schema of its arguments; None: it has none.
    arguments: Any
    # Prepares the change; a text says what makes it instead.
    prepare: Prepare | str
    # What undoes it; a text says why nothing does.
    inverse: Inverse | OwnInverse | InverseByFields | str
    # Which items it moves. A text: nobody can say, so a key with a budget is refused this.
    moves: Callable[[Document], Quantities] | str | None
    # How a batch makes it; None: no batch does.
    batch: BatchRow | None
    # What lists of history say: {changes}, the arguments in their names of history, or plain text.
    sentence: str
    # None: a view of its own takes it, or the command line alone.
    endpoint: Endpoint | None = None
    # What an account needs beside the role api.
    roles: tuple[Any, ...] = ()
    # What a page says to whoever has just made it; {whom} and {lines} are known as well.
    notice: str = NOTICE
    # The argument that names an object which the catalogue should hold.
    needs_object: str | None = None
    # Whether its routes take an Idempotency-Key; forms of pages always have one.
    takes_key: bool = True
    # Whether its entries quote what staff have written.
    quotes_staff: bool = False
    # By the name of its view.
    routes: dict[str, Route] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if self.batch:
            self._check_row()
        if (self.name, self.subject) in _DECLARED:
            raise IncompleteOperation(
                f"The operation '{self.name}' of the subject '{self.subject}' is declared twice."
            )
        _DECLARED[self.name, self.subject] = self
        if isinstance(self.inverse, Inverse | OwnInverse):
            _INVERSES.update(dict.fromkeys(self.inverse.fields, self.inverse))
        if self.batch:
            in_order = sorted({**_IN_BATCHES, self.name: self}.items())
            _IN_BATCHES.clear()
            _IN_BATCHES.update(in_order)
        _OBJECT_ARGUMENTS.update(self.history_arguments(self.object_types))
        if self.object_types and isinstance(self.inverse, Inverse):
            _OBJECT_FIELDS.update(self.inverse.fields)

    def _check_row(self) -> None:
        """Raise unless a batch can make it: rows have the names of history, read in any case."""
        if not (self.arguments and (callable(self.prepare) or self.is_undo)):
            raise IncompleteOperation(
                f"The operation '{self.name}' is for batches, which need its arguments and rule."
            )
        for name, argument in self.arguments.fields.items():
            called = next(iter(self.history_arguments({name: None})), "")
            taken = argument.data_key or name
            if called.lower() != taken.lower():
                raise IncompleteOperation(
                    f"The operation '{self.name}' is for batches, whose rows call the argument "
                    f"'{taken}' as history does: '{called}'. These may differ by case alone."
                )

    def prepared(self, args: Document, in_batch: bool = False) -> Prepared:
        prepare = (in_batch and self.batch and self.batch.prepare) or self.prepare
        if isinstance(prepare, str):
            raise IncompleteOperation(f"The operation '{self.name}' is made by {prepare}.")
        return prepare(args)

    @property
    def is_undo(self) -> bool:
        """Whether it undoes another: then it is about an entry, and not about a player."""
        return isinstance(self.inverse, InverseByFields)

    @property
    def route(self) -> Route:
        """The one place where the API takes it."""
        (route,) = self.routes.values()
        return route

    @cached_property
    def object_types(self) -> dict[str, str]:
        """Which arguments name objects of the catalogue, and of which types."""
        named = self.arguments.fields if self.arguments else {}
        types = {name: field.metadata.get("object_type") for name, field in named.items()}
        return {name: type_ for name, type_ in types.items() if type_}

    def history_arguments(self, arguments: Mapping[str, Any]) -> Document:
        """Return arguments as history has them: under its names, without what it must not tell."""
        declared = self.arguments.fields if self.arguments else {}
        known = {name: declared[name].metadata if name in declared else {} for name in arguments}
        return {
            about.get("history_name") or name[:1].upper() + name[1:]: arguments[name]
            for name, about in known.items()
            if not about.get("untold")
        }


_DECLARED: dict[tuple[str, str], Operation] = {}
_INVERSES: dict[str, Inverse | OwnInverse] = {}
_IN_BATCHES: dict[str, Operation] = {}
_OBJECT_ARGUMENTS: dict[str, str] = {}
_OBJECT_FIELDS: set[str] = set()


def all_operations() -> Iterator[Operation]:
    """Yield all operations by name. Only a program that has imported all rooms knows all."""
    for _, operation in sorted(_DECLARED.items()):
        yield operation


def operation_names() -> list[str]:
    """Return what an entry of history may say that was done."""
    return list(dict.fromkeys(operation.name for operation in all_operations()))


def find_operation(name: str, subject: str) -> Operation | None:
    """Return the operation of this name that changes documents of a kind, else of any kind."""
    named = (found for found in all_operations() if found.name == name)
    return _DECLARED.get((name, subject)) or next(named, None)


def batch_operations() -> Mapping[str, Operation]:
    return _IN_BATCHES


def object_arguments() -> Mapping[str, str]:
    """Return by which names history has ids of objects of the catalogue, and of which types."""
    return _OBJECT_ARGUMENTS


def object_fields() -> Container[str]:
    """Return the fields of documents that hold ids of objects of the catalogue."""
    return _OBJECT_FIELDS


def find_inverse(changed: str) -> Inverse | OwnInverse | None:
    """Return what undoes changes of a field."""
    return _INVERSES.get(changed)

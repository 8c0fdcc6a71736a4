"""What a form is: one declaration, from which its view, its checks, its markup and its curl follow.

A declaration names the operation that the form makes, what must be typed to confirm it, and how
its fields are called. app.console.forms.places turns it into a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from app.auth.roles import Role
from app.http.api import Schema
from app.http.fields import Flag, Integer
from app.operations import Operation
from app.types import Document

if TYPE_CHECKING:
    from flask import Response

    from app.console.forms.submissions import Submission

NOT_UNDONE = "This cannot be undone."
# A name is typed as it is: nothing corrects it.
AS_TYPED = {"autocomplete": "off", "spellcheck": "false"}
BY_NAME = "A name or an id."
FOLDED = "…"


@dataclass(frozen=True)
class Field:
    """A field of a form. What the schema of the operation says of it is not said again."""

    name: str
    label: str
    hint: str = ""
    # What it holds before anything is typed.
    value: Any = ""
    # That of an HTML input; or area, or check.
    type: str = "text"
    # How sentences call it, if not by its label.
    noun: str = ""
    # None: as the schema says.
    is_required: bool | None = None
    # The type of the objects of the catalogue that it names.
    object_type: str = ""
    # What is suggested while somebody types, if not these objects.
    suggest: str = ""
    # Further attributes of HTML.
    html: dict[str, Any] = field(default_factory=dict)
    # The argument of the operation, where that has another name.
    argument: str = ""

    @property
    def suggests(self) -> str:
        return self.suggest or self.object_type

    @property
    def sample(self) -> str:
        """What a curl line has in its place before anything is typed: no valid value."""
        if self.object_type:
            return f"{self.object_type.removeprefix('player').upper()}-ID"
        return self.label.upper().replace(" ", "-") if self.type == "number" else ""

    def completed(self, schema: Schema | None) -> Field:
        """Return the field with what a schema says of it."""
        arguments = (schema.fields if schema else {}).items()
        named = [item for item in arguments if (item[1].data_key or item[0]) == self.name]
        name, argument = named[0] if named else (self.name, None)
        about = argument.metadata if argument else {}
        object_type = self.object_type or about.get("object_type", "")
        is_required = argument is None or argument.required
        return replace(
            self,
            argument=name,
            type=_type_of(argument) or self.type,
            # The suggestions of a browser would hide those of the page.
            html=(AS_TYPED if self.suggest or object_type else {}) | _html_of(argument) | self.html,
            is_required=is_required if self.is_required is None else self.is_required,
            object_type=object_type,
        )


def _type_of(argument: Any) -> str:
    is_number = isinstance(argument, Integer)
    return "number" if is_number else "check" if isinstance(argument, Flag) else ""


def _html_of(argument: Any) -> dict[str, Any]:
    """Return the limits of an argument as attributes of HTML."""
    if isinstance(argument, Integer):
        limits: Any = argument.validate
        bounds = {"min": limits.min, "max": limits.max, "inputmode": "numeric"}
        return bounds if limits.min >= 0 else {}
    longest = argument.metadata.get("maxLength") if argument else None
    return {"maxlength": longest} if longest else {}


class Group(NamedTuple):
    """Fields that stand beside each other; the stylesheet knows how."""

    layout: str
    fields: tuple[Field, ...]


class Target(NamedTuple):
    """What the forms of a page are about."""

    # The path of the page, below which the forms have theirs.
    path: str
    id: str = ""
    name: str = ""
    record: Document = {}
    # What the page has shown of history, and what is newer than a refused form knows.
    seen: str = ""
    newer: list[Document] = []
    # What fields hold that nobody has typed into.
    values: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Form:
    """The declaration of a form."""

    # What it does. None: that is no operation of history.
    operation: Operation | None
    # The heading of its card; or what is clicked on to unfold it, if it ends with an ellipsis.
    title: str
    button: str
    fields: tuple[Field | Group, ...] = ()
    # The name of the operation, unless another is given.
    name: str = ""
    # Of the view, below that of the page; by default the name.
    path: str | None = None
    # Does it, where it is not the operation alone: gets the submission and variables of the path.
    act: Callable[..., Any] | None = None
    # The view of the API, where the operation has several.
    view: str = ""
    # Method and path in the API, where it is no operation.
    api: str | Callable[[Submission], str] = ""
    roles: tuple[Role, ...] = ()
    # What was typed, where that is not just the arguments of the operation.
    schema: Schema | None = None
    # Markup of its own for its fields, where they are like those of no other form.
    template: str = ""
    # What to know before, in sentences.
    about: str | Callable[[Target], Iterable[str]] = ""
    # The hint below a field for the name of the target, which must be typed; empty: none is asked.
    confirm: str = ""
    confirm_field: str = "confirm"
    # Always asks why; or only where changes must have a reason.
    asks_reason: bool = True
    is_danger: bool = False
    # A button that takes something back is less in sight.
    is_quiet: bool = False
    # Not done if somebody else has changed this part of the document meanwhile; "": any part.
    replaces: str | None = None
    # Whether a page offers it.
    is_offered: Callable[[Target], bool] = lambda _: True
    # What the entry of a previewed change says; the slots of the page show it too.
    preview: Callable[[Document], Iterable[str]] | None = None
    # The body in the API, if not the fields.
    body: Callable[[Submission], Document | None] | None = None
    # The media type and the name of the file that curl sends instead of a body.
    file: tuple[str, str] | None = None
    # Whether its endpoint takes an Idempotency-Key, where it is no operation.
    takes_key: bool = False
    # Sets a secret, whose fingerprint history must not hold: each attempt is a change of its own.
    is_secret: bool = False
    # A variable of the path, where a page has a form of this kind for each row.
    row: str = ""
    # The tab that it leads to, if not its own.
    next_tab: str | None = None
    # The response after it was carried out, if it does not lead to the page of what it changed.
    lead: Callable[..., Response] | None = None
    layout: str = ""
    # The field that stands beside the button.
    line: str = ""

    def __post_init__(self) -> None:
        """Fill in what the operation says."""
        groups = [part if isinstance(part, Group) else Group("", (part,)) for part in self.fields]
        facts: dict[str, Any] = {"name": self.name, "schema": self.schema}
        if self.operation:
            facts["name"] = self.name or self.operation.name
            facts["schema"] = self.schema or (self.operation.arguments if groups else None)
            facts["takes_key"] = self.operation.takes_key
        facts["fields"] = tuple(
            Group(group.layout, tuple(one.completed(facts["schema"]) for one in group.fields))
            for group in groups
        )
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def is_folded(self) -> bool:
        return self.title.endswith(FOLDED)

    @property
    def button_class(self) -> str:
        is_danger = self.confirm or self.is_danger
        return "quiet" if self.is_quiet else "do danger" if is_danger else "do"

    @property
    def by_name(self) -> dict[str, Field]:
        groups = (part for part in self.fields if isinstance(part, Group))
        return {one.name: one for group in groups for one in group.fields}

    def endpoint(self, sent: Submission) -> str:
        """Return the method and the path in the API."""
        if self.api or not self.operation:
            return self.api(sent) if callable(self.api) else self.api
        routes = self.operation.routes
        method, path = routes[self.view or next(iter(routes))]
        return f"{method} {path}"

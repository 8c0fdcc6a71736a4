"""Declarations of forms, from which views, checks, markup and curl commands are made.

A declaration has the operation of the form, the confirmation to type, and the labels of its
fields. app.console.forms.places turns it into a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from app.auth.spending import limits_today
from app.console.frame.times import iso
from app.core.operations import Operation
from app.core.permissions import Permission
from app.core.types import Document
from app.http.api import Schema
from app.http.fields import Flag, Integer, List
from app.http.lenient import fields_by_name


def about_items(_: Target | None = None) -> Iterable[str]:
    limits = limits_today()
    at_once, a_day = limits["LargestQuantity"], limits["ItemsPerDay"]
    parts = [] if at_once is None else [f"You can move {at_once:,} of an item at once"]
    if a_day is not None:
        parts.append(f"{limits['LeftToday']:,} of {a_day:,} items left today")
    if parts:
        yield f"{'; '.join(parts)}."


def about_batches() -> Iterable[str]:
    most = limits_today()["RowsPerBatch"]
    if most is not None:
        yield f"You can run batches of {most:,} rows. A colleague can approve more."
    yield from about_items()


if TYPE_CHECKING:
    from flask import Response

    from app.console.forms.submissions import Submission

NOT_UNDONE = "This cannot be undone."
# Attributes that turn off autocorrection, for names.
AS_TYPED = {"autocomplete": "off", "spellcheck": "false"}
NOT_COMPLETED = {"autocomplete": "off"}
BY_NAME = "A name or an id."
# The module suggest.js turns the browser's own suggestions off, so that they do not hide those of
# the page. With autocomplete=off in the markup, a browser would not restore the field on Back.
NAMED = {"spellcheck": "false"}
FOLDED = "…"
# What Target.seen is without any entries.
LONG_AGO = datetime.min.replace(tzinfo=timezone.utc)
# The names of check boxes begin with it.
CHECKED = "may-"


@dataclass(frozen=True)
class Field:
    """A field of a form. The schema of the operation fills in what is not declared here."""

    name: str
    label: str
    hint: str = ""
    # The value before anything is typed.
    value: Any = ""
    # The type of an HTML input; or area, check, radio or select.
    type: str = "text"
    # None: as in the schema.
    is_required: bool | None = None
    # The type of catalogue object that it takes.
    object_type: str = ""
    # The source of suggestions, if not these objects.
    suggest: str = ""
    # Further HTML attributes.
    html: dict[str, Any] = field(default_factory=dict)
    # The argument of the operation, if its name differs.
    argument: str = ""
    # The values of a radio or select field or of check boxes, with their labels.
    options: Callable[[], Mapping[str, str]] = dict
    # Why a check box cannot be changed.
    closed: Callable[[str], str] = lambda _: ""
    # Whether several values may be typed: on lines, or else separated by blanks or commas.
    is_list: bool = False
    # The values of the form's radio field for which this field is used; empty: all.
    only_with: tuple[str, ...] = ()

    @property
    def sample(self) -> str:
        """Return a placeholder for the curl command before anything is typed."""
        if self.type == "password":
            return "SHA-256-OF-THE-PASSWORD"
        is_named = self.object_type or self.type == "number"
        return self.label.upper().replace(" ", "-") if is_named else ""

    def completed(self, schema: Schema | None) -> Field:
        argument = fields_by_name(schema or Schema()).get(self.name)
        about = argument.metadata if argument else {}
        type_ = self.type
        if type_ != "hidden" and isinstance(argument, Integer | Flag):
            type_ = "number" if isinstance(argument, Integer) else "check"
        object_type = self.object_type or about.get("object_type", "")
        suggest = self.suggest or object_type
        is_required = argument is None or argument.required
        return replace(
            self,
            argument=(argument.name or "") if argument else self.name,
            type=type_,
            html=(NAMED if suggest else {}) | _html_of(argument) | self.html,
            is_required=is_required if self.is_required is None else self.is_required,
            object_type=object_type,
            suggest=suggest,
            is_list=isinstance(argument, List),
        )


def _html_of(argument: Any) -> dict[str, Any]:
    """Return the limits of an argument as HTML attributes."""
    if isinstance(argument, Integer):
        limits: Any = argument.validate
        bounds = {"min": limits.min, "max": limits.max, "inputmode": "numeric"}
        return bounds if limits.min >= 0 else {}
    longest = argument.metadata.get("maxLength") if argument else None
    return {"maxlength": longest} if longest else {}


class Group(NamedTuple):
    """Fields side by side; the layout is in the stylesheet."""

    layout: str
    fields: tuple[Field, ...]
    # The heading of a fieldset.
    legend: str = ""
    # The argument of the operation, if the fields are those of an object.
    name: str = ""


class Target(NamedTuple):
    """The subject of the forms on a page."""

    # The path of the page; the paths of its forms are below it.
    path: str
    id: str = ""
    name: str = ""
    record: Document = {}
    # The newest entries of its history, if it has a history.
    entries: Sequence[Document] | None = None
    # The initial values of fields.
    values: Mapping[str, Any] = {}

    @property
    def seen(self) -> str:
        """Return the time of the newest entry on the page, which a form sends back."""
        if self.entries is None:
            return ""
        return iso(self.entries[0]["At"] if self.entries else LONG_AGO)


@dataclass(eq=False)
class Form:
    """The declaration of a form."""

    # The operation that it makes; None if it makes none.
    operation: Operation | None
    # If the title ends with an ellipsis, the form is folded until somebody clicks on it.
    title: str
    button: str
    fields: Sequence[Field | Group] = ()
    # Defaults to the name of the operation, else to the title.
    name: str = ""
    # The path of the view, below that of the page; defaults to the name.
    path: str | None = None
    # The heading of a card that it shares with other forms; by default it has its own card.
    card: str = ""
    # Called instead of the operation, with the variables of the path, and with the typed values if
    # the form has a schema.
    act: Callable[..., Any] | None = None
    # The view in the API, if the operation has several.
    view: str = ""
    # The method and path in the API, if there is no operation.
    api: str | Callable[[Submission], str] = ""
    # The permissions that it needs; defaults to those of the operation.
    needs: tuple[Permission, ...] = ()
    # The schema of the typed values, if not the arguments of the operation.
    schema: Schema | None = None
    # A template for markup before the fields.
    template: str = ""
    # Sentences above the fields.
    about: str | Callable[[Target], Iterable[str]] = ""
    # The hint of a field in which the name of the target must be typed; empty: no such field.
    confirm: str = ""
    confirm_field: str = "confirm"
    # Whether it always asks for a reason, or only if the settings require reasons.
    asks_reason: bool = True
    is_danger: bool = False
    # The button is less prominent, as for lifting a ban.
    is_quiet: bool = False
    # The form is refused if somebody else has changed this part meanwhile; "": any part.
    replaces: str | None = None
    # Whether a page offers it.
    is_offered: Callable[[Target], Any] = lambda _: True
    # Returns the lines of a preview; the slots on the page show the preview, too.
    preview: Callable[[Document], Iterable[str]] | None = None
    # Returns the body that curl sends, if it is not the fields.
    body: Callable[[Submission], Document | None] | None = None
    # The media type and the name of a file that curl sends instead of a body.
    file: tuple[str, str] | None = None
    # It sets a secret, whose fingerprint must not be in history, so attempts are not idempotent.
    is_secret: bool = False
    # It asks for the password again if the last proof is older than 15 minutes. A function gets the
    # variables of the path.
    is_sensitive: bool | Callable[..., bool] = False
    # The path variable that distinguishes the forms, if a page has one in each row.
    row: str = ""
    # By name, the arguments of the operation that are variables of the path.
    path_arguments: Mapping[str, str] = field(default_factory=dict)
    # The notice of its page after success, if there is no entry in history.
    notice: str = ""
    # Whether its page shows the outcome, such as a new secret, which no URL may contain.
    shows_outcome: bool = False
    # Returns the response after success, if that is not a redirect to the page of its target.
    lead: Callable[..., Response] | None = None
    layout: str = ""
    # The field beside the button.
    line: str = ""
    # What a refused form can ask a colleague to approve, if not its operation.
    asks: str = ""
    # Whether it always asks a colleague: nobody may do it alone.
    is_request: bool = False
    # The fields in groups, completed from the schema.
    groups: list[Group] = field(init=False)

    def __post_init__(self) -> None:
        """Fill in what the operation declares."""
        operation = self.operation
        if operation:
            self.name = self.name or operation.name
            if self.fields or not self.act:
                self.schema = self.schema or operation.arguments
                # Without its arguments, nobody can ask for it.
                self.asks = self.asks or operation.name
            self.needs = self.needs or operation.permissions
        self.name = self.name or self.title.rstrip(FOLDED).lower().replace(" ", "-")
        self.groups = []
        for part in self.fields:
            group = part if isinstance(part, Group) else Group("", (part,))
            schema: Any = self.schema
            of_group = schema.fields[group.name].schema if schema and group.name else schema
            completed = tuple(one.completed(of_group) for one in group.fields)
            self.groups.append(group._replace(fields=completed))

    @property
    def is_folded(self) -> bool:
        return self.title.endswith(FOLDED)

    @property
    def card_title(self) -> str:
        return self.card or ("Character" if self.is_folded else self.title)

    @property
    def button_class(self) -> str:
        is_danger = self.confirm or self.is_danger
        return "quiet" if self.is_quiet else "do danger" if is_danger else "do"

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {one.name: one for group in self.groups for one in group.fields}

    @cached_property
    def choice(self) -> Field:
        """Return the radio field that decides which other fields are used."""
        return next(one for one in self.by_name.values() if one.type == "radio")

    @property
    def path_below(self) -> str:
        """Return the path of the view, below that of the page."""
        return self.name if self.path is None else self.path

    def endpoint(self, sent: Submission) -> str:
        """Return the method and the path in the API."""
        if self.api or not self.operation:
            return self.api(sent) if callable(self.api) else self.api
        routes = self.operation.routes
        return " ".join(routes.get(self.view) or next(iter(routes.values()), ()))

"""Tables of documents, and docs/errors.rst, which ``make contract`` regenerates.

The arguments of batch rows stay as written where they name the right fields.
"""

from __future__ import annotations

import json
import re
import textwrap
from itertools import pairwise
from pathlib import Path

from app.core.operations import Inverse, all_operations, batch_operations
from app.core.permissions import OLDER_SCOPES
from app.http.errors import causes, codes
from app.players.domain import DEFAULTS, FIELDS
from config.base import Settings
from tests.collection_plans import TYPES

ROOT = Path(__file__).parents[1]
CONTRACT, OPERATING = ROOT / "docs/contract.rst", ROOT / "docs/operating.rst"
ERRORS, COLLECTIONS = ROOT / "docs/errors.rst", ROOT / "docs/collections.rst"
TABLE = re.compile(
    r"^=+(?:  =+)+\n(?:``Operation``|name) +(arguments|permissions).*\n"
    r"=+(?:  =+)+\n(?:.+\n)+?=+(?:  =+)+\n",
    re.M,
)
SETTINGS = re.compile(r"^=+  =+  =+\nsetting .*\n(?:=.*\n(?:[^=\n].*\n)*)+", re.M)
PLAYERS = re.compile(r"(?<=``players``.\n\n)=+(?:  =+)+\n.+\n(?:(?!\n).+\n)+")
CODES = re.compile(r"^=+  =+\ncode .*\n=+  =+\n(?:.+\n)*?=+  =+\n", re.M)
DECLARED = re.compile(r"((?:    # .*\n)+)    (\w+): .+ = ")
BATCH_ROWS = ("``Operation``", "arguments", "is judged and done as")


def rows_of(table):
    """Return the cells of each row, with those that go on over several lines joined."""
    head, *lines = table.splitlines()
    starts = [match.start() for match in re.finditer("=+", head)]
    spans = list(zip(starts, [*starts[1:], None], strict=True))
    rows = []
    for line in lines[2:-1]:
        cells = [line[start:end].strip() for start, end in spans]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], cells, strict=True)]
    return rows


def drawn(columns, rows, widest=52):
    """Return a table in the syntax of simple tables."""
    wrapped = [[_lines(cell, widest) for cell in row] for row in rows]
    lines = [[[name] for name in columns], *wrapped]
    widths = [max(len(line) for row in lines for line in row[i]) for i in range(len(columns))]
    rule = "  ".join("=" * width for width in widths)
    text = []
    for row in lines:
        for height in range(max(map(len, row))):
            cells = [cell[height] if height < len(cell) else "" for cell in row]
            text.append("  ".join(map(str.ljust, cells, widths)).rstrip())
    return "\n".join([rule, text[0], rule, *text[1:], rule, ""])


def _lines(cell, widest):
    return textwrap.wrap(cell, widest, break_on_hyphens=False, break_long_words=False)


def listed(names):
    return ", ".join(f"``{name}``" for name in names)


def batch_rows(rows):
    """Return what the rows of batches may do: in the order of the page, and new ones at the end."""
    written = {row[0].strip("`"): row[1] for row in rows}
    names = dict.fromkeys([*written, *batch_operations()])
    return [
        row_cells(batch_operations()[name], written.get(name, ""))
        for name in names
        if name in batch_operations()
    ]


def row_cells(operation, written):
    fields = operation.history_arguments(operation.arguments.fields)
    is_right = set(re.findall(r"``(\w+)``", written)) == set(fields)
    views = listed(map(camel_case, operation.routes))
    return [f"``{operation.name}``", written if is_right else listed(fields), views]


def errors(text):
    """Return docs/errors.rst with its tables, one for each status."""
    tables = {}
    for code, status in codes().items():
        tables.setdefault(status, []).append([f"``{code}``", causes()[code]])
    drawn_tables = iter(
        drawn(("code", "cause"), tables[status], widest=72) for status in sorted(tables)
    )
    return CODES.sub(lambda _: next(drawn_tables), text)


def camel_case(view):
    first, *others = view.split("_")
    return first + "".join(word.title() for word in others)


def contract(text):
    """Return docs/contract.rst with its tables as the service declares them."""

    def table(match):
        if match[1] == "permissions":
            rows = [[f"``{name}``", listed(meant)] for name, meant in OLDER_SCOPES.items()]
            return drawn(("name", "permissions"), rows)
        return drawn(BATCH_ROWS, batch_rows(rows_of(match.group())))

    return TABLE.sub(table, text)


def setting_rows():
    """Return each setting with its default, and with its comment in config/base.py."""
    source = (ROOT / "config/base.py").read_text().partition("class Development")[0]
    for comment, name in DECLARED.findall(source):
        default = getattr(Settings, name)
        text = ",".join(default) if isinstance(default, list) else f"{default}"
        shown = f"``{text}``" if default not in (None, "", []) else ""
        yield [f"``QM_{name}``", shown, " ".join(comment.replace("    #", "").split())]


def operating(text):
    """Return docs/operating.rst with its table of settings."""
    return SETTINGS.sub(drawn(("setting", "default", "meaning"), list(setting_rows())), text)


def player_rows(rows):
    """Return the fields of players in the order of the page, a new one after the one before it."""
    written = {row[0].strip("`"): row for row in rows}
    names = list(written)
    for before, name in pairwise(FIELDS):
        if name not in written:
            names.insert(names.index(before) + 1, name)
    for name in names:
        row = written.get(name)
        if field := FIELDS.get(name):
            about = row[4] if row else (field.about[:1].lower() + field.about[1:]).rstrip(".")
            kind = next(type_ for type_, shape in TYPES.items() if shape == field.shape)
            writes = "both" if name in changed_fields() else "game"
            row = [f"``{name}``", kind, inserted(name, row[2] if row else ""), writes, about]
        yield row


def changed_fields():
    """Return the fields that operations on players change."""
    found = [one.inverse for one in all_operations() if one.subject == "player"]
    return {name for one in found if isinstance(one, Inverse) for name in one.fields}


def inserted(name, written):
    """Return the value in a new document, as the page has it."""
    if name not in DEFAULTS:
        return "no"
    if written in ("yours", "zeros"):
        return written
    return f"``{json.dumps(DEFAULTS[name])}``"


def collections(text):
    """Return docs/collections.rst with the fields of players as the service declares them."""
    columns = ("field", "type", "on insert", "writes", "meaning")
    return PLAYERS.sub(lambda table: drawn(columns, player_rows(rows_of(table[0])), 41), text)


if __name__ == "__main__":
    COLLECTIONS.write_text(collections(COLLECTIONS.read_text()))
    OPERATING.write_text(operating(OPERATING.read_text()))
    CONTRACT.write_text(contract(CONTRACT.read_text()))
    ERRORS.write_text(errors(ERRORS.read_text()))

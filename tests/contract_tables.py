"""Tables of docs/operations.rst and docs/contract.rst, which ``make contract`` regenerates.

Of docs/operations.rst, the first paragraph and makers of changes that are no operations stay as
written; of docs/contract.rst, the arguments of batch rows where they name the right fields.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from app.http.errors import codes
from app.operations import all_operations, batch_operations, operation_names
from tests.endpoint_table import DOORS, shape_of
from tests.openapi_document import OPERATIONS

DOCS = Path(__file__).parents[1] / "docs"
CONTRACT, LIST = DOCS / "contract.rst", DOCS / "operations.rst"
TABLE = re.compile(
    r"^=+(?:  =+)+\n(?:operation|``Operation``|status) +(no|made by|arguments|codes).*\n"
    r"=+(?:  =+)+\n(?:.+\n)+?=+(?:  =+)+\n",
    re.M,
)
ROUTES = ("operation", "no", "method", "path", "role", "scopes")
ENTRIES = ("operation", "made by")
OTHER_MAKERS = "(?:``quartermaster|a sign-in|the first sign-in) .*"
CODES = ("status", "codes")
BATCH_ROWS = ("``Operation``", "arguments", "is judged and done as")
SCOPES = re.compile(r"Scopes of a key: (.+)\.$|(Not with a key)\.$")
WIDEST = {ROUTES: 1000, CODES: 112}
NUMBERS = {door.shape: door.number.strip("+=") for door in DOORS}
CHANGES = """
Changes in history
------------------

``Operation`` of an entry in history, and what makes it:

"""


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


def drawn(columns, rows):
    """Return a table in the syntax of simple tables."""
    widest = WIDEST.get(columns, 52)
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


def route_cells(name):
    path, method, operation = OPERATIONS[name]
    roles = [role for kind in operation["security"] for role in kind.get("password", ())]
    number = NUMBERS[method.upper(), shape_of(path)]
    role = " ".join(roles[1:] or roles) or "open"
    return [name, number, method.upper(), f"``{path}``", role, scopes_of(operation)]


def scopes_of(operation):
    found = SCOPES.search(operation["description"])
    if found is None:
        return "open"
    return "none" if found[2] else found[1].replace("`", "").replace(",", "")


def listed(names):
    return ", ".join(f"``{name}``" for name in names)


def makers_of(name, others):
    """Return what makes the changes that history calls by a name: views, rows, and others."""
    named = [operation for operation in all_operations() if operation.name == name]
    views = [camel_case(view) for operation in named for view in operation.routes]
    rows = ["a row of a batch"] if any(operation.batch for operation in named) else []
    return ", ".join([f"``{view}``" for view in views] + rows + others)


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


def code_rows():
    """Return the codes of each status."""
    by_status = {}
    for code, status in codes().items():
        by_status.setdefault(str(status), []).append(code)
    return [[status, listed(names)] for status, names in sorted(by_status.items())]


def camel_case(view):
    first, *others = view.split("_")
    return first + "".join(word.title() for word in others)


def contract(text):
    """Return docs/contract.rst with its tables as the service declares them."""

    def table(match):
        if match[1] == "codes":
            return drawn(CODES, code_rows())
        return drawn(BATCH_ROWS, batch_rows(rows_of(match.group())))

    return TABLE.sub(table, text)


def operations(text):
    """Return docs/operations.rst: all operations by tag, and the changes that history records."""
    by_tag = {}
    for name, (_, _, operation) in OPERATIONS.items():
        by_tag.setdefault(operation["tags"][0], []).append(route_cells(name))
    parts = [f"\n{tag}\n{'-' * len(tag)}\n\n{drawn(ROUTES, rows)}" for tag, rows in by_tag.items()]
    written = [row for found in TABLE.finditer(text) for row in rows_of(found.group())]
    others = {row[0].strip("`"): re.findall(OTHER_MAKERS, row[1]) for row in written}
    changes = [[f"``{n}``", makers_of(n, others.get(n, []))] for n in operation_names()]
    top = re.split(r"^.+\n-{3,}\n", text, maxsplit=1, flags=re.M)[0].rstrip("\n") + "\n"
    return top + "".join(parts) + CHANGES + drawn(ENTRIES, changes)


if __name__ == "__main__":
    CONTRACT.write_text(contract(CONTRACT.read_text()))
    LIST.write_text(operations(LIST.read_text()))

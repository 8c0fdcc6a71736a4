"""The tables of docs/contract.rst, made from the OpenAPI document by ``make contract``.

The numbers of the 31 given endpoints, the order of rows and the column "answers" stay as they are
written, and so do "takes" and "arguments" where they name the right fields. An operation that no
table has goes to the end of the section with most of its kind.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from app.http.errors import codes
from app.operations import all_operations, batch_operations, operation_names
from tests.openapi_document import OPERATIONS, SPEC

PAGE = Path(__file__).parents[1] / "docs" / "contract.rst"
TABLE = re.compile(
    r"^=+(?:  =+)+\n(?:operation|``Operation``|status) +(no|takes|made by|arguments|codes).*\n"
    r"=+(?:  =+)+\n(?:.+\n)+?=+(?:  =+)+\n",
    re.M,
)
ROUTES = ("operation", "no", "method", "path", "role", "scopes", "refuses")
BODIES = ("operation", "takes", "answers")
ENTRIES = ("operation", "made by")
OTHER_MAKERS = "(?:``quartermaster|a sign-in|the first sign-in) .*"
CODES = ("status", "codes")
BATCH_ROWS = ("``Operation``", "arguments", "is judged and done as")
# Every guarded operation may answer these; an open one needs no credentials.
COMMON = {"401", "403", "429", "500", "503"}
OPEN_COMMON = {"403", "429", "500", "503"}
SCOPES = re.compile(r"Scopes of a key: (.+)\.$|(Not with a key)\.$")
WIDEST = 52


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
    widest = 1000 if columns == ROUTES else WIDEST
    widest = 101 if columns == CODES else widest
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


def route_cells(name, number):
    path, method, operation = OPERATIONS[name]
    roles = [role for kind in operation["security"] for role in kind.get("password", ())]
    answers = {status for status in operation["responses"] if status.startswith("2")}
    common = COMMON if roles else OPEN_COMMON
    refused = " ".join(sorted(set(operation["responses"]) - common - answers))
    role = " ".join(roles[1:] or roles) or "open"
    return [name, number, method.upper(), f"``{path}``", role, scopes_of(operation), refused]


def scopes_of(operation):
    found = SCOPES.search(operation["description"])
    if found is None:
        return "open"
    return "none" if found[2] else found[1].replace("`", "").replace(",", "")


def fields_of(name):
    """Return the fields that an operation takes in its query, and those of its body, by schema."""
    operation = OPERATIONS[name][2]
    query = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
    contents = operation.get("requestBody", {}).get("content", {}).values()
    refs = [content["schema"]["$ref"].split("/")[-1] for content in contents]
    return query, SPEC["components"]["schemas"][refs[0]] if refs else {"properties": {}}


ALL_FIELDS = {field for name in OPERATIONS for field in fields_of(name)[1]["properties"]}


def taken_by(name, written):
    """Return what an operation takes: as it is written, if that names all fields and no others."""
    query, body = fields_of(name)
    wanted = {*query, *body["properties"]}
    if written and set(re.findall(r"``(\w+)``", written)) & {*wanted, *ALL_FIELDS} == wanted:
        return written
    needed = body.get("required", ())
    optional = [field for field in body["properties"] if field not in needed]
    parts = [f"query {listed(query)}"] if query else []
    parts += [f"body {listed(needed)}"] if needed else []
    parts += [f"{'and' if needed else 'body,'} optional {listed(optional)}"] if optional else []
    return ", ".join(parts) or "nothing"


def listed(names):
    return ", ".join(f"``{name}``" for name in names)


def answer_of(name):
    """Return what is said of an answer until somebody writes more."""
    success = OPERATIONS[name][2]["responses"]["200"]["content"]["application/json"]["schema"]
    schema = SPEC["components"]["schemas"].get(success.get("$ref", "").split("/")[-1], {})
    return ", ".join(f"``{field}``" for field in schema.get("properties", ()))


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


def made(text):
    """Return the page with its tables as the OpenAPI document has it."""
    tables = [match.group() for match in TABLE.finditer(text)]
    known = {row[0] for table in tables for row in rows_of(table)}
    missing = [name for name in OPERATIONS if name not in known]
    homes = {name: home_of(name, tables) for name in missing}

    def replaced(match):
        table = match.group()
        rows = rows_of(table)
        if match[1] == "made by":
            others = {row[0].strip("`"): re.findall(OTHER_MAKERS, row[1]) for row in rows}
            names = operation_names()
            return drawn(ENTRIES, [[f"``{n}``", makers_of(n, others.get(n, []))] for n in names])
        if match[1] == "codes":
            return drawn(CODES, code_rows())
        if match[1] == "arguments":
            return drawn(BATCH_ROWS, batch_rows(rows))
        names = [row[0] for row in rows if row[0] in OPERATIONS]
        names += [name for name in missing if homes[name] & set(names)]
        if match[1] == "no":
            numbers = {row[0]: row[1] for row in rows}
            return drawn(ROUTES, [route_cells(name, numbers.get(name, "")) for name in names])
        written = {row[0]: row[1:] for row in rows}
        empty = ["", ""]
        taken = [taken_by(name, written.get(name, empty)[0]) for name in names]
        answers = [written.get(name, empty)[1] or answer_of(name) for name in names]
        cells = [list(row) for row in zip(names, taken, answers, strict=True)]
        return drawn(BODIES, cells)

    return TABLE.sub(replaced, text)


def home_of(name, tables):
    """Return the operations of the section with most of the same tag."""
    tag = OPERATIONS[name][2]["tags"]
    sections = [{row[0] for row in rows_of(table)} for table in tables]
    sizes = [sum(n in OPERATIONS and OPERATIONS[n][2]["tags"] == tag for n in s) for s in sections]
    return sections[sizes.index(max(sizes))]


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))

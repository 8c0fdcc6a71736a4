"""The tables of docs/staff.rst, made by ``make contract`` from the declarations of all views."""

import re
from pathlib import Path

import config
from app import create_app
from app.auth.permissions import Permission
from app.auth.shipped_roles import SHIPPED
from tests.contract_tables import camel_case, drawn, listed

PAGE = Path(__file__).parents[1] / "docs" / "staff.rst"
TABLE = re.compile(
    r"^=+(?:  =+)+\n(permission|role) .*\n=+(?:  =+)+\n(?:.+\n)+?=+(?:  =+)+\n", re.M
)
HEADS = {"permission": ("permission", "endpoints", "pages and forms"), "role": ("role", "may")}
LIMITS = {"LargestQuantity": "at once", "ItemsPerDay": "items a day", "RowsPerBatch": "rows"}


def permission_rows(app):
    """Return each permission with the endpoints, the pages and the forms that need it."""
    rules = sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule)
    needs = [(rule, app.view_functions[rule.endpoint].permissions or ()) for rule in rules]
    for permission in Permission:
        found = [rule for rule, needed in needs if permission in needed]
        pages = [rule for rule in found if rule.endpoint.startswith("console.")]
        views = {rule.endpoint.rpartition(".")[2]: None for rule in found if rule not in pages}
        paths = {re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)[9:] or "/": None for rule in pages}
        yield [f"``{permission.value}``", listed(map(camel_case, views)), listed(paths)]


def role_rows():
    for name, (permissions, limits) in SHIPPED.items():
        told = ", ".join(f"{limit:,} {LIMITS[key]}" for key, limit in limits.items())
        may = "everything" if len(permissions) == len(Permission) else listed(permissions)
        yield [f"``{name}``", f"{may}; at most {told}" if told else may]


def made(text):
    """Return the page with its tables as the service declares them."""
    rows = {"role": list(role_rows())}
    rows["permission"] = list(permission_rows(create_app(config.load({"QM_ENV": "testing"}))))
    return TABLE.sub(lambda found: drawn(HEADS[found[1]], rows[found[1]]), text)


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))

"""The tables of docs/staff.rst, made by ``make contract`` from the declarations of all views."""

import re
from pathlib import Path

import config
from app import create_app
from app.core.permissions import SHIPPED, Permission
from tests.contract_tables import drawn, listed

PAGE = Path(__file__).parents[1] / "docs" / "staff.rst"
TABLE = re.compile(
    r"^=+(?:  =+)+\n(permission|role) .*\n=+(?:  =+)+\n(?:.+\n)+?=+(?:  =+)+\n", re.M
)
HEADS = {"permission": ("permission", "allows", "pages, with their forms"), "role": ("role", "may")}
# Pages that are not in the menu.
PAGES = {"search": "Overview", "suggest": "Overview", "keys": "Keys", "roles": "Staff, Roles"}
LIMITS = {"LargestQuantity": "at once", "ItemsPerDay": "items a day", "RowsPerBatch": "rows"}


def permission_rows(app):
    """Return each permission with what it allows, and the pages and forms that need it."""
    rules = sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule)
    pages = [
        rule
        for rule in rules
        if rule.endpoint.startswith("console.") and not rule.rule.endswith(".csv")
    ]
    for permission in Permission:
        needing = [
            p for p in pages if permission in (app.view_functions[p.endpoint].permissions or ())
        ]
        named = {}
        for page in needing:
            title, *parts = page.rule.split("/")[2:]
            if "POST" in page.methods:
                parts = [page.endpoint.rsplit("_", 1)[-1]]
            forms = [part.replace("-", " ") for part in parts if part and "<" not in part]
            named.setdefault(PAGES.get(title, title.capitalize()), {}).update(dict.fromkeys(forms))
        texts = [f"{page} ({', '.join(forms)})" if forms else page for page, forms in named.items()]
        yield [f"``{permission.value}``", permission.about, "; ".join(texts)]


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

"""The site of the documents, which make docs builds: the same files as in the repository."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

PAGES = {
    "For operators": (
        *("docs/deploy", "docs/operating", "docs/staff", "docs/sign-in", "docs/console"),
        *("docs/reliability", "docs/personal-data", "docs/scale", "SECURITY"),
    ),
    "For games and tools": (
        *(
            "docs/contract",
            "docs/errors",
            "docs/game",
            "docs/collections",
            "docs/tooling",
            "docs/compatibility",
        ),
    ),
    "For developers": ("docs/architecture", "CONTRIBUTING", "tests/README", "CHANGELOG"),
}
# Files that pages link to, and that are no pages.
FILES = ("docs/examples", "benchmarks")

project = "Quartermaster"
root_doc = "README"
include_patterns = [f"{page}.rst" for page in (root_doc, *sum(PAGES.values(), ()))]
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_copyright = False
nitpicky = True
# JSON and shell of the examples hold "..." where a reader is to think.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "none"


def add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Append the list of all pages to the first one; the side bars show it, and each contents."""
    source[0] = re.sub(r"^\.\. contents::.*\n(?: +.*\n)*", "", source[0], flags=re.MULTILINE)
    if name == root_doc:
        for title, pages in PAGES.items():
            entries = "".join(f"   {page}\n" for page in pages)
            source[0] += f"\n.. toctree::\n   :hidden:\n   :caption: {title}\n\n{entries}"


def link_pages(_: Sphinx, doctree: nodes.document) -> None:
    """Let links to documents, which are to files in the repository, lead to pages of the site."""
    for link in doctree.findall(nodes.reference):
        if "://" not in (target := link.get("refuri", "")):
            link["refuri"] = re.sub(r"\.rst(?=#|$)", ".html", target)


def add_files(app: Sphinx, exception: Exception | None) -> None:
    """Add the files that pages link to, and the first page under the name that servers look for."""
    if exception is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))
    for folder in FILES if exception is None else ():
        source = Path(app.srcdir, folder)
        for file in (one for one in source.iterdir() if one.is_file()):
            target = Path(app.outdir, folder, file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", link_pages)
    app.connect("build-finished", add_files)

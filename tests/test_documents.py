"""The documents name files, targets and settings that exist."""

import re
import typing
from pathlib import Path

import pytest

from config.base import Settings

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.rst"), *(ROOT / "docs").glob("*.rst")])
GUIDES = [ROOT / "CONTRIBUTING.rst", ROOT / "docs" / "architecture.rst"]
FOLDERS = r"(?:app|config|tests|docs|deploy|benchmarks|postman|\.ci)"
PATH = re.compile(rf"(?<![\w/.]){FOLDERS}(?:/[\w.-]*\w)+")
TOP_LEVEL = re.compile(r"``([\w.-]+\.(?:rst|cfg|lock|yaml)|Dockerfile|Makefile)``")


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_path_that_is_named_exists(page):
    text = page.read_text()
    named = {*PATH.findall(text), *TOP_LEVEL.findall(text)}
    assert len(named) > 10
    missing = {path for path in named if not is_there(path)}
    assert missing == set()


def is_there(path):
    """Tell whether there is such a file or folder; a module may go without its suffix."""
    return (ROOT / path).exists() or (ROOT / f"{path}.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"<([^>\s:]+\.\w+)>`_", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_target_of_make_that_is_named_exists(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:``|^ +)make\s+([a-z-]+)\b", page.read_text(), re.MULTILINE))
    assert named <= targets


# The changelog names what is gone as well.
@pytest.mark.parametrize("page", [p for p in PAGES if p.stem != "CHANGELOG"], ids=name)
def test_every_setting_that_is_named_exists(page):
    named = set(re.findall(r"``QM_([A-Z0-9_]+)", page.read_text()))
    known = {*typing.get_type_hints(Settings), "ENV", "TEST_MONGOD"}
    assert {n for n in named if not n.endswith("_")} <= known

"""Documents and deployment files name files, targets and settings that exist."""

import re
import typing
from pathlib import Path

from config.base import Settings

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.rst"), *(ROOT / "docs").glob("*.rst"), ROOT / "tests/README.rst"])
# The changelog names what is gone as well.
TODAY = [page for page in PAGES if page.stem != "CHANGELOG"]
FILES = [path for path in (ROOT / "deploy").iterdir() if path.is_file()]
FILES += [ROOT / name for name in ("config/nginx.conf", "Dockerfile", "compose.yaml")]
# Pages whose paths are those of this repository; others tell of a machine or a game.
GUIDES = [ROOT / name for name in ("CONTRIBUTING.rst", "SECURITY.rst", "docs/architecture.rst")]
GUIDES.append(ROOT / "docs/deploy.rst")
FOLDERS = r"(?:app|config|tests|docs|deploy|benchmarks|postman|tools|\.ci)"
PATH = re.compile(rf"(?<![\w/.-]){FOLDERS}(?:/[\w.-]*\w)+")
TOP_LEVEL = re.compile(r"``([\w.-]+\.(?:rst|cfg|lock|yaml)|Dockerfile|Makefile)``")
SETTINGS = {*typing.get_type_hints(Settings), "ENV", "TEST_MONGOD"}


def test_every_path_that_is_named_exists():
    for page in [*GUIDES, *FILES]:
        text = page.read_text()
        named = {*PATH.findall(text), *TOP_LEVEL.findall(text)}
        assert page not in GUIDES or len(named) > 4, page
        # A module may go without its suffix, and a file with one for each case.
        missing = {path for path in named if not [*ROOT.glob(path), *ROOT.glob(f"{path}*")]}
        assert missing == set(), page


def test_every_link_leads_somewhere():
    for page in PAGES:
        for target, anchor in re.findall(r"<([^>\s:#]+\.\w+)(?:#(\S+))?>`_", page.read_text()):
            assert (page.parent / target).exists(), (page, target)
            titles = re.findall(r"^(.+)\n[-=~^]{3,}$", (page.parent / target).read_text(), re.M)
            slugs = {"", *(re.sub(r"\W+", "-", title.lower()) for title in titles)}
            assert anchor in slugs, (page, target, anchor)


def test_every_target_of_make_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:``|^ +)make\s+([a-z-]+)\b", page.read_text(), re.MULTILINE))
        assert named <= targets, page


def test_every_setting_that_is_named_exists():
    for page in [*TODAY, *FILES]:
        named = set(re.findall(r"\bQM_([A-Z0-9_]+)", page.read_text()))
        assert {name for name in named if not name.endswith("_")} <= SETTINGS, page

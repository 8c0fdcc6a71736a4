"""make release: commits and tags a version, and pushes nothing.

The changelog's unreleased section gets the version and the date, and setup.cfg gets the version.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

SETUP, CHANGELOG = Path("setup.cfg"), Path("CHANGELOG.rst")
VERSION = re.compile(r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)", re.ASCII)
# The one place where the version stands.
SETTING = re.compile(r"^version = (.*)$", re.MULTILINE)
UNRELEASED = "Unreleased\n----------\n"
SECTION = re.compile(rf"^{UNRELEASED}\n(.*?)(?=^[^\n]+\n-{{3,}}$|\Z)", re.MULTILINE | re.DOTALL)


def git(*words: str) -> str:
    done = subprocess.run(  # nosec B603 B607 # noqa: S603 (our own arguments)
        ["git", *words],  # noqa: S607 (git is where the PATH says)
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def refuse_unless_ready(version: str) -> None:
    """Exit with a sentence unless this version can be released from here."""
    if not VERSION.fullmatch(version):
        sys.exit("Say which version: make release VERSION=0.4.0")
    if git("status", "--porcelain"):
        sys.exit("The tree is not clean: commit or stash what git status shows.")
    if (branch := git("rev-parse", "--abbrev-ref", "HEAD")) != "main":
        sys.exit(f"Releases are made on main, not on '{branch}'.")
    if git("tag", "--list", f"v{version}"):
        sys.exit(f"There is a tag v{version} already.")
    before = current_version()
    if numbers(version) <= numbers(before):
        sys.exit(f"{version} does not come after {before}, the version in {SETUP}.")
    if not unreleased():
        sys.exit(f"{CHANGELOG} has nothing under 'Unreleased': there is nothing to release.")


def current_version() -> str:
    found = SETTING.search(SETUP.read_text())
    return found[1] if found else sys.exit(f"{SETUP} has no version.")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def unreleased() -> str:
    found = SECTION.search(CHANGELOG.read_text())
    return found[1].strip() if found else ""


def write(version: str) -> None:
    title = f"{version} ({datetime.now(timezone.utc):%Y-%m-%d})"
    released = f"{UNRELEASED}\n{title}\n{'-' * len(title)}\n"
    CHANGELOG.write_text(CHANGELOG.read_text().replace(UNRELEASED, released, 1))
    SETUP.write_text(SETTING.sub(f"version = {version}", SETUP.read_text(), count=1))


def main(version: str) -> None:
    refuse_unless_ready(version)
    write(version)
    git("add", str(SETUP), str(CHANGELOG))
    why = f"What it brings stands in {CHANGELOG} under {version}."
    git("commit", "--quiet", "--message", f"release: {version}", "--message", why)
    git("tag", "--annotate", f"v{version}", "--message", f"Quartermaster {version}")
    print(f"Released {version}: a commit and the tag v{version}, here alone. To publish them:")
    print(f"  git push origin main v{version}")
    print(f"make dist writes quartermaster-{version}.tar.gz, which operators install.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")

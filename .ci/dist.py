"""make dist: writes the source archive, which docs/deploy.rst installs, to dist/.

Away from the tag of its version, the commit becomes a part of the version: a deployment says what
it runs, and two commits have two folders.
"""

from __future__ import annotations

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

from release import current_version, git
from setuptools import setup


def commit_label() -> str:
    """Return what the version lacks to name this state; nothing at its tag, or without git."""
    if not Path(".git").exists():
        return ""
    state = git("describe", "--always", "--dirty", "--exclude=*")
    if "dirty" not in state and f"v{current_version()}" in git("tag", "--points-at").split():
        return ""
    # PEP 440. Without the letter, a commit of digits alone would be taken for a number.
    return f"+g{state.replace('-', '.')}"


def main() -> None:
    label = commit_label()
    logging.disable(logging.WARNING)  # that there is nothing to leave out
    # Files of root's: their builder's account may be anybody's where they are unpacked.
    sdist = ["sdist", "--formats=gztar", "--owner=root", "--group=root"]
    # The folder of the editable installation would lend its list of files, and take this version.
    with TemporaryDirectory() as folder:
        egg_info = ["egg_info", f"--egg-base={folder}", f"--tag-build={label}"]
        setup(script_args=["--quiet", *egg_info, *sdist])
    print(f"dist/quartermaster-{current_version()}{label}.tar.gz")


if __name__ == "__main__":
    main()

"""The lock files: whatever Python and processor, they hold one version of each requirement."""

import configparser
import re
import subprocess
from collections import defaultdict
from itertools import product, starmap
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DEPLOYED, DEVELOPED = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
PYTHONS = re.findall(r"Python :: (3\.\d+)", SETUP["metadata"]["classifiers"])
MACHINES = ("x86_64", "aarch64")
PIN = re.compile(r"^(\S+==\S+(?: ; [^\\\n]+)?)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$", re.M)


def requirements(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Requirement(line) for line in lines]


def wanted(lock):
    """Return what a lock file is made of."""
    extras = SETUP["options.extras_require"]
    names = ["build"] if lock == DEPLOYED else list(extras)
    texts = [SETUP["options"]["install_requires"], *(extras[name] for name in names)]
    return [requirement for text in texts for requirement in requirements(text)]


def environment(python, machine):
    return {
        **default_environment(),
        **dict.fromkeys(("python_full_version", "implementation_version"), f"{python}.5"),
        **{"python_version": python, "platform_machine": machine, "extra": ""},
        **{"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    }


def pins(lock, where):
    """Return the versions of a lock file that count in an environment, by name."""
    found = defaultdict(list)
    for text, _ in PIN.findall(lock.read_text()):
        pin = Requirement(text)
        if pin.marker is None or pin.marker.evaluate(where):
            (version,) = pin.specifier
            found[canonicalize_name(pin.name)].append(version.version)
    return found


both_locks = pytest.mark.parametrize("lock", [DEPLOYED, DEVELOPED], ids=lambda path: path.name)


@both_locks
def test_a_lock_satisfies_the_ranges(lock):
    for where in starmap(environment, product(PYTHONS, MACHINES)):
        found = pins(lock, where)
        assert {name for name, versions in found.items() if len(versions) > 1} == set(), where
        for requirement in wanted(lock):
            if requirement.marker is None or requirement.marker.evaluate(where):
                (version,) = found[canonicalize_name(requirement.name)]
                assert requirement.specifier.contains(version), f"{requirement}: run make lock"


@both_locks
def test_every_line_of_a_lock_is_a_pin_with_hashes_or_a_comment(lock):
    text = lock.read_text()
    assert all(hashes for _, hashes in PIN.findall(text))
    rest = [line for line in PIN.sub("", text).splitlines() if line.strip()]
    assert [line for line in rest if not line.lstrip().startswith("#")] == []
    assert not re.search(r"://|--index|--extra-index|--find-links|--trusted-host|@ |/", text)


def test_what_is_deployed_is_what_was_tested():
    where = environment("3.13", "x86_64")
    assert pins(DEPLOYED, where).items() <= pins(DEVELOPED, where).items()


def test_container_ci_and_developers_install_from_the_locks():
    assert "--require-hashes -r requirements.lock" in (ROOT / "Dockerfile").read_text()
    assert "make locked\n" in (ROOT / ".ci" / "run").read_text()
    targets = ["hooks", "lint", "types", "audit", "contract", "locked"]
    command = ["make", "--dry-run", "--always-make", *targets]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert "--require-hashes --requirement requirements-dev.lock" in planned
    assert "'.[" not in planned, "it installs from ranges"
    build = re.search(r'^requires = \["(.*)"\]$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert build == SETUP["options.extras_require"]["build"].strip()

"""The lock files: whatever Python and processor, they hold one version of each requirement."""

import configparser
import re
import subprocess
from collections import defaultdict
from itertools import product, starmap
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DEPLOYED, DEVELOPED = ROOT / "requirements.lock", ROOT / "requirements-dev.lock"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
PIN = re.compile(r"^(\S+==\S+(?: ; [^\\\n]+)?)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$", re.M)


def setup():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def requirements(text):
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Requirement(line) for line in lines]


def wanted(lock):
    """Return what a lock file is made of."""
    extras = setup()["options.extras_require"]
    names = ["build"] if lock == DEPLOYED else list(extras)
    texts = [setup()["options"]["install_requires"], *(extras[name] for name in names)]
    return [requirement for text in texts for requirement in requirements(text)]


def environment(python, machine):
    return {
        "python_version": python,
        "python_full_version": f"{python}.5",
        "implementation_version": f"{python}.5",
        "platform_machine": machine,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
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


def test_container_and_ci_install_from_the_locks():
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "pip install --require-hashes -r requirements.lock" in dockerfile
    assert "make locked\n" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("target", ["hooks", "lint", "types", "audit", "contract", "locked"])
def test_what_developers_check_with_is_installed_from_the_lock(target):
    command = ["make", "--dry-run", "--always-make", target]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert "--require-hashes --requirement requirements-dev.lock" in planned
    assert "'.[" not in planned, "it installs from ranges"


def test_pip_builds_the_package_with_what_is_locked():
    build = re.search(r'^requires = \["(.*)"\]$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert build == setup()["options.extras_require"]["build"].strip()


def test_the_supported_pythons_are_the_locked_ones():
    listed = re.findall(r"Python :: (3\.\d+)", setup()["metadata"]["classifiers"])
    assert tuple(listed) == PYTHONS

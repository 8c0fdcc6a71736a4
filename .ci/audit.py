"""Looks up known vulnerabilities of all that the program installs, and says whether it could.

A service that is away, or a mirror that knows of none at all, finds nothing either. So a release is
looked up along with ours that is known to be vulnerable: who does not know that one was not asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROGRAM = "quartermaster"
SERVICES = ("pypi", "osv")
# CVE-2018-18074; the program does not use this package.
KNOWN = ("requests", "2.19.0")
# How pip-audit ends when it is called in a way that it does not know.
MISUSED = 2

Report = list[dict[str, Any]]


def installed(package: str, found: dict[str, str] | None = None) -> dict[str, str]:
    """Return the versions of what a package needs, and of what that needs in turn."""
    found = {} if found is None else found
    for text in distribution(package).requires or ():
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        if name not in found:
            found[name] = distribution(name).version
            installed(name, found)
    return found


def ask(service: str, packages: dict[str, str]) -> Report:
    """Return what a service says of packages; nothing where it does not answer."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{name}=={version}\n" for name, version in packages.items())
        file.flush()
        what = ["--vulnerability-service", service, "--requirement", file.name]
        how = ["--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off"]
        done = subprocess.run(  # nosec B603 # noqa: S603 (our own arguments)
            [sys.executable, "-m", "pip_audit", *what, *how],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.stdout:
        report: Report = json.loads(done.stdout)["dependencies"]
        return report
    print(f"{service}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    if done.returncode == MISUSED:
        sys.exit(1)
    return []


def is_informed(report: Report) -> bool:
    """Tell whether a service knows what everybody knows."""
    return any((entry["name"], bool(entry.get("vulns"))) == (KNOWN[0], True) for entry in report)


def tell(report: Report, service: str) -> int:
    """Say what was found, and return how to end."""
    ours = [entry for entry in report if entry["name"] != KNOWN[0]]
    audited = [entry for entry in ours if "vulns" in entry]
    unknown = [entry["name"] for entry in ours if "vulns" not in entry]
    faults = [(entry, fault) for entry in audited for fault in entry["vulns"]]
    for entry, fault in faults:
        fixed = ", ".join(fault["fix_versions"]) or "no version yet"
        print(f"{entry['name']} {entry['version']}: {fault['id']}, mended in {fixed}")
    print(f"{len(audited)} packages audited at {service}: {len(faults)} known vulnerabilities.")
    if unknown:
        print(f"Unknown there, so NOT audited: {', '.join(unknown)}.")
    return 1 if faults else 0


def main() -> int:
    packages = installed(PROGRAM)
    for service in SERVICES:
        report = ask(service, {**packages, KNOWN[0]: KNOWN[1]})
        if is_informed(report):
            return tell(report, service)
    places = " nor ".join(SERVICES)
    print(
        f"NOT audited: neither {places} answers from here as one that knows vulnerabilities. "
        f"The {len(packages)} packages were not looked up; run make audit where the internet is.",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

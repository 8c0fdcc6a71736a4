"""What make audit says of what a service of known vulnerabilities says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parent.parent / ".ci" / "audit.py"
FAULT = {"id": "PYSEC-2018-28", "fix_versions": ["2.20.0"]}
KNOWN = {"name": "requests", "version": "2.19.0", "vulns": [FAULT]}
SOUND = {"name": "flask", "version": "3.1.3", "vulns": []}
FAULTY = {"name": "werkzeug", "version": "3.1.0", "vulns": [FAULT]}
SKIPPED = [{"name": name, "skip_reason": "not found"} for name in ("requests", "flask")]
NOT_AUDITED = "NOT audited: neither pypi nor osv answers"


@pytest.fixture
def audit(monkeypatch):
    """Return a way to audit with given reports of the two services."""
    spec = importlib.util.spec_from_file_location("audit", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def audit(pypi, osv):
        reports = {"pypi": pypi, "osv": osv}
        monkeypatch.setattr(module, "ask", lambda service, packages: reports[service])
        return module.main()

    audit.module = module
    return audit


@pytest.mark.parametrize("silent", [[], SKIPPED, [{**KNOWN, "vulns": []}, SOUND]])
def test_a_service_that_knows_nothing_has_not_audited_anything(audit, capsys, silent):
    assert audit(silent, silent) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert NOT_AUDITED in told.err


def test_the_second_service_is_asked_where_the_first_knows_nothing(audit, capsys):
    assert audit(SKIPPED, [KNOWN, SOUND]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("1 packages audited at osv: 0 known vulnerabilities.\n", "")


def test_a_vulnerability_is_told_and_fails(audit, capsys):
    assert audit([KNOWN, SOUND, FAULTY], []) == 1
    assert capsys.readouterr().out == (
        "werkzeug 3.1.0: PYSEC-2018-28, mended in 2.20.0\n"
        "2 packages audited at pypi: 1 known vulnerabilities.\n"
    )


def test_what_a_service_does_not_know_is_named(audit, capsys):
    assert audit([KNOWN, {"name": "flask", "skip_reason": "not found"}], []) == 0
    assert "Unknown there, so NOT audited: flask.\n" in capsys.readouterr().out


def test_all_that_the_program_installs_is_looked_up_and_nothing_else(audit):
    packages = audit.module.installed("quartermaster")
    # Needed by itself, by what it needs, and by the tests alone.
    assert {"flask", "jinja2"} <= packages.keys()
    assert not {"pytest", audit.module.KNOWN[0]} & packages.keys()

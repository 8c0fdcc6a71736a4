"""Reads docs/deploy.rst: its chapters, and the lines that are typed in each."""

import re
import textwrap
from pathlib import Path

GUIDE = (Path(__file__).parents[1] / "docs" / "deploy.rst").read_text()
# What begins a literal block that is not for a shell.
NOT_TYPED = (
    "clients --",
    "rule_files",
    "QM_SECRET_KEY=NEW",
    "listen 443",
    "set_real",
    "- job_name",
    "ip saddr",
)


def chapters():
    """Return the chapters by their titles, in the order of the guide."""
    parts = re.split(r"^(.+)\n-{3,}\n", GUIDE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(text=GUIDE):
    """Return the literal blocks of a text, as they would be pasted."""
    found = re.findall(r"::\n\n((?:    .*\n|\n)+)", text)
    return [textwrap.dedent(block).strip() + "\n" for block in found]


def shell_blocks(text=GUIDE):
    return [block for block in blocks(text) if not block.startswith(NOT_TYPED)]

"""The command line as its users see it: each file of transcripts/ is a story on an empty database.

``$`` begins what is typed, in an empty folder, with settings before it as in a shell; ``>`` a line
of its standard input. The lines below, up to a blank one, are what it prints, and ``[1]`` is the
exit code if it is not 0. ``...`` is any text, in a line or instead of lines; ``<word>`` is any
word, and the same one from then on. Whatever else is in a file is for its readers. All passwords
are hunter2, which is never printed.
"""

import os
import re
import shlex
from functools import partial
from pathlib import Path
from pwd import getpwuid
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from app.__main__ import main

FILES = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))
STEP = re.compile(r"^\$ (.+)\n((?:>.*\n)*)((?:(?!\$ ).+\n)*)", re.MULTILINE)
OPEN = re.compile(r"(^\.\.\.\n|\.\.\.|<\w+>)", re.MULTILINE)


@pytest.fixture
def shell(real_db, mongodb_uri, tmp_path, monkeypatch):
    """Return what runs a line, and returns what it prints and how it ends."""
    monkeypatch.chdir(tmp_path)
    settings = {"ENV": "testing", "MONGODB_URI": mongodb_uri, "DATA_DIR": str(tmp_path / "data")}

    def run(line, stdin):
        words, env = shlex.split(line), {f"QM_{name}": value for name, value in settings.items()}
        while "=" in words[0]:
            name, _, env[name] = words.pop(0).partition("=")
        is_silent = words[-1] == "2>/dev/null"
        arguments = words[1 : -1 if is_silent else None]
        with patch.dict(os.environ, env):
            done = CliRunner().invoke(main, arguments, stdin, prog_name=words[0])
        printed = done.stdout if is_silent else done.output
        return printed + (f"[{done.exit_code}]\n" if done.exit_code else "")

    yield run
    real_db.client.drop_database("other")


def said(known, word):
    """Return what a word stands for by now."""
    return known.get(word[1], word[0])


def pattern_of(text):
    """Return the pattern of an output, in which new words are groups."""
    pattern = ""
    for part in OPEN.split(text):
        word = part[1:-1]
        if part.startswith("..."):
            pattern += ".*" if part == "..." else r"(?:.*\n)*"
        elif not OPEN.match(part):
            pattern += re.escape(part)
        else:
            is_new = f"<{word}>" not in pattern
            pattern += rf"(?P<{word}>[^\s\"'();]+)" if is_new else f"(?P={word})"
    return pattern


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_commands_print_what_a_transcript_says(shell, mongodb_uri, file):
    known = {"me": getpwuid(os.getuid()).pw_name, "mongodb": mongodb_uri.split("/")[2]}
    for step in STEP.findall(file.read_text()):
        line, stdin, expected = (re.sub(r"<(\w+)>", partial(said, known), part) for part in step)
        printed = shell(line, re.sub("^> ?", "", stdin, flags=re.MULTILINE))
        printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines() if line)
        found = re.fullmatch(pattern_of(expected), printed)
        assert found, f"$ {line}\n{printed}"
        assert "hunter2" not in printed
        known |= found.groupdict()

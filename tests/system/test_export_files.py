"""The files that export writes: their mode, atomic replacement, and symlinks."""

import os
import stat
import sys
import threading

import pytest

from app.core.errors import Conflict
from app.maintenance.transfer.store import open_output
from tests.factories import make_user


@pytest.fixture(autouse=True)
def usual_umask():
    """With umask 022, files are readable by others unless their mode is set."""
    former = os.umask(0o022)
    yield
    os.umask(former)


@pytest.fixture
def export(quartermaster, real_db):
    """Run export on a database with one account."""
    real_db.users.insert_one(make_user("$argon2id$secret"))

    def run(kind, path):
        result = quartermaster("export", kind, path)
        assert result.exit_code == 0, result.output

    return run


@pytest.mark.parametrize(("kind", "mode"), [("users", 0o600), ("players", 0o644)])
def test_the_mode_of_what_stood_there_is_not_kept(export, tmp_path, kind, mode):
    out, part = tmp_path / "out", tmp_path / "out.part"
    for path in (out, part):
        path.write_text("former")
        path.chmod(0o666)
    export(kind, out)
    assert stat.S_IMODE(out.stat().st_mode) == mode
    assert part.read_text() == "former"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["out", "out.part"])
def test_a_link_that_somebody_planted_is_not_followed(export, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / name).symlink_to(precious)
    export("users", tmp_path / "out")
    assert precious.read_text() == "mine"
    assert not (tmp_path / "out").is_symlink()
    assert "$argon2id$secret" in (tmp_path / "out").read_text()


def test_two_exports_into_one_file_are_each_whole(tmp_path):
    path = tmp_path / "out"
    with open_output(str(path), True) as one:
        one.write(b"one ")
        with open_output(str(path), True) as other:
            other.write(b"the other")
        assert path.read_bytes() == b"the other"
        one.write(b"whole")
    assert path.read_bytes() == b"one whole"
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_into_a_pipe_leaves_it_a_pipe(export, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    export("users", pipe)
    reader.join()
    assert "$argon2id$secret" in read[0]
    assert pipe.is_fifo()


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_secrets_are_not_written_into_a_file_that_others_can_read(tmp_path, monkeypatch, path):
    """Into which a shell has redirected standard output."""
    for mode, is_secret in ((0o600, True), (0o644, False), (0o644, True)):
        (tmp_path / "out").touch()
        (tmp_path / "out").chmod(mode)
        with (tmp_path / "out").open("w") as out, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            if mode & 0o044 and is_secret:
                with pytest.raises(Conflict, match="a file that others can read"):
                    open_output(path, is_secret).__enter__()
            else:
                with open_output(path, is_secret) as file:
                    file.write(b"secret")
    assert (tmp_path / "out").read_bytes() == b""

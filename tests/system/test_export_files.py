"""The files that export writes: their mode, atomic replacement, and symlinks."""

import os
import stat
import threading
from pathlib import Path

import pytest

from app.maintenance.transfer.store import open_output
from tests.factories import make_user
from tests.system import fork_server
from tests.system.programs import PROGRAM, environment


@pytest.fixture(autouse=True)
def usual_umask():
    """With umask 022, files are readable by others unless their mode is set."""
    former = os.umask(0o022)
    yield
    os.umask(former)


@pytest.fixture
def export(quartermaster, real_db):
    """Run export in this process, on a real database with one account."""
    real_db.users.insert_one(make_user("$argon2id$secret"))

    def run(kind, path):
        result = quartermaster("export", kind, path)
        assert result.exit_code == 0, result.output

    return run


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize(("kind", "expected"), [("users", 0o600), ("players", 0o644)])
def test_the_mode_of_what_stood_there_is_not_kept(export, tmp_path, kind, expected):
    for name in ("out", "out.part"):
        (tmp_path / name).write_text("former")
        (tmp_path / name).chmod(0o666)
    export(kind, tmp_path / "out")
    assert mode(tmp_path / "out") == expected
    assert (tmp_path / "out.part").read_text() == "former"
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


@pytest.fixture
def redirected(export, mongodb_uri, tmp_path):
    """Run export with standard output redirected to a file of a given mode."""

    def run(kind, path, file_mode):
        file = tmp_path / "out"
        file.touch()
        file.chmod(file_mode)
        env = environment(tmp_path, ENV="testing", MONGODB_URI=mongodb_uri)
        errors, nothing = tmp_path / "errors", Path(os.devnull)
        with nothing.open("rb") as stdin, file.open("wb") as out, errors.open("wb") as err:
            standard = [stdin.fileno(), out.fileno(), err.fileno()]
            command = [PROGRAM, "export", kind, str(path)]
            returncode = fork_server.start_on(command, env, *standard).wait(120)
        return returncode, errors.read_text(), file

    return run


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_hashes_are_not_written_into_a_file_that_others_can_read(redirected, path):
    returncode, errors, file = redirected("users", path, 0o644)
    assert returncode == 1
    assert errors == (
        "Error: Standard output is a file that others can read, and the records are secret: give a "
        "FILE, or set umask 077 first.\n"
    )
    assert file.read_bytes() == b""


@pytest.mark.parametrize(("kind", "file_mode"), [("users", 0o600), ("players", 0o644)])
def test_what_may_be_read_is_written_anywhere(redirected, kind, file_mode):
    returncode, errors, file = redirected(kind, "-", file_mode)
    assert returncode == 0
    # Progress and hints go elsewhere.
    assert errors.startswith(f"A file of {kind} does not contain ")
    assert ("$argon2id$secret" in file.read_text()) == (kind == "users")

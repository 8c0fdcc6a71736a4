"""The key that development makes for itself: the same for all workers."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import config
from app.auth.tokens import signing_keys
from app.core.errors import QuartermasterError

WORKERS = 8
ABSURD = [b"", b"\n", b" " * 64, b"short", b"\0" * 64, b"\xff\xfe" * 32, b"k" * 31 + b"\n"]


def kept_in(folder):
    return config.load({"QM_ENV": "testing"}, SECRET_KEY=None, DATA_DIR=str(folder))


def kept_by_all(folder):
    """Return the keys that workers which start together sign with."""
    start, settings = Barrier(WORKERS), kept_in(folder)

    def key(_):
        start.wait()
        return signing_keys(settings)[0]

    with ThreadPoolExecutor(WORKERS) as pool:
        return set(pool.map(key, range(WORKERS)))


def test_workers_that_start_together_agree_on_one_key(tmp_path):
    for number in range(8):
        folder = tmp_path / str(number)
        (key,) = kept_by_all(folder)
        assert len(key) >= 32
        assert signing_keys(kept_in(folder)) == [key]
        (file,) = folder.iterdir()
        assert (file.read_text(), file.stat().st_mode & 0o077) == (key, 0)


@pytest.mark.parametrize("content", ABSURD)
def test_what_is_no_key_is_refused(tmp_path, content):
    (tmp_path / "secret_key").write_bytes(content)
    with pytest.raises(QuartermasterError, match="contains no key of at least 32 characters"):
        signing_keys(kept_in(tmp_path))


@pytest.mark.parametrize("key", ["k" * 32, "a key of my own, by hand, with spaces\n"])
def test_a_key_is_kept_as_it_is(tmp_path, key):
    (tmp_path / "secret_key").write_text(key)
    assert signing_keys(kept_in(tmp_path)) == [key]


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "secret_key").mkdir()
    with pytest.raises(QuartermasterError, match=r"/secret_key cannot be used: Is a directory\."):
        signing_keys(kept_in(tmp_path))

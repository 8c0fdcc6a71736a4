"""The key that development makes for itself: the same for all workers."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import config
from app.auth.tokens import signing_keys
from app.core.errors import QuartermasterError

WORKERS = 8
ABSURD = [b"", b" " * 64, b"short", b"\0" * 64, b"\xff\xfe" * 32, b"k" * 31 + b"\n"]


def kept_in(folder):
    settings = config.load({"QM_ENV": "testing"}, SECRET_KEY=None, DATA_DIR=str(folder))
    return signing_keys(settings)


def test_workers_that_start_together_agree_on_one_key(tmp_path):
    start = Barrier(WORKERS)

    def key_of(folder):
        start.wait()
        return kept_in(folder)[0]

    for number in range(8):
        folder = tmp_path / str(number)
        with ThreadPoolExecutor(WORKERS) as pool:
            (key,) = set(pool.map(key_of, [folder] * WORKERS))
        assert len(key) >= 32
        (file,) = folder.iterdir()
        assert (file.read_text(), file.stat().st_mode & 0o077) == (key, 0)


def test_a_key_is_kept_as_it_is_and_what_is_none_is_refused(tmp_path):
    file = tmp_path / "secret_key"
    for key in ("k" * 32, "a key of my own, by hand, with spaces\n"):
        file.write_text(key)
        assert kept_in(tmp_path) == [key]
    for content in ABSURD:
        file.write_bytes(content)
        with pytest.raises(QuartermasterError, match="contains no key of at least 32 characters"):
            kept_in(tmp_path)
    file.unlink()
    file.mkdir()
    with pytest.raises(QuartermasterError, match=r"/secret_key cannot be used: Is a directory\."):
        kept_in(tmp_path)

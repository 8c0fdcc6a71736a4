"""What a worker has used for a moment, it gives back."""

import os
import platform

import pytest

from tests.system import fork_server

# Hashes in threads, as a worker does, one after another; prints by how many MB the process grew.
PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
import psutil
from app.server import resources
from app.users.passwords import Passwords

if sys.argv[1] == "returned":
    resources.save_memory()
passwords = Passwords(time_cost=1, memory_kib=19 * 1024, parallelism=1)
process = psutil.Process()
passwords.hash("0" * 64)
before = process.memory_info().rss
for _ in range(3):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(passwords.hash, "0" * 64).result()
print((process.memory_info().rss - before) / 2**20)
"""


@pytest.fixture
def grown_by(tmp_path):
    script = tmp_path / "hashing.py"
    script.write_text(PROGRAM)
    return lambda how: float(fork_server.run([str(script), how], dict(os.environ)).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_the_memory_of_a_hash_is_returned(grown_by):
    assert grown_by("kept") > 15
    assert grown_by("returned") < 5

"""The benches run, and end loudly where an answer is wrong. How fast anything is, is not tested."""

import shutil
from types import SimpleNamespace

import pytest

pytest.importorskip("psutil", reason="the bench extra is not installed")

from benchmarks import worlds
from benchmarks.checks import WrongAnswer, check_load
from benchmarks.load import Load
from benchmarks.report import BENCH_CELLS
from benchmarks.servers import SERVERS

pytestmark = pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")

PLAYERS = 2000
CELL = {cell.key: cell for cell in BENCH_CELLS}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def world(data):
    """A small world that all tests share, and with it the running MongoDB."""
    with worlds.opened(data, PLAYERS) as (world,):
        yield world


@pytest.mark.parametrize(("refused", "broken"), [(1, 0), (0, 1)])
def test_a_request_that_failed_ends_the_bench(refused, broken):
    failed = Load(100, 1.0, 1.0, 1.0, refused, broken)
    with pytest.raises(WrongAnswer, match="refused"):
        check_load(CELL["a"], SimpleNamespace(server=SERVERS[0]), failed)

"""The benches run, and end loudly where an answer is wrong. How fast anything is, is not tested."""

import shutil
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

pytest.importorskip("psutil", reason="the bench extra is not installed")

from benchmarks import bench, console, growth, worlds
from benchmarks.checks import WrongAnswer, check_answers, check_load
from benchmarks.load import Load
from benchmarks.peers.tokens import jwt_for
from benchmarks.report import BENCH_CELLS
from benchmarks.samples import Run
from benchmarks.servers import SERVERS, running

pytestmark = pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")

PLAYERS = 2000
CELL = {cell.key: cell for cell in BENCH_CELLS}
# Ours, and what ours is compared with. make bench checks the other frameworks' answers itself.
COMPARED = ("quartermaster", "quartermaster-granian", "limit", "limit-whole-give")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def world(data):
    """A small world that all tests share, and with it the running MongoDB."""
    with worlds.opened(data, PLAYERS) as (world,):
        yield world


def run_command(command, data, *options):
    """Run a bench by its command line, in the data that the shared world is in."""
    return CliRunner().invoke(command, ["--data", str(data), "--output", str(data), *options])


@pytest.mark.everything
def test_a_short_run_writes_a_report_and_keeps_the_findings(world, data, monkeypatch):
    monkeypatch.setattr(console, "REPEATS", 2)
    (data / "results.md").write_text("# Old\n\n## Findings\n\nKept.\n")
    options = f"--players {PLAYERS} --seconds 1 --rounds 1 --cells a,d,l,n,o,p".split()
    result = run_command(bench.main, data, *options, "--servers", "quartermaster,limit-whole-give")
    assert result.exit_code == 0, result.output
    written = (data / "results.md").read_text()
    assert "A partial run" in written
    assert "| limit-whole-give |" in written
    assert written.endswith("## Findings\n\nKept.\n")
    for told in (
        "(d) CPU of workers and MongoDB of quartermaster to limit-whole-give",
        "(n) worker CPU of a page of the console",
        "(o) gives to one player by 32 clients: retries each",
        "(p) changes of one global variable by 32 clients: p99",
        "memory of a worker after batches",
    ):
        assert told in result.output
    assert world.db.batches.count_documents({}) == 0


@pytest.mark.everything
def test_servers_answer_their_cells_rightly(world, data):
    jwt = jwt_for(worlds.CALLER, worlds.SECRET)
    credentials = {"token": world.token(), "jwt": jwt}
    for server in (server for server in SERVERS if server.name in COMPARED):
        with running(server, world, credentials[server.credential], 1, data) as served:
            for key in filter("abcdi".__contains__, server.cells):
                check_answers(CELL[key], served, CELL[key].requests(world))
    world.reset()


@pytest.mark.everything
def test_a_change_without_an_entry_in_history_ends_the_bench(world, data):
    forgetful = next(s for s in SERVERS if s.name == "limit")._replace(has_history=True)
    run = Run(1, 1, PLAYERS, is_full=False)
    with pytest.raises(WrongAnswer, match="left 0 entries in history"):
        list(bench.measured(run, world, [forgetful], [CELL["d"]], data))
    world.reset()


@pytest.mark.parametrize(("refused", "broken"), [(1, 0), (0, 1)])
def test_a_request_that_failed_ends_the_bench(refused, broken):
    failed = Load(100, 1.0, 1.0, 1.0, refused, broken)
    with pytest.raises(WrongAnswer, match="refused"):
        check_load(CELL["a"], SimpleNamespace(server=SERVERS[0]), failed)


@pytest.mark.everything
def test_a_small_growth_is_measured(world, data):
    options = ("--sizes", f"1000,{PLAYERS}", "--requests", "5")
    result = run_command(growth.main, data, *options)
    assert result.exit_code == 0, result.output
    assert f"{PLAYERS // 100} of {PLAYERS // 100} pages" in result.output
    for told in ("search, 'dra': largest to smallest", "a person's evening", "far down the list"):
        assert told in (data / "growth.md").read_text()

"""The network is split once in each way, under load: nothing is lost, invented or done twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("psutil", reason="the bench extra is not installed")

from tests.system.chaos import network, splits
from tests.system.chaos.spanning import SpanningTrial
from tests.system.chaos.trial import Trial


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Three servers and some stacks of the service, on machines between which packets are lost."""
    if not network.IS_ALLOWED:
        pytest.skip(network.MISSING)
    with splits.world(tmp_path_factory.mktemp("world")) as world:
        yield world


def test_what_an_isolated_primary_did_counts_for_nothing(world):
    assert Trial(world).run().broken_laws() == []


def test_what_spans_documents_rests_on_what_a_majority_holds(world):
    assert SpanningTrial(world).broken_laws() == []


@pytest.mark.parametrize("kind", [(splits.TWO_WAY, True), (splits.MUTE, False)])
def test_a_split_network_loses_and_invents_nothing(world, kind):
    seen = splits.storm(world, rounds=1, kinds=[kind]).check()
    assert seen.answers[200] > 0


def test_what_a_dead_run_left_of_its_network_is_swept():
    if not network.IS_ALLOWED:
        pytest.skip(network.MISSING)
    # Without a cleanup, and at once, as after a SIGKILL.
    code = "import contextlib, os; from tests.system.chaos.network import Network; "
    code += "Network(contextlib.ExitStack()); os._exit(1)"
    dead = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    dead.wait()
    names = f"{network.PREFIX}{dead.pid}-*"
    assert list(network.NAMES.glob(names))
    network.sweep()
    assert not list(network.NAMES.glob(names))

"""Samples: intervals, the sum of what several workers have counted, and quantiles."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.metrics import REQUEST_BUCKETS
from app.game.samples import INTERVAL, MICROSECONDS, interval_of, quantile, sum_of

COUNTS = st.integers(0, 1000)
BOUNDS = [str(round(bound * MICROSECONDS)) for bound in REQUEST_BUCKETS]
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))


@st.composite
def samples(draw):
    """Make a sample: each request is within all bounds that it did not exceed."""
    within = sorted(draw(COUNTS) for _ in BOUNDS)
    counts = {"Requests": within[-1] + draw(COUNTS), "Failures": draw(COUNTS)}
    return {**counts, "Within": dict(zip(BOUNDS, within, strict=True))}


@given(MOMENTS)
def test_a_moment_is_in_the_interval_that_begins_at_a_fifth_minute(moment):
    begin = interval_of(moment)
    assert begin <= moment < begin + INTERVAL
    assert (begin.minute % 5, begin.second, begin.microsecond) == (0, 0, 0)
    assert interval_of(begin) == begin


@given(samples(), samples())
def test_samples_add_up(one, other):
    both = sum_of([one, other])
    for name in ("Requests", "Failures"):
        assert both[name] == one[name] + other[name]
    for bound in BOUNDS:
        assert both["Within"][bound] == one["Within"][bound] + other["Within"][bound]


def test_a_sample_that_nobody_has_counted_in_is_no_traffic():
    nothing = {"Requests": 0, "Failures": 0, "Within": {}}
    assert sum_of([]) == sum_of([{"_id": 1, "Online": 5}]) == nothing


@pytest.mark.parametrize(
    ("share", "bound"), [(0.5, 0.01), (0.9, 0.01), (0.91, 0.1), (0.95, 0.1), (0.96, None)]
)
def test_a_quantile_is_the_bound_within_which_so_many_were_answered(share, bound):
    # Five took longer than the last bound.
    sample = {"Requests": 100, "Within": {"100000": 95, "10000": 90}}
    assert quantile(sample, share) == bound


@given(samples(), st.floats(0.01, 1))
def test_a_quantile_holds_its_share(sample, share):
    found = quantile(sample, share)
    if found is not None:
        assert sample["Within"][str(round(found * MICROSECONDS))] >= share * sample["Requests"]


def test_where_there_was_no_request_there_is_no_quantile():
    assert quantile({}, 0.5) is None
    assert quantile({"Requests": 0, "Within": {"100000": 0}}, 0.5) is None


def test_an_interval_divides_an_hour():
    assert timedelta(hours=1) % INTERVAL == timedelta(0)

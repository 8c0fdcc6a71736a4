"""Samples: intervals, the sum of what several workers have counted, and quantiles."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.metrics import REQUEST_BUCKETS
from app.game.samples import INTERVAL, MICROSECONDS, Traffic, interval_of, quantile, traffic_of

COUNTS = st.integers(0, 1000)
BUCKETS = st.dictionaries(st.sampled_from(REQUEST_BUCKETS), COUNTS)
TRAFFIC = st.builds(Traffic, COUNTS, COUNTS, BUCKETS)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))


def stored(traffic):
    """Return the sample in which this is counted."""
    buckets = {str(round(b * MICROSECONDS)): count for b, count in traffic.buckets.items()}
    return {"Requests": traffic.requests, "Failures": traffic.failures, "Buckets": buckets}


@given(MOMENTS)
def test_a_moment_is_in_the_interval_that_begins_at_a_fifth_minute(moment):
    begin = interval_of(moment)
    assert begin <= moment < begin + INTERVAL
    assert (begin.minute % 5, begin.second, begin.microsecond) == (0, 0, 0)
    assert interval_of(begin) == begin


@given(TRAFFIC)
def test_what_is_counted_is_read_again(traffic):
    assert traffic_of([stored(traffic)]) == traffic


@given(TRAFFIC, TRAFFIC)
def test_samples_add_up(one, other):
    both = traffic_of([stored(one), stored(other)])
    assert both.requests == one.requests + other.requests
    assert both.failures == one.failures + other.failures
    for bound in REQUEST_BUCKETS:
        expected = one.buckets.get(bound, 0) + other.buckets.get(bound, 0)
        assert both.buckets.get(bound, 0) == expected


def test_a_sample_that_nobody_has_counted_in_is_no_traffic():
    assert traffic_of([]) == traffic_of([{"_id": 1, "Online": 5}]) == Traffic(0, 0, {})


@pytest.mark.parametrize(
    ("share", "bound"), [(0.5, 0.01), (0.9, 0.01), (0.91, 0.1), (0.95, 0.1), (0.96, None)]
)
def test_a_quantile_is_the_bound_below_which_so_many_were_answered(share, bound):
    traffic = Traffic(100, 0, {0.1: 5, 0.01: 90})
    # Five took longer than the last bound.
    assert quantile(traffic, share) == bound


@given(TRAFFIC, st.floats(0.01, 1))
def test_a_quantile_holds_its_share(traffic, share):
    found = quantile(traffic, share)
    if found is not None:
        below = sum(count for bound, count in traffic.buckets.items() if bound <= found)
        assert below >= share * traffic.requests


def test_where_there_was_no_request_there_is_no_quantile():
    assert quantile(Traffic(0, 0, {}), 0.5) is None
    assert quantile(Traffic(0, 0, {0.1: 0}), 0.5) is None


def test_an_interval_divides_an_hour():
    assert timedelta(hours=1) % INTERVAL == timedelta(0)

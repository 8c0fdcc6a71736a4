"""Samples: intervals, the sum of what several workers have counted, and quantiles."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.game.samples import INTERVAL, interval_of, quantile, sum_of

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(timezone.utc))


@given(MOMENTS)
def test_a_moment_is_in_the_interval_that_begins_at_a_fifth_minute(moment):
    begin = interval_of(moment)
    assert begin <= moment < begin + INTERVAL
    assert (begin.minute % 5, begin.second, begin.microsecond) == (0, 0, 0)
    assert interval_of(begin) == begin


def test_samples_add_up_and_what_nobody_has_counted_is_no_traffic():
    one = {"Requests": 5, "Failures": 1, "Within": {"10000": 2, "100000": 4}}
    both = {"Requests": 10, "Failures": 2, "Within": {"10000": 4, "100000": 8}}
    nothing = {"Requests": 0, "Failures": 0, "Within": {}}
    assert sum_of([one, {"_id": 1, "Online": 5}, one]) == both
    assert sum_of([]) == sum_of([{"_id": 1}]) == nothing


@pytest.mark.parametrize(
    ("share", "bound"), [(0.5, 0.01), (0.9, 0.01), (0.91, 0.1), (0.95, 0.1), (0.96, None)]
)
def test_a_quantile_is_the_bound_within_which_so_many_were_answered(share, bound):
    # Five took longer than the last bound.
    sample = {"Requests": 100, "Within": {"100000": 95, "10000": 90}}
    assert quantile(sample, share) == bound


def test_where_there_was_no_request_there_is_no_quantile():
    assert quantile({}, 0.5) is None
    assert quantile({"Requests": 0, "Within": {"100000": 0}}, 0.5) is None

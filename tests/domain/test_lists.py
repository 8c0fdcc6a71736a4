import pytest
from flask import Flask
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Invalid
from app.core.paging import Page, Window
from app.http.lists import (
    LegacyListArgs,
    PagedListArgs,
    legacy_list,
    paged_list,
)
from app.http.parser import load


@pytest.fixture(autouse=True, scope="module")
def largest_page():
    app = Flask("lists")
    app.config["PAGE_SIZE_MAX"] = 100
    with app.test_request_context():
        yield


PAGE = Page(12, [{"Name": "a"}, {"Name": "b"}])


def paged(**query):
    windows = []
    paged_list(load(PagedListArgs(), query, "exclude"), lambda asked: windows.append(asked) or PAGE)
    return windows[0]


def legacy(**body):
    windows = []
    legacy_list(load(LegacyListArgs(), body), lambda asked: windows.append(asked) or PAGE)
    return windows[0]


def test_a_page_is_the_first_of_five_records_and_never_larger_than_the_maximum():
    assert paged() == legacy() == Window(0, 5, 5)
    assert paged(pageSize="5000") == legacy(count=999) == Window(0, 100, 100)


@given(st.integers(0, 1000), st.integers(1, 300), st.integers(1, 300))
def test_limit_cuts_the_page_and_leaves_the_offset(page, size, limit):
    window = paged(page=str(page), pageSize=str(size), limit=str(limit))
    assert window.page * window.size == page * min(size, 100)
    assert window.limit == min(limit, size, 100)


TEXTS = ["-1", "x", "", "1.0", "1e3", "0x1", "1_0", "٣", " 1", "9" * 20]


@pytest.mark.parametrize("name", ["page", "pageSize", "limit"])
def test_what_is_no_number_in_range_is_refused_by_name(name):
    for text in TEXTS:
        with pytest.raises(Invalid, match=f"'{name}' must be") as caught:
            paged(**{name: text})
        assert list(caught.value.fields) == [name], text


def test_an_empty_page_and_a_page_number_beside_a_cursor_are_refused():
    for query, why in (
        *(({name: "0"}, f"'{name}' must be greater") for name in ("pageSize", "limit")),
        ({"after": "", "page": "1"}, "'page' must be 0 where 'after' is given"),
    ):
        with pytest.raises(Invalid, match=why):
            paged(**query)


def test_a_legacy_list_takes_integers_only():
    for value in ("5", 5.0, True, None, [5], -1):
        with pytest.raises(Invalid, match="'page' must"):
            legacy(page=value)


def test_both_envelopes_say_what_was_served():
    values = PAGE.values
    args = load(PagedListArgs(), {"page": "2", "limit": "2"}, "exclude")
    envelope = {"Total": 12, "Page": 2, "PageSize": 5, "Count": 2, "Values": values}
    assert paged_list(args, lambda _: PAGE) == envelope
    args = load(LegacyListArgs(), {"page": 2})
    envelope = {"total": 12, "Page": 2, "count": 2, "entries": values}
    assert legacy_list(args, lambda _: PAGE) == envelope

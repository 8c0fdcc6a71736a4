"""The report of the console: players, changes and items moved, by day in the reader's zone."""

from datetime import datetime, timedelta, timezone

import pytest

from app.game.samples import Samples
from app.history.reports import store as reports
from app.players.store import Players
from tests.applications import service
from tests.console_visitor import markup_of, page_of, texts_in, visitor
from tests.factories import guid, make_entry, make_player
from tests.mongod import on_mongodb

PERIOD = "from=2026-03-01&to=2026-03-31"


def at(text):
    return datetime.fromisoformat(f"2026-03-{text}").replace(tzinfo=timezone.utc)


@pytest.fixture
def sword(world):
    """Store entries of a month, and return the item that they move."""
    sword = world.add_object(Name="Sword")
    player, user = make_player(), {"_id": guid(), "Name": "thalia"}
    clerk = {"UserId": guid(), "Name": "Clerk"}
    shop = {"UserId": guid(), "Name": "<b>Shop</b>", "Key": "web"}
    moved = {"Arguments": {"ItemId": sword["_id"], "Quantity": 3}}
    entries = [
        make_entry(player, Version=1, At=at("02T12:00"), By=clerk, **moved),
        make_entry(player, Version=2, At=at("02T23:30"), By=shop, Operation="give-back", **moved),
        make_entry(player, Version=3, At=at("05T12:00"), By=clerk, Operation="take", **moved),
        make_entry(user, "user", Version=4, At=at("05T12:00"), By=clerk, Operation="ban"),
        make_entry(player, Version=5, At=at("31T23:59") + timedelta(days=1), By=clerk),
    ]
    world.db.history.insert_many(entries)
    return sword


def rows_of(answer, title):
    """Return the rows of a table or a plot by its caption."""
    for caption in markup_of(answer).select("caption"):
        if caption.get_text() == title:
            rows = caption.find_parent("table").select("tr")[1:]
            return [[cell.get_text(strip=True) for cell in row.select("td, th")] for row in rows]
    return []


def test_changes_and_items_are_counted_by_person_key_and_item(lead, sword):
    answer = lead.get(f"/report?{PERIOD}")
    people = [["Clerk", "3", "3", "3"], ["<b>Shop</b>", "1", "3", "0"]]
    assert rows_of(answer, "Changes by person") == people
    assert rows_of(answer, "Changes by key") == [["web (<b>Shop</b>)", "1", "3", "0"]]
    assert rows_of(answer, "Changes by item") == [["Sword", "3", "6", "3"]]
    assert rows_of(answer, "Changes") == [["2026-03-02", "2"], ["2026-03-05", "2"]]
    assert rows_of(answer, "Bans and mutes") == [["2026-03-05", "1", "0", "0", "0"]]
    item = f"a[href^='/console/history?item={sword['_id']}']"
    link = markup_of(answer).select_one(item)["href"]
    assert len(texts_in(lead.get(link.removeprefix("/console")), "td.what")) == 3


def test_who_may_not_see_users_gets_no_numbers_of_them(app, world, sword):
    answer = visitor(app, world).get(f"/report?{PERIOD}")
    assert rows_of(answer, "Changes")[1] == ["2026-03-05", "1"]
    assert rows_of(answer, "Bans and mutes") == []


@on_mongodb
def test_days_are_those_of_the_readers_zone(lead, world):
    """In Berlin, a day ends an hour before that of UTC, and from the end of March two hours."""
    player = make_player()
    texts = ("02T22:59", "02T23:00", "29T00:59", "29T21:59", "29T22:00", "31T21:59", "31T22:00")
    entries = [make_entry(player, Version=n, At=at(text)) for n, text in enumerate(texts)]
    world.db.history.insert_many(entries)
    answer = lead.get(f"/report?{PERIOD}&zone=Europe/Berlin")
    counts = {"02": "1", "03": "1", "29": "2", "30": "1", "31": "1"}
    days = [[f"2026-03-{day}", count] for day, count in counts.items()]
    assert rows_of(answer, "Changes") == days


@on_mongodb
def test_each_count_uses_its_index(app, world, db, monkeypatch):
    """Neither a collection scan, nor where an index suffices a document."""
    period = reports.Period(at("01T00:00"), at("31T00:00"), "Europe/Berlin")
    plans = []
    collection = type(db.history)

    def explained(self, stages, hint):
        command = {"aggregate": self.name, "pipeline": stages, "hint": hint, "cursor": {}}
        plans.append(str(db.command("explain", command)))
        return []

    monkeypatch.setattr(collection, "aggregate", explained)
    with app.app_context():
        reports.new_players(period)
        reports.changes(period, ("player",))
        reports.operations(period, "ban")
        assert ["FETCH" in plan for plan in plans] == [False] * 3
        reports.sum_moves(period, ("player",), {})
    assert not any("COLLSCAN" in plan for plan in plans)


@on_mongodb
def test_new_and_active_players_are_counted_by_day(app, lead, world):
    samples = service(app, Samples)
    now = samples.now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = [midnight - timedelta(days=number) for number in range(4)]
    for created, seen, online in (
        (days[1], days[1], False),
        (days[1] + timedelta(hours=5), now, False),
        (days[3], None, True),
        (days[3], days[3], True),
    ):
        world.add_player(CreationDate=created, LastOnline=seen, Online=online, LastSeen=now)
    for day, count in ((midnight, 5), (days[1], 7)):
        samples.complete(day, "Active", lambda count=count: count)
        # Another worker does not count again.
        samples.complete(day, "Active", lambda: 1 / 0)
    answer = lead.get(f"/report?from={days[3].date()}&to={now.date()}")
    texts = [day.date().isoformat() for day in days]
    assert rows_of(answer, "New players") == [[texts[3], "2"], [texts[1], "2"]]
    assert rows_of(answer, "Active players") == [[texts[2], "7"], [texts[1], "5"], [texts[0], "3"]]
    assert service(app, Players).count_active(days[1]) == 4


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("from=2026-03-02&to=2026-03-01", 400, "The first day must not be after the last."),
        ("from=2020-01-01&to=2026-03-01", 400, "A report covers at most 366 days."),
        ("zone=../../etc/passwd", 200, "Days are those of UTC"),
        ("from=x", 200, "Days are those of UTC"),
        ("to=9999-12-31", 200, "Days are those of UTC"),
    ],
)
def test_what_is_no_period_is_explained_and_what_is_no_day_or_zone_left_out(
    lead, query, status, sentence
):
    assert sentence in lead.read(f"/report?{query}", status)


def test_what_takes_too_long_is_stopped_and_explained(lead, monkeypatch):
    def stop(*_, **__):
        raise reports.pymongo.errors.NetworkTimeout("slow")

    monkeypatch.setattr(reports.pymongo, "timeout", stop)
    assert "Counting players takes too long" in lead.read(f"/report?{PERIOD}", 400)


def test_plots_are_shown_even_if_the_rest_takes_too_long(lead, sword, monkeypatch):
    count = reports._count

    def slow(collection, stages, hint, what):
        if "by person" in what:
            raise reports.Invalid(reports.TOO_MUCH.format(what=what))
        return count(collection, stages, hint, what)

    monkeypatch.setattr(reports, "_count", slow)
    answer = lead.get(f"/report?{PERIOD}")
    assert "Counting changes by person, key and item takes too long" in page_of(answer)
    assert rows_of(answer, "Changes") == [["2026-03-02", "2"], ["2026-03-05", "2"]]
    assert rows_of(answer, "Changes by person") == []

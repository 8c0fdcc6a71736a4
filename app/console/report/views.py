"""The report: players, changes, items moved, bans and mutes over a period, in the reader's zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from flask import Response, request

from app.auth import guard
from app.auth.permissions import Permission
from app.console.frame.pages import blp, path_to, render, required
from app.console.frame.times import iso
from app.console.health.plots import Plot
from app.console.history.sentences import name_of
from app.console.stores import objects, players, reports, samples
from app.errors import Invalid, QuartermasterError
from app.history.access import visible_kinds
from app.history.reports.store import Period
from app.http.errors import status_of
from app.items.operations import GIVE, TAKE
from app.moderation.operations import IMPOSE, LIFT
from app.moderation.penalties import BAN, MUTE
from app.types import Document

DAY = timedelta(days=1)
DEFAULT_DAYS = 28
MOST_DAYS = 366
PENALTIES = {
    **{"bans": IMPOSE[BAN], "bans lifted": LIFT[BAN]},
    **{"mutes": IMPOSE[MUTE], "mutes lifted": LIFT[MUTE]},
}
MOVES = {"Given": GIVE.name, "Taken": TAKE.name}
SUMS = ("Changes", *MOVES)
MOST_ROWS = 50
# The filters of history for the parts of a sum.
FILTERS = {"User": "by", "Key": "key", "Item": "item"}
NONE = "Nothing in this period."


class Days(NamedTuple):
    """The requested period, from the first to the last day."""

    first: date
    last: date
    zone: ZoneInfo

    def midnight(self, day: date) -> datetime:
        return datetime.combine(day, time(), self.zone).astimezone(ZoneInfo("UTC"))

    @property
    def all(self) -> list[date]:
        return [self.first + DAY * number for number in range((self.last - self.first).days + 1)]


@blp.get("/report")
@required(Permission.PLAYERS_READ, Permission.HISTORY_READ)
def show_report() -> Response:
    shown: dict[str, Any] = {"plots": [], "tables": []}
    days, error = requested_days(), None
    try:
        require_short(days)
        shown = report(days)
    except QuartermasterError as refused:
        error = refused
    status = status_of(error) if error else None
    return render("report/report.html", status, page="report", days=days, error=error, **shown)


def requested_days() -> Days:
    """Return the days in the query; by default the last weeks, and UTC if the zone is unknown."""
    try:
        zone = ZoneInfo(request.args.get("zone", "UTC"))
    except (ValueError, OSError, KeyError):
        zone = ZoneInfo("UTC")
    today = samples.now().astimezone(zone).date()
    last = parsed_day("to") or today
    return Days(parsed_day("from") or last - DAY * (DEFAULT_DAYS - 1), last, zone)


def parsed_day(name: str) -> date | None:
    try:
        day = date.fromisoformat(request.args.get(name, ""))
    except ValueError:
        return None
    # Leave room for the days around it.
    return day if 1970 <= day.year < 9999 else None


def require_short(days: Days) -> None:
    if days.last < days.first:
        raise Invalid("The first day must not be after the last.")
    if len(days.all) > MOST_DAYS:
        raise Invalid(f"A report covers at most {MOST_DAYS} days. Choose a shorter period.")


def report(days: Days) -> dict[str, Any]:
    """Return the plots and the tables of a period."""
    begin, end = days.midnight(days.first), days.midnight(days.last + DAY)
    period, kinds = Period(begin, end, days.zone.key), visible_kinds()
    plots = [
        plot_of("New players", "players", days, {"new": reports.new_players(period)}),
        plot_of("Active players", "players", days, {"active": active_players(days)}),
        plot_of("Changes", "changes", days, {"changes": reports.changes(period, kinds)}),
    ]
    if guard.caller().may(Permission.USERS_READ):
        counts = {label: reports.operations(period, one.name) for label, one in PENALTIES.items()}
        plots.append(plot_of("Bans and mutes", "users", days, counts))
    return {"plots": plots, "tables": tables_of(reports.moved(period, kinds, MOVES), period)}


def plot_of(title: str, unit: str, days: Days, series: Mapping[str, Mapping[str, int]]) -> Plot:
    names = [day.isoformat() for day in days.all]
    counts = {name: [by_day.get(day, 0) for day in names] for name, by_day in series.items()}
    return Plot(title, unit, NONE).with_bars("Day", names, counts)


def active_players(days: Days) -> dict[str, int]:
    """Return by day how many players were online: as sampled at its end, or so far today."""
    now = samples.now()
    ends = {day: days.midnight(day + DAY) for day in days.all}
    sampled = samples.active(days.midnight(days.first), max(ends.values()))
    found = {day.isoformat(): sampled.get(_hour(end), 0) for day, end in ends.items() if end <= now}
    today = now.astimezone(days.zone).date()
    live = {today.isoformat(): players.count_active(days.midnight(today))} if today in ends else {}
    return {**found, **live}


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def tables_of(moved: Sequence[Document], period: Period) -> list[Document]:
    """Return what was changed and moved by person, by key and by item, the most first."""
    flat = [{"User": None, "Key": None, "Item": None, **one, **one["_id"]} for one in moved]
    names = objects.names_of({one["Item"] for one in flat if one["Item"]})
    people = {one["User"]: str(one["Name"] or one["User"] or "unknown") for one in flat}
    times = {"from": iso(period.begin), "to": iso(period.end)}
    labels: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
        "person": (("User",), lambda user: people[user]),
        "key": (("User", "Key"), lambda user, key: f"{key} ({people[user]})"),
        "item": (("Item",), lambda item: name_of(item, names)),
    }
    tables = []
    for part, (fields, label) in labels.items():
        rows = sums_of([one for one in flat if part == "person" or one[fields[-1]]], fields)
        shown = [
            {**row, "Name": label(*id_), "Path": history_path(fields, id_, times)}
            for id_, row in rows[:MOST_ROWS]
        ]
        tables.append({"Part": part, "Rows": shown, "Left": len(rows) - len(shown)})
    return tables


def history_path(fields: Sequence[str], id_: Sequence[Any], times: Document) -> str:
    return path_to("history", **{FILTERS[f]: v for f, v in zip(fields, id_, strict=True)}, **times)


def sums_of(moved: Sequence[Document], fields: Sequence[str]) -> list[tuple[Any, Document]]:
    """Return the sums by these fields, the most changes first."""
    rows: dict[Any, Document] = {}
    for one in moved:
        row = rows.setdefault(tuple(one[name] for name in fields), dict.fromkeys(SUMS, 0))
        row |= {name: row[name] + one[name] for name in SUMS}
    return sorted(rows.items(), key=lambda item: (-item[1]["Changes"], str(item[0])))

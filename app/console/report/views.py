"""The report: players, changes, items moved, bans and mutes over a period, in the reader's zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from flask import Response, request

from app.auth import guard
from app.console.frame.pages import blp, path_to, render, required
from app.console.frame.times import iso
from app.console.health.plots import Plot
from app.console.stores import objects, players, reports, samples
from app.core.errors import Invalid
from app.core.penalties import BAN, MUTE
from app.core.permissions import Permission
from app.core.texts import name_of
from app.core.types import Document, whole
from app.history.access import visible_kinds
from app.history.reports.store import Period
from app.players.items.operations import GIVE, GIVE_BACK, TAKE
from app.users.moderation.operations import IMPOSE, LIFT

DAY, UTC, ZONES = timedelta(days=1), ZoneInfo("UTC"), available_timezones()
DEFAULT_DAYS, MOST_DAYS, MOST_ROWS = 28, 366, 50
PENALTIES = {
    **{"bans": IMPOSE[BAN], "bans lifted": LIFT[BAN]},
    **{"mutes": IMPOSE[MUTE], "mutes lifted": LIFT[MUTE]},
}
MOVES = {"Given": [GIVE.name, GIVE_BACK.name], "Taken": [TAKE.name]}
SUMS = ("Changes", *MOVES)
# The filters of history for the parts of a sum.
FILTERS = {"User": "by", "Key": "key", "Item": "item"}


@blp.get("/report")
@required(Permission.PLAYERS_READ, Permission.HISTORY_READ)
def show_report() -> Response:
    name = request.args.get("zone", "")
    zone = ZoneInfo(name) if name in ZONES else UTC
    today = samples.now().astimezone(zone).date()
    last = requested_day("to") or today
    first = requested_day("from") or last - DAY * (DEFAULT_DAYS - 1)
    shown: dict[str, Any] = {"plots": [], "tables": [], "error": None}
    try:
        shown |= report(first, last, zone)
    except Invalid as error:
        shown["error"] = error
    status = 400 if shown["error"] and not shown["plots"] else None
    days = {"first": first, "last": last, "zone": zone, "week": today - 6 * DAY}
    return render("report/report.html", status, days=days, **shown)


def requested_day(name: str) -> date | None:
    try:
        day = date.fromisoformat(request.args.get(name, ""))
    except ValueError:
        return None
    # Leave room for the days around it.
    return day if 1970 <= day.year < 9999 else None


def midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def report(first: date, last: date, zone: ZoneInfo) -> dict[str, Any]:
    """Return the plots and the tables of a period."""
    days = [first + DAY * number for number in range((last - first).days + 1)]
    if not days:
        raise Invalid("The first day must not be after the last.")
    if len(days) > MOST_DAYS:
        raise Invalid(f"A report covers at most {MOST_DAYS} days. Choose a shorter period.")
    period = Period(midnight(first, zone), midnight(last + DAY, zone), zone.key)
    kinds = visible_kinds()
    plots = [
        plot("New players", "players", days, {"new": reports.new_players(period)}),
        plot("Active players", "players", days, {"active": active_players(days, zone)}),
        plot("Changes", "changes", days, {"changes": reports.changes(period, kinds)}),
    ]
    if guard.caller().may(Permission.USERS_READ):
        counts = {label: reports.operations(period, one.name) for label, one in PENALTIES.items()}
        plots.append(plot("Bans and mutes", "users", days, counts))
    try:
        return {"plots": plots, "tables": tables_of(reports.moved(period, kinds, MOVES), period)}
    except Invalid as error:  # too slow: the plots need only indexes
        return {"plots": plots, "error": error}


def plot(title: str, unit: str, days: list[date], series: Mapping[str, Mapping[str, int]]) -> Plot:
    names = [day.isoformat() for day in days]
    counts = {name: [by_day.get(day, 0) for day in names] for name, by_day in series.items()}
    return Plot(title, unit, "Nothing in this period.").with_bars("Day", names, counts)


def active_players(days: list[date], zone: ZoneInfo) -> dict[str, int]:
    """Return by day how many players were online: as sampled at its end, or so far today."""
    # Samples are of full hours, and some zones are not.
    ends = {day: midnight(day + DAY, zone).replace(minute=0) for day in days}
    sampled = samples.active(min(ends.values()), max(ends.values()))
    found = {day.isoformat(): sampled.get(end, 0) for day, end in ends.items()}
    today = samples.now().astimezone(zone).date()
    if today in ends:
        found[today.isoformat()] = players.count_active(midnight(today, zone))
    return found


def tables_of(moved: Sequence[Document], period: Period) -> list[Document]:
    """Return what was changed and moved by person, by key and by item, the most first."""
    flat = [{"User": None, "Key": None, "Item": None, **one, **one["_id"]} for one in moved]
    flat = [one | {"Item": one["Item"] if isinstance(one["Item"], str) else None} for one in flat]
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
        for id_, row in rows[:MOST_ROWS]:
            filters = {FILTERS[name]: value for name, value in zip(fields, id_, strict=True)}
            row |= {"Name": label(*id_), "Path": path_to("history", **filters, **times)}
        shown = [row for _, row in rows[:MOST_ROWS]]
        tables.append({"Part": part, "Rows": shown, "Left": len(rows) - len(shown)})
    return tables


def sums_of(moved: Sequence[Document], fields: Sequence[str]) -> list[tuple[Any, Document]]:
    """Return the sums by these fields, the most changes first."""
    rows: dict[Any, Document] = {}
    for one in moved:
        row = rows.setdefault(tuple(one[name] for name in fields), dict.fromkeys(SUMS, 0))
        row |= {name: row[name] + (whole(one[name]) or 0) for name in SUMS}
    return sorted(rows.items(), key=lambda item: (-item[1]["Changes"], str(item[0])))

"""The report: players, changes, items moved, bans and mutes over a period, in the reader's zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

from flask import Response

from app.catalogue.store import objects
from app.console.forms.submissions import query_text
from app.console.frame.pages import blp, path_to, render, required
from app.console.frame.times import iso
from app.console.health.views import bar_plot
from app.core.errors import Invalid
from app.core.penalties import BAN, MUTE
from app.core.permissions import Permission
from app.core.texts import name_of
from app.core.types import Document, whole
from app.game.samples import samples
from app.history.access import sees_users, visible_kinds
from app.history.reports import store as reports
from app.history.reports.store import Period
from app.players.items.operations import GIVE, GIVE_BACK, TAKE
from app.players.store import players
from app.users.moderation import IMPOSE, LIFT

DAY, UTC, ZONES = timedelta(days=1), ZoneInfo("UTC"), available_timezones()
DEFAULT_DAYS, MOST_DAYS, MOST_ROWS = 28, 366, 50
PENALTIES = {
    "bans": IMPOSE[BAN],
    "bans lifted": LIFT[BAN],
    "mutes": IMPOSE[MUTE],
    "mutes lifted": LIFT[MUTE],
}
MOVES = {"Given": [GIVE.name, GIVE_BACK.name], "Taken": [TAKE.name]}
SUMS = ("Changes", *MOVES)


@blp.get("/report")
@required(Permission.PLAYERS_READ, Permission.HISTORY_READ)
def show_report() -> Response:
    name = query_text("zone")
    zone = ZoneInfo(name) if name in ZONES else UTC
    today = samples.now().astimezone(zone).date()
    last = requested_day("to") or today
    first = requested_day("from") or last - DAY * (DEFAULT_DAYS - 1)
    plots: list[Document] = []
    tables: list[Document] = []
    refusal = None
    try:
        days = days_of(first, last)
        period = Period(midnight(first, zone), midnight(last + DAY, zone), zone.key)
        plots = plots_of(days, period, zone)
        # This may take too long even if the plots, which need only indexes, do not.
        tables = tables_of(reports.sum_moves(period, visible_kinds(), MOVES), period)
    except Invalid as error:
        refusal = error
    return render(
        "report/report.html",
        400 if refusal and not plots else None,
        plots=plots,
        tables=tables,
        error=refusal,
        days={"first": first, "last": last, "zone": zone, "week": today - 6 * DAY},
    )


def requested_day(name: str) -> date | None:
    try:
        day = date.fromisoformat(query_text(name))
    except ValueError:
        return None
    # Leave room for the days around it.
    return day if 1970 <= day.year < 9999 else None


def midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def days_of(first: date, last: date) -> list[date]:
    days = [first + DAY * number for number in range((last - first).days + 1)]
    if not days:
        raise Invalid("The first day must not be after the last.")
    if len(days) > MOST_DAYS:
        raise Invalid(f"A report covers at most {MOST_DAYS} days. Choose a shorter period.")
    return days


def plots_of(days: list[date], period: Period, zone: ZoneInfo) -> list[Document]:
    plots = {
        ("New players", "players"): {"new": reports.new_players(period)},
        ("Active players", "players"): {"active": active_players(days, zone)},
        ("Changes", "changes"): {"changes": reports.changes(period, visible_kinds())},
    }
    if sees_users():
        counts = {label: reports.operations(period, one.name) for label, one in PENALTIES.items()}
        plots["Bans and mutes", "users"] = counts
    names = [day.isoformat() for day in days]
    return [
        bar_plot(
            title,
            unit,
            "Nothing in this period.",
            "Day",
            names,
            {label: [counts.get(day, 0) for day in names] for label, counts in series.items()},
        )
        for (title, unit), series in plots.items()
    ]


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
    names = objects.names_of(one["_id"].get("Item") for one in moved)
    times = {"from": iso(period.begin), "to": iso(period.end)}
    # By the path of their changes in history.
    tables: dict[str, dict[str, Document]] = {"person": {}, "key": {}, "item": {}}
    for one in moved:
        user, key, item = (one["_id"].get(name) for name in ("User", "Key", "Item"))
        person = str(one["Name"] or user or "unknown")
        parts = [("person", person, {"by": user})]
        if key:
            parts.append(("key", f"{key} ({person})", {"by": user, "key": key}))
        if isinstance(item, str):
            parts.append(("item", name_of(item, names), {"item": item}))
        for part, name, query in parts:
            path = path_to("history", **query, **times)
            first = {"Name": name, "Path": path, **dict.fromkeys(SUMS, 0)}
            row = tables[part].setdefault(path, first)
            for total in SUMS:
                row[total] += whole(one[total]) or 0  # a game may have stored other entries
    shown = []
    for part, found in tables.items():
        rows = sorted(found.values(), key=lambda row: (-row["Changes"], row["Name"]))
        shown.append({"Part": part, "Rows": rows[:MOST_ROWS], "Left": len(rows) - MOST_ROWS})
    return shown

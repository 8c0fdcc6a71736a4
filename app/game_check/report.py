"""The sentences of game check. Pure."""

from __future__ import annotations

from collections import Counter

from app.game_check.findings import counted_noun, enumeration

NO_FILTER = "What its writes filter on was not caught: watch for longer."
NOUNS = {"games": "game server"}


def summary(
    database: str,
    looked_at: Counter[str],
    watched: str,
    count: int,
) -> str:
    """Return what was looked at, and what came of it."""
    seen = [
        counted_noun(n, NOUNS.get(name, name.removesuffix("s"))) for name, n in looked_at.items()
    ]
    outcome = "No bad habit of a game was found."
    if count:
        noun = "habit" if count == 1 else "habits"
        outcome = f"{count} {noun} to change, by the rules of docs/game.rst."
    return f"{database}: looked at {enumeration(seen) or 'nothing'}. {watched} {outcome}"


def watched(
    seconds: int,
    compared: int | None,
    writes: int,
    presence: int,
    idle: int = 0,
    filters: int | None = None,
) -> str:
    """Return what was seen of the game while it was watched."""
    if not seconds:
        return "Nobody watched it write."
    time = counted_noun(seconds, "second")
    if compared is not None:
        players = counted_noun(compared, "player")
        if not writes:
            return f"In {time}, no game was seen to change {players} that were looked at twice."
        told = f"In {time}, a game changed {writes:,} of {players} that were looked at twice."
        return f"{told} {_filters_seen(filters)}"
    if writes or presence:
        told = f"{counted_noun(writes, 'write')} of a game and {presence:,} of who is online"
        return f"In {time}, {told} were seen. {_filters_seen(filters)}"
    told = f"In {time}, no write of a game took effect"
    if not idle:
        return f"{told}."
    refused = "MongoDB refused them, or they matched nothing"
    return f"{told}, and {counted_noun(idle, 'write')} of whomever changed nothing: {refused}."


def _filters_seen(count: int | None) -> str:
    if count is None:
        return "What its writes filter on cannot be seen, for want of the right inprog."
    return f"The filter of {counted_noun(count, 'write')} was caught." if count else NO_FILTER


def left_online(count: int, seconds: int) -> str:
    """Return of how many nobody says any more that they are online."""
    players, are = counted_noun(count, "player"), "is" if count == 1 else "are"
    return (
        f"{players} {are} Online, and no game was seen that says so: by {online_setting(seconds)}, "
        "they would count as offline."
    )


def online_setting(seconds: int) -> str:
    return f"the {counted_noun(seconds, 'second')} of QM_ONLINE_TTL_SECONDS"

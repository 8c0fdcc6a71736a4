"""The sentences of game check. Pure."""

from __future__ import annotations

from collections import Counter

from app.integrity.game.findings import listed, numbered

NOUNS = {"games": "game server"}


def summary(
    database: str,
    looked_at: Counter[str],
    watched: str,
    count: int,
) -> str:
    """Return what was looked at, and whether all is well."""
    seen = [numbered(n, NOUNS.get(name, name.removesuffix("s"))) for name, n in looked_at.items()]
    outcome = "All is well: no bad habit of a game was found."
    if count:
        noun = "habit" if count == 1 else "habits"
        outcome = f"{count} {noun} to change, by the rules of docs/game.rst."
    return f"{database}: looked at {listed(seen) or 'nothing'}. {watched} {outcome}"


def watched(seconds: int, compared: int | None, writes: int, presence: int) -> str:
    """Return what was seen of the game while it was watched."""
    if not seconds:
        return "Nobody watched it write."
    time = numbered(seconds, "second")
    if compared is None:
        if not writes and not presence:
            return f"In {time}, no game was seen to write."
        told = f"{numbered(writes, 'write')} of a game and {presence:,} of who is online"
        return f"In {time}, {told} were seen."
    players = numbered(compared, "player")
    if not writes:
        return f"In {time}, no game was seen to change {players} that were looked at twice."
    return f"In {time}, a game changed {writes:,} of {players} that were looked at twice."

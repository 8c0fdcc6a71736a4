"""The scopes of API keys. Pure."""

from __future__ import annotations

from enum import Enum


class Scope(Enum):
    """The older scopes of keys, each of which includes several permissions."""

    PLAYERS_READ = "players.read"
    PLAYERS_CHANGE = "players.change"
    USERS_READ = "users.read"
    USERS_CHANGE = "users.change"
    USERS_MANAGE = "users.manage"
    HISTORY_READ = "history.read"
    HISTORY_UNDO = "history.undo"
    OBJECTS_CHANGE = "objects.change"
    GAME_ACT = "game.act"
    LEADERBOARD_READ = "leaderboard.read"

    @property
    def about(self) -> str:
        return _ABOUT[self]


class KeyAccess(Enum):
    """How a view that needs no scope treats keys.

    ANY excludes keys for the leaderboard alone: everybody can read them in the source of a page.
    """

    ANY = "any key"
    NONE = "no key"


_ABOUT = {
    Scope.PLAYERS_READ: "Read players, their items, spells and variables, and the notes on them.",
    Scope.PLAYERS_CHANGE: "Change players: items, variables, spells, notes and names; delete them.",
    Scope.USERS_READ: "Read accounts, their characters and the notes on them.",
    Scope.USERS_CHANGE: "Register accounts, check and change passwords, ban, mute, write notes.",
    Scope.USERS_MANAGE: "Change accounts without their passwords, end sign-ins, export, erase.",
    Scope.HISTORY_READ: "Read history. History of accounts also needs users.read.",
    Scope.HISTORY_UNDO: "Undo changes.",
    Scope.OBJECTS_CHANGE: "Set global variables.",
    Scope.GAME_ACT: "Kick, kill, warp, chat; as a game, save characters and report who is online.",
    Scope.LEADERBOARD_READ: "Read names, levels and ranks; alone, nothing else: for web pages.",
}

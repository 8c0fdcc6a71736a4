"""The log of a user or a player, read from history and from the sign-ins."""

from __future__ import annotations

from app.history.activity.domain import Happening, first_needed, merged, of_entry, of_sign_in
from app.history.store import History
from app.oauth.store import RefreshTokens
from app.paging import Window


class Activity:
    """The logs of one application."""

    def __init__(self, history: History, tokens: RefreshTokens) -> None:
        self._history = history
        self._tokens = tokens

    def of_user(self, user_id: str, window: Window) -> tuple[int, list[Happening]]:
        """Return how many lines the log of a user has, and a page of them, the newest first."""
        sign_ins = [
            of_sign_in(sign_in.chain, sign_in.at, "console" if sign_in.is_session else "api")
            for sign_in in self._tokens.sign_ins(user_id)
        ]
        return self._page("user", user_id, sign_ins, window)

    def of_player(self, player_id: str, window: Window) -> tuple[int, list[Happening]]:
        """Return how many lines the log of a player has, and a page of them, the newest first."""
        return self._page("player", player_id, [], window)

    def _page(
        self, kind: str, id_: str, sign_ins: list[Happening], window: Window
    ) -> tuple[int, list[Happening]]:
        unmoved = [of_entry(entry) for entry in self._history.unmoved(kind, id_)]
        others = [*sign_ins, *unmoved]
        first = first_needed(window.start, len(others))
        # The page may begin with any of the others: read as many more.
        limit = window.start - first + window.limit
        moved = self._history.moved(kind, id_, first, limit)
        page = merged([of_entry(entry) for entry in moved], others, window.start, window.limit)
        return self._history.count_moved(kind, id_) + len(others), list(page)

"""The OpenID Connect provider: begins a sign-in there, and verifies who comes back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from threading import Lock
from typing import Any

from cachetools import TTLCache, cached

from app.core.limits import Limiter
from app.core.request_scope import working
from app.core.types import Document
from config.base import Settings

# How long the endpoints and keys of the provider are cached; an unknown key is fetched at once.
CACHE_SECONDS = 3600
PLACES, QUEUE, PATIENCE_SECONDS = 4, 16, 5.0


class Provider:
    """The provider that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limiter = Limiter(
            "Too many people sign in with a company account", PLACES, QUEUE, PATIENCE_SECONDS
        )
        # A step that takes too long keeps its thread until it ends, so there are only a few.
        self._threads = futures.ThreadPoolExecutor(PLACES)
        cache: TTLCache[Any, Any] = TTLCache(1, CACHE_SECONDS)
        self._client: Callable[[], Any] = cached(cache, lock=Lock())(self._discover)

    def _discover(self) -> Any:
        # Here, because Authlib takes several megabytes and some time to import.
        from app.users.openid.client import Client

        return Client.discover(self._settings)

    def begin(self, redirect_uri: str, is_again: bool) -> Document:
        """Return the address at the provider, with the state, the nonce and the PKCE verifier.

        If is_again, the provider is asked to authenticate somebody whom it still knows.
        """
        # With max_age, a provider must also say when it asked (auth_time).
        asked: Document = {"prompt": "login", "max_age": 0} if is_again else {}
        return self._ask(lambda: self._client().create_authorization_url(redirect_uri, **asked))

    def claims(self, begun: Document, code: str, redirect_uri: str) -> Document:
        """Exchange a code, and return the verified claims about the person."""
        return self._ask(lambda: self._client().verified_claims(begun, code, redirect_uri))

    def _ask(self, step: Callable[[], Document]) -> Document:
        """Return the result of a step that asks the provider, within the time that it has.

        A timeout of sockets is not enough: a server that trickles its answers never exceeds it.
        """
        with working(self._limiter):
            asked = self._threads.submit(step)
            try:
                return asked.result(self._settings.OPENID_TIMEOUT_SECONDS)
            except Exception as error:
                asked.cancel()
                from app.users.openid.client import refusal

                raise refusal(error) from error

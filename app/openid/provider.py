"""The OpenID Connect provider: begins a sign-in there, and verifies who comes back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent import futures
from functools import cached_property
from hmac import compare_digest
from threading import Lock, Thread
from typing import Any, TypeVar

from cachetools import TTLCache, cached
from itsdangerous import BadData, URLSafeTimedSerializer

from app.limits import Limiter
from app.openid.domain import StaleSignIn
from app.request_scope import working
from app.types import Document
from config.base import Settings

# How long the endpoints and keys of the provider are cached; an unknown key is fetched at once.
CACHE_SECONDS = 3600
# How long a person may take at the provider.
LIFETIME_SECONDS = 600
PLACES, QUEUE, PATIENCE_SECONDS = 4, 16, 5.0

Result = TypeVar("Result")


class Provider:
    """The provider that the settings name."""

    def __init__(self, settings: Settings, keys: list[str]) -> None:
        self._settings = settings
        self._limiter = Limiter(
            "Too many people sign in with a company account", PLACES, QUEUE, PATIENCE_SECONDS
        )
        self._cookies = URLSafeTimedSerializer(
            list(reversed(keys)),
            salt="quartermaster company sign-in",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )
        cache: TTLCache[Any, Any] = TTLCache(1, CACHE_SECONDS)
        discover = cached(cache, lock=Lock())(lambda: self._library.discover(settings))
        self._client: Callable[[], Any] = discover

    @cached_property
    def _library(self) -> Any:
        from app.openid import client

        return client

    def begin(self, redirect_uri: str, back: str, is_again: bool = False) -> tuple[str, str]:
        """Return the address at the provider, and the cookie that binds the sign-in to a browser.

        The cookie contains the state, the nonce and the PKCE verifier. If is_again, the provider is
        asked to authenticate somebody whom it still knows.
        """
        prompt = {"prompt": "login"} if is_again else {}
        begun = self._ask(lambda: self._client().create_authorization_url(redirect_uri, **prompt))
        url: str = begun.pop("url")
        return url, str(self._cookies.dumps({**begun, "back": back, "is_again": is_again}))

    def read_cookie(self, cookie: str, state: str) -> Document:
        """Return what a cookie contains, or raise StaleSignIn unless it belongs to the state."""
        try:
            begun: Document = self._cookies.loads(cookie, max_age=LIFETIME_SECONDS)
        except BadData:
            raise StaleSignIn from None
        if not compare_digest(begun["state"].encode(), state.encode("utf-8", "replace")):
            raise StaleSignIn
        return begun

    def claims(self, begun: Document, code: str, redirect_uri: str) -> Document:
        """Exchange a code, and return the verified claims about the person."""
        verified_claims = self._library.verified_claims
        return self._ask(
            lambda: verified_claims(self._client(), self._settings, begun, code, redirect_uri)
        )

    def _ask(self, step: Callable[[], Result]) -> Result:
        """Return the result of a step that asks the provider, within the time that it has.

        A timeout of sockets is not enough: a server that trickles its answers never exceeds it.
        """
        result: futures.Future[Result] = futures.Future()

        def run() -> None:
            try:
                result.set_result(step())
            except BaseException as error:
                result.set_exception(error)

        refusal = self._library.refusal
        with working(self._limiter):
            Thread(target=run, daemon=True).start()
            try:
                return result.result(self._settings.OPENID_TIMEOUT_SECONDS)
            except Exception as error:
                raise refusal(error) from error

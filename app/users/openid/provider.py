"""The OpenID Connect provider: begins a sign-in there, and verifies who comes back.

Authlib and requests are imported by the first sign-in: most services have no provider.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from cachetools import TTLCache, cached

from app.core.limits import Limiter, working
from app.core.services import current
from app.core.types import Document
from app.users.openid.domain import LEEWAY_SECONDS, UNVERIFIED, ProviderUnavailable, SignInRefused
from config.base import Settings

if TYPE_CHECKING:
    from app.users.openid.client import Client

log = logging.getLogger("quartermaster")

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
        cache: TTLCache[Any, Any] = TTLCache(1, CACHE_SECONDS)
        self._client: Callable[[], Client] = cached(cache, lock=Lock())(self._discover)

    def begin(self, redirect_uri: str, is_again: bool) -> Document:
        """Return the address at the provider, with the state, the nonce and the PKCE verifier.

        If is_again, the provider is asked to authenticate somebody whom it still knows.
        """
        # With max_age, a provider must also say when it asked (auth_time).
        asked: Document = {"prompt": "login", "max_age": 0} if is_again else {}
        with self._asking() as client:
            begun: Document = client.create_authorization_url(redirect_uri, **asked)
        return begun

    def claims(self, begun: Document, code: str, redirect_uri: str) -> Document:
        """Exchange a code for an ID token, and return its claims if all of it is right."""
        settings = self._settings
        with self._asking() as client:
            verifier = begun["code_verifier"]
            token = client.fetch_access_token(redirect_uri, code=code, code_verifier=verifier)
            expected = {
                "iss": {"essential": True, "value": settings.OPENID_ISSUER},
                "aud": {"essential": True, "value": settings.OPENID_CLIENT_ID},
            }
            if begun["is_again"] and "auth_time" in client.server_metadata.get(
                "claims_supported", ()
            ):
                # It is missing if somebody has removed max_age from the address.
                expected["auth_time"] = {"essential": True}
            claims = client.parse_id_token(token, begun["nonce"], expected, leeway=LEEWAY_SECONDS)
            if not claims["sub"]:
                raise ValueError("an empty sub")
            wanted = {"email", "preferred_username"}
            wanted |= {settings.OPENID_GROUPS_CLAIM} if settings.OPENID_GROUP_ROLES else set()
            if wanted <= claims.keys() or "userinfo_endpoint" not in client.server_metadata:
                return dict(claims)
            # Some providers keep ID tokens short.
            more = client.userinfo(token=token)
            if more.get("sub") != claims["sub"]:
                raise ValueError("another sub")
            return {**more, **claims}

    @contextmanager
    def _asking(self) -> Iterator[Client]:
        """Return a client, and turn what goes wrong at the provider into what a person is told."""
        from app.users.openid.client import UNREACHABLE

        with working(self._limiter):
            try:
                yield self._client()
            except UNREACHABLE as error:
                name = type(error).__name__
                log.warning("The OpenID Connect provider does not answer: %s", name)
                raise ProviderUnavailable from error
            except Exception as error:
                # Of an OAuthError only the code: its description may quote what was sent.
                name = type(error).__name__
                reason = getattr(error, "error", None) or f"{name}: {error}"
                log.warning("A sign-in with a company account was not verified: %s", reason)
                raise SignInRefused(UNVERIFIED) from error

    def _discover(self) -> Client:
        from app.users.openid.client import discover

        return discover(self._settings)


provider = current(Provider)

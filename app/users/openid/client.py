"""The OpenID Connect provider: begins a sign-in there, and verifies who comes back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent import futures
from threading import Lock
from typing import Any

from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OAuthError, OpenIDMixin
from authlib.integrations.requests_client import OAuth2Session
from cachetools import TTLCache, cached
from requests import RequestException
from urllib3.exceptions import HTTPError

from app.core.errors import QuartermasterError
from app.core.limits import Limiter, working
from app.core.services import current
from app.core.types import Document
from app.users.openid.domain import LEEWAY_SECONDS, UNVERIFIED, ProviderUnavailable, SignInRefused
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


log = logging.getLogger("quartermaster")

# Asymmetric only: with HS256, whoever knows the public key could sign.
ALGORITHMS = ("RS256", "PS256", "ES256")
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
# The name of a way in which a client sends its secret.
BASIC = "client_secret_basic"


class Client(OAuth2Mixin, OpenIDMixin, BaseApp):
    """Authlib's client of a provider, without Flask's session, which this service does not have."""

    client_cls = OAuth2Session
    settings: Settings

    @classmethod
    def discover(cls, settings: Settings) -> Client:
        """Return a client of the provider that the settings name, with what it publishes."""
        issuer = str(settings.OPENID_ISSUER)
        client = cls(
            None,
            client_id=settings.OPENID_CLIENT_ID,
            client_secret=settings.OPENID_CLIENT_SECRET,
            server_metadata_url=f"{issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "default_timeout": settings.OPENID_TIMEOUT_SECONDS,
                "max_redirects": 0,
                "code_challenge_method": "S256",
            },
        )
        client.settings = settings
        found = client.load_server_metadata()
        if found["issuer"] != issuer:
            raise ValueError(f"the provider calls itself {found['issuer']}, not QM_OPENID_ISSUER")
        scheme = issuer.partition("//")[0]
        if not all(found.get(name, scheme).startswith(scheme) for name in ENDPOINTS):
            raise ValueError(f"an endpoint of the provider does not begin with {scheme}")
        # The provider may support others, even none.
        found["id_token_signing_alg_values_supported"] = ALGORITHMS
        groups = {settings.OPENID_GROUPS_CLAIM} & {*found.get("scopes_supported", ())}
        client.client_kwargs["scope"] = " ".join(("openid", "profile", "email", *groups))
        if BASIC not in found.get("token_endpoint_auth_methods_supported", (BASIC,)):
            client.client_kwargs["token_endpoint_auth_method"] = "client_secret_post"  # noqa: S105 (a name)
        return client

    def verified_claims(self, begun: Document, code: str, redirect_uri: str) -> Document:
        """Exchange a code for an ID token, and return its claims if all of it is right."""
        verifier, settings = begun["code_verifier"], self.settings
        token = self.fetch_access_token(redirect_uri, code=code, code_verifier=verifier)
        expected = {
            "iss": {"essential": True, "value": settings.OPENID_ISSUER},
            "aud": {"essential": True, "value": settings.OPENID_CLIENT_ID},
        }
        if begun["is_again"] and "auth_time" in self.server_metadata.get("claims_supported", ()):
            # It is missing if somebody has removed max_age from the address.
            expected["auth_time"] = {"essential": True}
        claims = self.parse_id_token(token, begun["nonce"], expected, leeway=LEEWAY_SECONDS)
        if not claims["sub"]:
            raise ValueError("an empty sub")
        wanted = {"email", "preferred_username"}
        wanted |= {settings.OPENID_GROUPS_CLAIM} if settings.OPENID_GROUP_ROLES else set()
        if wanted <= claims.keys() or "userinfo_endpoint" not in self.server_metadata:
            return dict(claims)
        # Some providers keep ID tokens short.
        more = self.userinfo(token=token)
        if more.get("sub") != claims["sub"]:
            raise ValueError("another sub")
        return {**more, **claims}


def refusal(error: Exception) -> QuartermasterError:
    """Return what to tell a person about an error at the provider, and log the error."""
    if isinstance(error, RequestException | HTTPError | futures.TimeoutError):
        log.warning("The OpenID Connect provider does not answer: %s", type(error).__name__)
        return ProviderUnavailable()
    # Of an OAuthError only the code: the provider's description may quote what it was sent.
    reason = error.error if isinstance(error, OAuthError) else f"{type(error).__name__}: {error}"
    log.warning("A sign-in with a company account was not verified: %s", reason)
    return SignInRefused(UNVERIFIED)


provider = current(Provider)

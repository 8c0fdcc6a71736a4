"""The OpenID Connect provider: begins a sign-in there, and verifies who comes back."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from concurrent import futures
from hmac import compare_digest
from threading import Lock, Thread
from typing import Any, TypeVar

from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OAuthError, OpenIDMixin
from authlib.integrations.requests_client import OAuth2Session
from cachetools import TTLCache, cached
from itsdangerous import BadData, URLSafeTimedSerializer
from joserfc.errors import JoseError
from requests import RequestException

from app.limits import Limiter
from app.openid.domain import ProviderUnavailable, StaleSignIn, Unverified
from app.request_scope import working
from app.types import Document
from config.base import Settings

log = logging.getLogger("quartermaster")

# Asymmetric only: with HS256, whoever knows the public key could sign.
ALGORITHMS = ("RS256", "PS256", "ES256")
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
# The name of a way in which a client sends its secret.
BASIC = "client_secret_basic"
# How long the endpoints and keys of the provider are cached; an unknown key is fetched at once.
CACHE_SECONDS = 3600
# How long a person may take at the provider.
LIFETIME_SECONDS = 600
# The largest difference between the provider's clock and ours.
LEEWAY_SECONDS = 60
PLACES, QUEUE, PATIENCE_SECONDS = 4, 16, 5.0
# What a response of another form raises.
MALFORMED = (JoseError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)

Result = TypeVar("Result")


class Client(OAuth2Mixin, OpenIDMixin, BaseApp):
    """Authlib's client of a provider, without Flask's session, which this service does not have."""

    client_cls = OAuth2Session


class Provider:
    """The provider that the settings name."""

    def __init__(self, settings: Settings, keys: list[str]) -> None:
        self._settings = settings
        self._options = {"default_timeout": settings.OPENID_TIMEOUT_SECONDS, "max_redirects": 0}
        self._limiter = Limiter(
            "Too many people sign in with a company account", PLACES, QUEUE, PATIENCE_SECONDS
        )
        self._cookies = URLSafeTimedSerializer(
            list(reversed(keys)),
            salt="quartermaster company sign-in",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )
        cache: TTLCache[Any, Client] = TTLCache(1, CACHE_SECONDS)
        self._client: Callable[[], Client] = cached(cache, lock=Lock())(self._discover)

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
        return self._ask(lambda: self._verified_claims(begun, code, redirect_uri))

    def _verified_claims(self, begun: Document, code: str, redirect_uri: str) -> Document:
        client, settings = self._client(), self._settings
        token = client.fetch_access_token(
            redirect_uri, code=code, code_verifier=begun["code_verifier"]
        )
        expected = {
            "iss": {"essential": True, "value": settings.OPENID_ISSUER},
            "aud": {"essential": True, "value": settings.OPENID_CLIENT_ID},
        }
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

    def _discover(self) -> Client:
        settings, found = self._settings, self._metadata()
        options = {**self._options, "code_challenge_method": "S256"}
        groups = {settings.OPENID_GROUPS_CLAIM} & {*found.get("scopes_supported", ())}
        options["scope"] = " ".join(("openid", "profile", "email", *groups))
        if BASIC not in found.get("token_endpoint_auth_methods_supported", (BASIC,)):
            options["token_endpoint_auth_method"] = "client_secret_post"  # noqa: S105 (a name)
        return Client(
            None,
            client_id=settings.OPENID_CLIENT_ID,
            client_secret=settings.OPENID_CLIENT_SECRET,
            client_kwargs=options,
            # The provider may support others, even none.
            id_token_signing_alg_values_supported=ALGORITHMS,
            **{name: found[name] for name in ENDPOINTS if name in found},
        )

    def _metadata(self) -> Document:
        """Return what the provider publishes about itself."""
        issuer = str(self._settings.OPENID_ISSUER)
        with OAuth2Session(**self._options) as session:
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            answer = session.get(url, withhold_token=True)
        answer.raise_for_status()
        found: Document = answer.json()
        if found["issuer"] != issuer:
            raise ValueError(f"the provider calls itself {found['issuer']}, not QM_OPENID_ISSUER")
        scheme = issuer.partition("//")[0]
        if not all(found.get(name, scheme).startswith(scheme) for name in ENDPOINTS):
            raise ValueError(f"an endpoint of the provider does not begin with {scheme}")
        return found

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

        try:
            with working(self._limiter):
                Thread(target=run, daemon=True).start()
                return result.result(self._settings.OPENID_TIMEOUT_SECONDS)
        except (futures.TimeoutError, RequestException) as error:
            log.warning("The OpenID Connect provider does not answer: %s", type(error).__name__)
            raise ProviderUnavailable from error
        except (OAuthError, *MALFORMED) as error:
            # Of an OAuthError only the code: the provider's description may quote what it was sent.
            reason = error.error if isinstance(error, OAuthError) else error
            log.warning("A sign-in with a company account was not verified: %s", reason)
            raise Unverified from error

"""The client of the OpenID Connect provider, by Authlib and requests.

Both take several megabytes and some time to import, so app/openid/provider.py imports this module
only when somebody signs in.
"""

from __future__ import annotations

import logging
from concurrent import futures

from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OAuthError, OpenIDMixin
from authlib.integrations.requests_client import OAuth2Session
from requests import RequestException

from app.errors import QuartermasterError
from app.openid.domain import ProviderUnavailable, Unverified
from app.types import Document
from config.base import Settings

log = logging.getLogger("quartermaster")

# Asymmetric only: with HS256, whoever knows the public key could sign.
ALGORITHMS = ("RS256", "PS256", "ES256")
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
# The name of a way in which a client sends its secret.
BASIC = "client_secret_basic"
# The largest difference between the provider's clock and ours.
LEEWAY_SECONDS = 60


class Client(OAuth2Mixin, OpenIDMixin, BaseApp):
    """Authlib's client of a provider, without Flask's session, which this service does not have."""

    client_cls = OAuth2Session


def discover(settings: Settings) -> Client:
    """Return a client of the provider that the settings name."""
    calls = {"default_timeout": settings.OPENID_TIMEOUT_SECONDS, "max_redirects": 0}
    found = _metadata(str(settings.OPENID_ISSUER), calls)
    options = {**calls, "code_challenge_method": "S256"}
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


def _metadata(issuer: str, calls: Document) -> Document:
    """Return what the provider publishes about itself."""
    with OAuth2Session(**calls) as session:
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


def verified_claims(
    client: Client, settings: Settings, begun: Document, code: str, redirect_uri: str
) -> Document:
    """Exchange a code for an ID token, and return its claims if all of it is right."""
    token = client.fetch_access_token(redirect_uri, code=code, code_verifier=begun["code_verifier"])
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


def refusal(error: Exception) -> QuartermasterError:
    """Return what to tell a person about an error at the provider, and log the error."""
    if isinstance(error, RequestException | futures.TimeoutError):
        log.warning("The OpenID Connect provider does not answer: %s", type(error).__name__)
        return ProviderUnavailable()
    # Of an OAuthError only the code: the provider's description may quote what it was sent.
    reason = error.error if isinstance(error, OAuthError) else f"{type(error).__name__}: {error}"
    log.warning("A sign-in with a company account was not verified: %s", reason)
    return Unverified()

"""Authlib's client of an OpenID Connect provider."""

from __future__ import annotations

from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OpenIDMixin
from authlib.integrations.requests_client import OAuth2Session
from requests import RequestException
from urllib3.exceptions import HTTPError

from config.base import Settings

# Asymmetric only: with HS256, whoever knows the public key could sign.
ALGORITHMS = ("RS256", "PS256", "ES256")
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
# The name of a way in which a client sends its secret.
BASIC = "client_secret_basic"
UNREACHABLE = (RequestException, HTTPError)


class Client(OAuth2Mixin, OpenIDMixin, BaseApp):
    """Authlib's client, without Flask's session, which this service does not have."""

    client_cls = OAuth2Session


def discover(settings: Settings) -> Client:
    """Return a client of the provider, with what it publishes."""
    issuer = str(settings.OPENID_ISSUER)
    client = Client(
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

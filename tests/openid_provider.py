"""An OpenID Connect provider for tests: Authlib's own server side, behind a real socket.

Tests change its attributes: who signs in, what is in a token, what does not answer.
"""

from __future__ import annotations

import base64
import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import ClientMixin
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode
from flask import Flask, Response, abort, redirect, request
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from werkzeug.serving import make_server

from tests.ports import free_port

CLIENT_ID, CLIENT_SECRET = "quartermaster", "the secret of the tests"
ANNA = {"sub": "248289761001", "preferred_username": "anna", "email": "anna@company.example"}
ENDPOINTS = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}


def new_key(kid="first"):
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Service(ClientMixin):
    """The service as the provider knows it."""

    def get_client_id(self):
        return CLIENT_ID

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri.endswith("/console/sign-in/company/callback")

    def check_client_secret(self, client_secret):
        return client_secret == CLIENT_SECRET

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "client_secret_basic"

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type == "authorization_code"


@dataclass
class Code(AuthorizationCodeMixin):
    """A code, with what was asked for."""

    code: str
    asked: dict
    person: dict

    code_challenge = property(lambda self: self.asked.get("code_challenge"))
    code_challenge_method = property(lambda self: self.asked.get("code_challenge_method"))

    def get_redirect_uri(self):
        return self.asked["redirect_uri"]

    def get_scope(self):
        return self.asked["scope"]

    def get_nonce(self):
        return self.asked.get("nonce")

    def get_auth_time(self):
        return int(time.time())

    def get_acr(self):
        return None

    def get_amr(self):
        return None


class Provider:
    def __init__(self, port):
        self.issuer = f"http://localhost:{port}"
        self.first_key = new_key()
        self.codes = {}
        self.reset()

    def reset(self, **changed):
        """Be as in the beginning, but for these attributes."""
        self.key = self.first_key
        # The keys that it publishes; None: the one that signs.
        self.published = None
        self.person = dict(ANNA)
        # Claims that an ID token has instead of the right ones.
        self.claims = {}
        # Makes another ID token of the right one.
        self.forge = None
        self.metadata = {}
        # The endpoints that fail, and those that end amid an answer.
        self.broken, self.cut = set(), set()
        # What the endpoint userinfo tells, if it is something else than the person.
        self.more = None
        self.keeps_codes = False
        vars(self).update(changed)

    def settings(self):
        names = {"OPENID_ISSUER": self.issuer, "OPENID_CLIENT_ID": CLIENT_ID}
        return {**names, "OPENID_CLIENT_SECRET": CLIENT_SECRET}

    def discovery(self):
        urls = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in ENDPOINTS.items()}
        # A provider may support more than a client should accept.
        algorithms = {"id_token_signing_alg_values_supported": ["RS256", "HS256", "none"]}
        urls |= {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks", **algorithms}
        return {**urls, "scopes_supported": ["openid", "groups"], **self.metadata}

    def keys(self):
        return KeySet(self.published or [self.key]).as_dict()

    def sign(self, claims, key=None, alg="RS256"):
        key = key or self.key
        return jwt.encode({"alg": alg, "kid": key.kid}, claims, key, [alg])


def grants_of(provider):
    """Return the grant and its extension for a provider."""

    class Grant(AuthorizationCodeGrant):
        def save_authorization_code(self, code, request):
            provider.codes[code] = Code(code, request.payload.data.to_dict(), provider.person)

        def query_authorization_code(self, code, client):
            return provider.codes.get(code)

        def delete_authorization_code(self, authorization_code):
            if not provider.keeps_codes:
                del provider.codes[authorization_code.code]

        def authenticate_user(self, authorization_code):
            return authorization_code.person

    class OpenId(OpenIDCode):
        def exists_nonce(self, nonce, request):
            return False

        def resolve_client_private_key(self, client):
            return provider.key

        def get_encode_header(self, client):
            return {"alg": "RS256", "kid": provider.key.kid}

        def get_client_claims(self, client):
            return {"iss": provider.issuer}

        def generate_user_info(self, user, scope):
            return {**user, **provider.claims}

        def encode_id_token(self, token, request):
            right = super().encode_id_token(token, request)
            return provider.forge(right) if provider.forge else right

    return Grant, [OpenId(require_nonce=True), CodeChallenge(required=True)]


def application(provider):
    app = Flask("provider")
    server = AuthorizationServer(app, lambda _: Service(), lambda token, request: None)
    server.register_grant(*grants_of(provider))

    @app.before_request
    def fail():
        name = request.path.rpartition("/")[2]
        if name in provider.broken:
            abort(500)
        if name in provider.cut:
            return Response("{", headers={"Content-Length": "100"})
        return None

    @app.get("/.well-known/openid-configuration")
    def discovery():
        return provider.discovery()

    @app.get("/jwks")
    def jwks():
        return provider.keys()

    @app.get("/userinfo")
    def userinfo():
        return provider.more or provider.person

    @app.post("/authorize")
    def decide():
        grant = server.get_consent_grant(end_user=provider.person)
        person = provider.person if request.form.get("answer") == "yes" else None
        answer = server.create_authorization_response(grant_user=person, grant=grant)
        return redirect(answer.headers["Location"])

    @app.post("/token")
    def token():
        return server.create_token_response()

    return app


@contextmanager
def running():
    """Run a provider in a thread of its own."""
    port = free_port()
    provider = Provider(port)
    server = make_server("localhost", port, application(provider), threaded=True)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

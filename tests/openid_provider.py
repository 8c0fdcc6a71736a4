"""An OpenID Connect provider for tests, behind a real socket.

Tests change its attributes: who signs in, what is in a token, what does not answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from contextlib import contextmanager
from threading import Thread
from urllib.parse import urlencode

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


class Provider:
    def __init__(self, port):
        self.issuer = f"http://localhost:{port}"
        self.first_key = new_key()
        # What was asked for, and the person, by code.
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
        own = {"OPENID_ISSUER": self.issuer, "OPENID_CLIENT_ID": CLIENT_ID}
        return {**own, "OPENID_CLIENT_SECRET": CLIENT_SECRET}

    def discovery(self):
        urls = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in ENDPOINTS.items()}
        # A provider may support more than a client should accept.
        algorithms = {"id_token_signing_alg_values_supported": ["RS256", "HS256", "none"]}
        urls |= {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks", **algorithms}
        return {**urls, "scopes_supported": ["openid", "groups"], **self.metadata}

    def sign(self, claims, key=None):
        key = key or self.key
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)

    def decide(self, asked, answer):
        """Return the query with which the browser comes back."""
        if answer != "yes":
            return {"error": "access_denied", "state": asked["state"]}
        code = secrets.token_hex(16)
        self.codes[code] = asked, self.person
        return {"code": code, "state": asked["state"]}

    def exchange(self, form, client):
        """Return the tokens of a code, whose sender proves that it has asked for it."""
        asked, person = self.codes.get(form["code"], ({}, {}))
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        proved = (challenge, form["redirect_uri"], client.username, client.password)
        expected = (asked.get("code_challenge"), asked.get("redirect_uri"), CLIENT_ID)
        if proved != (*expected, CLIENT_SECRET):
            return {"error": "invalid_grant"}, 400
        if not self.keeps_codes:
            del self.codes[form["code"]]
        now = int(time.time())
        times = {"iat": now, "exp": now + 3600, "auth_time": now}
        claims = {"iss": self.issuer, "aud": [CLIENT_ID], "nonce": asked["nonce"], **times}
        right = self.sign({**claims, **person, **self.claims})
        id_token = self.forge(right) if self.forge else right
        access = {"access_token": secrets.token_hex(16), "token_type": "Bearer"}
        return {**access, "expires_in": 3600, "id_token": id_token}, 200


def application(provider):
    app = Flask("provider")

    @app.before_request
    def fail():
        name = request.path.rpartition("/")[2]
        if name in provider.broken:
            abort(500)
        if name in provider.cut:
            return Response("{", headers={"Content-Length": "100"})
        return None

    @app.post("/authorize")
    def decide():
        query = provider.decide(request.args.to_dict(), request.form["answer"])
        return redirect(f"{request.args['redirect_uri']}?{urlencode(query)}")

    app.get("/.well-known/openid-configuration")(provider.discovery)
    app.get("/jwks", endpoint="jwks")(
        lambda: KeySet(provider.published or [provider.key]).as_dict()
    )
    app.get("/userinfo", endpoint="userinfo")(lambda: provider.more or provider.person)
    app.post("/token", endpoint="token")(
        lambda: provider.exchange(request.form, request.authorization)
    )
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

"""The service with a secret in every setting that may hold one, and all that comes out of it."""

import re
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from urllib.parse import urlsplit

import requests
from aiosmtpd.smtp import AuthResult

from app.auth.roles import Role
from app.users.passwords import Passwords
from tests.collection_plans import NAMES
from tests.endpoint_table import OWN_APPROVAL, OWN_KEY, SELF, USER
from tests.factories import make_key, make_user, with_keys
from tests.game import playing
from tests.scene import set_scene
from tests.system.leaks import Known
from tests.system.programs import serving
from tests.system.test_mail import Mailbox, codes_in, smtp_server

DATABASE = "secrets"
MANAGER = "Manager"
SETTINGS = {
    **{"ENV": "production", "WORKERS": "1", "THREADS": "40"},
    **{"AUTH_CACHE_SECONDS": "60", "MONGODB_OPERATION_SECONDS": "2"},
    **{"ARGON2_TIME_COST": "1", "ARGON2_MEMORY_KIB": "64"},
    **{"ACCOUNT_FAILURES": "1000000", "ADDRESS_FAILURES": "1000000"},
    **{"MAIL_SERVER": "127.0.0.1", "MAIL_USERNAME": "postman", "MAIL_TIMEOUT_SECONDS": "2"},
}
# What a password, a hash, an access token or a key of ours looks like.
SECRETS_OF_OURS = re.compile(
    r"[0-9a-fA-F]{64}|\$argon2[^\s\"]*|Wy[IJ][\w.-]{20,}|qm_[0-9A-Za-z]{20,}"
)
# The paths whose answers are there to deliver a secret, once.
DELIVERING = ("/api/oauth/token", "/api/v1/keys")


def caller_of(door):
    """Return the name of who comes to a door."""
    return MANAGER if {"users.manage", "approve"} & {*door.roles} else SELF


class WatchedService:
    """Serves, and keeps every answer, log line and mail."""

    def __init__(self, db):
        self.db = db
        self.known = Known()
        self.mailbox = Mailbox()
        self.stored = Passwords(1, 64, 1).hash(self.known.password)
        self.session = requests.Session()
        # Otherwise each request looks for proxies in the environment.
        self.session.trust_env = False
        self.answers = set()

    @contextmanager
    def open(self, folder, mongodb_uri, **settings):
        with ExitStack() as stack:
            login = {"authenticator": self.authenticate, "auth_require_tls": False}
            mail_port = stack.enter_context(smtp_server(self.mailbox, **login))
            uri = (
                f"mongodb://keeper:{self.known.mongodb}@127.0.0.1:{urlsplit(mongodb_uri).port}/{DATABASE}"
                f"?directConnection=true&authSource={DATABASE}"
            )
            own = {"MONGODB_URI": uri, "MAIL_PORT": str(mail_port), "SECRET_KEY": self.known.key}
            own |= {"MAIL_PASSWORD": self.known.mail, "SECRET_KEY_FALLBACKS": self.known.former_key}
            self.server = stack.enter_context(serving(folder, **SETTINGS, **own, **settings))
            stack.enter_context(playing(self.db))
            yield self

    def authenticate(self, server, session, envelope, mechanism, data):
        return AuthResult(success=data.password.decode() == self.known.mail)

    def reset(self):
        """Put everything to where the right request of any door finds it."""
        for name in NAMES:
            self.db[name].delete_many({})
        set_scene(self.db, self.stored)
        # Nobody here has the token of that user.
        self.db.refresh_tokens.delete_many({})
        self.db.users.update_one({"Name": USER}, {"$set": {"Reset.Code": self.known.code}})
        query = (Role.API, Role.USERS_QUERY)
        callers = [make_user(self.stored, query, Name=name) for name in (SELF, "Clerk")]
        callers[0] = with_keys(callers[0], **{OWN_KEY: make_key(self.known.api_key)})
        manager = make_user(self.stored, Role, Name=MANAGER, Roles=["senior-support"])
        self.db.users.insert_many([*callers, manager])
        own = {"By": {"UserId": callers[0]["_id"], "Name": SELF}}
        self.db.approvals.update_one({"_id": OWN_APPROVAL}, {"$set": own})
        taken = {"Taken": datetime.now(timezone.utc), "TakenBy": "door"}
        self.db.actions.update_one({}, {"$set": {**taken, "TakerId": callers[0]["_id"]}})

    def sign_in(self, door):
        """Come as somebody who may open a door, and no more than that: managers see codes."""
        credentials = {"username": caller_of(door), "password": self.known.password}
        body = {"grant_type": "password", **credentials}
        answer = self.session.post(f"{self.server.base}/api/oauth/token", json=body, timeout=120)
        self.known.signed_in(answer.json())

    def send(self, ask):
        """Make a request, and keep what came back but for what it is there to deliver."""
        url = f"{self.server.base}{ask.path}"
        sent = {"headers": ask.headers, "data": ask.content, "timeout": 30}
        answer = self.session.request(ask.method, url, **sent)
        text = answer.text
        body = answer.json() if "json" in answer.headers["Content-Type"] else {}
        for name in ("access_token", "refresh_token", "tokenId", "Key"):
            if answer.ok and ask.path.startswith(DELIVERING) and name in body:
                self.known.add(body[name])
                text = text.replace(body[name], f"<{name}>")
        if ask.path.endswith("/notes") or "/chat/" in ask.path:
            # They are there to tell what somebody has written; a hash or a token in it is masked.
            text = "\n".join(SECRETS_OF_OURS.findall(text))
        self.answers |= {text, str(answer.headers)}
        return answer.status_code

    def learn(self):
        """Learn what the service itself made and stored."""
        hashes = (user["PasswordHash"] for user in self.db.users.find())
        self.known.add(*filter(None, hashes))
        self.known.add(*(token["_id"] for token in self.db.refresh_tokens.find()))
        self.known.add(*(d for user in self.db.users.find() for d in user.get("KeyDigests", ())))
        self.known.add(*(code for mail in self.mailbox.messages for code in codes_in(mail)))

    def leaks(self):
        """Return what came out with a secret in it since somebody last asked, with the secrets."""
        self.learn()
        texts = [*self.answers, *self.server.output.read_text().splitlines()]
        self.answers.clear()
        # One by one, thousands of texts would be searched for a thousand secrets.
        if not self.known.found_in("\n".join(texts)):
            return []
        return [(found, text) for text in texts if (found := self.known.found_in(text))]

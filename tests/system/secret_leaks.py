"""The service with a secret in every setting that may hold one, and all that comes out of it."""

import re
import socket
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timezone
from itertools import groupby
from urllib.parse import urlsplit

import requests
from aiosmtpd.smtp import AuthResult

from app.core.permissions import Role
from app.database import COLLECTIONS
from app.storage.schema.collections import init_database
from app.users.passwords import Passwords
from tests.collection_plans import NAMES
from tests.endpoint_table import OWN_APPROVAL, OWN_KEY, SELF, USER
from tests.factories import make_key, make_user, with_keys
from tests.game import playing
from tests.scene import set_scene
from tests.system.leaks import Ask, Known, right_ask
from tests.system.programs import serving
from tests.system.tcp_proxy import TcpProxy
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
# A validator that nothing passes, and that quotes what did not.
WRITTEN = ("_id", "PasswordHash", "Reset", "Email", "Used", "Inventory", "Spells", "Variables")
# What a password, a hash, an access token or a key of ours looks like.
SECRETS_OF_OURS = re.compile(
    r"[0-9a-fA-F]{64}|\$argon2[^\s\"]*|Wy[IJ][\w.-]{20,}|qm_[0-9A-Za-z]{20,}"
)
# The paths whose answers are there to deliver a secret, once.
DELIVERING = ("/api/oauth/token", "/api/v1/keys")
IMPOSSIBLE = {"$jsonSchema": {"properties": {name: {"bsonType": "int"} for name in WRITTEN}}}


def caller_of(door):
    """Return the name of who comes to a door."""
    return MANAGER if {"users.manage", "approve"} & {*door.roles} else SELF


def received(connection):
    try:
        return connection.recv(65536)
    except ConnectionError:
        return b""


class WatchedService:
    """Serves, and keeps every answer, log line and mail."""

    def __init__(self, db):
        self.db = db
        self.known = Known()
        self.mailbox = Mailbox()
        self.knows_postman = True
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
            self.proxy = TcpProxy(urlsplit(mongodb_uri).port)
            stack.callback(self.proxy.close)
            uri = (
                f"mongodb://keeper:{self.known.mongodb}@127.0.0.1:{self.proxy.port}/{DATABASE}"
                f"?directConnection=true&authSource={DATABASE}"
            )
            own = {"MONGODB_URI": uri, "MAIL_PORT": str(mail_port), "SECRET_KEY": self.known.key}
            own |= {"MAIL_PASSWORD": self.known.mail, "SECRET_KEY_FALLBACKS": self.known.former_key}
            self.server = stack.enter_context(serving(folder, **SETTINGS, **own, **settings))
            stack.enter_context(playing(self.db))
            yield self

    def authenticate(self, server, session, envelope, mechanism, data):
        right = data.password.decode() == self.known.mail
        return AuthResult(success=right and self.knows_postman)

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

    def prepared(self, doors):
        """Return the right requests of doors, of callers whom the service knows already."""
        self.reset()
        prepared = []
        for _, of_caller in groupby(sorted(doors, key=caller_of), caller_of):
            of_caller = list(of_caller)
            self.sign_in(of_caller[0])
            prepared += [right_ask(door, self.known) for door in of_caller]
            self.send(Ask("GET", "/api/v1/players", prepared[-1].headers))
        return prepared

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

    @contextmanager
    def refusing_writes(self):
        for name in ("users", "players", "refresh_tokens"):
            # Strict, or what is broken already could be changed.
            self.db.command("collMod", name, validator=IMPOSSIBLE, validationLevel="strict")
        yield
        init_database(self.db, COLLECTIONS)

    def send_raw(self, text):
        address = ("127.0.0.1", self.server.port)
        with closing(socket.create_connection(address, timeout=120)) as connection:
            # What is refused at once need not be read to its end.
            with suppress(ConnectionError):
                connection.sendall(text.encode("latin1"))
            answer = b""
            while data := received(connection):
                answer += data
        # What gunicorn cannot parse it repeats to its sender, and to nobody else. Behind nginx,
        # such a request does not reach it.
        if b"<title>Bad Request</title>" not in answer:
            self.answers.add(answer.decode())

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

"""Mail through a real SMTP server, and through ones that fail in every way."""

import contextlib
import email
import email.policy
import re
import socket
import ssl
import threading

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

import config
from app.core.permissions import Role
from tests.callers import Caller
from tests.factories import World, sha256
from tests.ports import free_port

ASK, REDEEM = "GET /password/reset", "POST /password/reset"
NEW = sha256("new password")


class Mailbox:
    """Keeps what the server receives; refuses recipients, or takes a mail and never says so."""

    def __init__(self, refuse=False, is_silent=False):
        self.messages, self.envelopes = [], []
        self.refuse, self.is_silent = refuse, is_silent

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        if self.refuse:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        self.envelopes.append((envelope.mail_from, envelope.rcpt_tos))
        policy = email.policy.default
        self.messages.append(email.message_from_bytes(envelope.content, policy=policy))
        if self.is_silent:
            server.transport.abort()
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    good = isinstance(data, LoginPassword) and data.login == b"postman" and data.password == b"pw"
    return AuthResult(success=good)


@contextlib.contextmanager
def smtp_server(mailbox, **options):
    controller = Controller(mailbox, hostname="127.0.0.1", port=0, **options)
    # The controller would look for its server at the port that it asked for.
    controller.port = free_port()
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


@pytest.fixture
def start(make_app, mongodb_uri, real_db):
    """Return somebody who asks an application with these mail settings for a reset of Alice."""

    def start(port, **overrides):
        settings = {
            **{"MAIL_SERVER": "127.0.0.1", "MAIL_PORT": port, "MAIL_TIMEOUT_SECONDS": 1.0},
            **{"MAIL_DEFAULT_SENDER": "Game <game@example.com>", "MONGODB_URI": mongodb_uri},
            **overrides,
        }
        app = make_app(config.load({"QM_ENV": "testing"}, **settings))
        world = World(app)
        world.add_user("old", Name="Alice", Email="alice@example.com")
        return Caller(app.test_client(), world.headers(*Role), "/api/v1/users/Alice")

    return start


def codes_in(message):
    """Return the secrets of a mail: a code on its own line, or at the end of a link."""
    text = message.get_body(("plain",)).get_content()
    return re.findall(r"^ +(?:http\S+#[0-9a-f-]{36}\.)?([0-9A-Za-z_-]{8,})\s*$", text, re.M)


def code_in(message):
    (code,) = codes_in(message)
    return code


def test_a_code_arrives_and_is_redeemed_once(start):
    mailbox = Mailbox()
    with smtp_server(mailbox) as port:
        staff = start(port)
        assert staff(ASK).json == {"Message": "Password reset email sent."}
    (message,) = mailbox.messages
    assert (message["To"], message["From"]) == ("alice@example.com", "Game <game@example.com>")
    assert message["Date"]
    assert message["Message-ID"]
    body = {"code": code_in(message), "new": NEW}
    assert staff(REDEEM, body).json == {"Message": "Password Updated"}
    staff(REDEEM, body, 403)


def test_a_code_goes_to_the_domain_that_the_address_names(start, real_db):
    """Python's own codec, which Flask-Mail uses, would send it to strasse.de."""
    mailbox = Mailbox()
    with smtp_server(mailbox) as port:
        staff = start(port, MAIL_DEFAULT_SENDER="Größe <game@größe.example>")
        real_db.users.update_one({}, {"$set": {"Email": "alice@straße.example"}})
        staff(ASK)
    sender, recipient = "game@xn--gre-6ka8i.example", "alice@xn--strae-oqa.example"
    assert mailbox.envelopes == [(sender, [recipient])]
    (message,) = mailbox.messages
    assert (message["To"], message["From"]) == (recipient, f"Größe <{sender}>")


@pytest.mark.parametrize("address", ["alice@☃.example", "alice@a\u200db.example", "alice@"])
def test_an_address_that_no_mail_server_knows_is_said_to_be_one(start, real_db, address):
    staff = start(free_port())
    real_db.users.update_one({}, {"$set": {"Email": address}})
    assert staff(ASK, status=409).json["Message"] == (
        "Password reset email could not be sent: the account has no valid address."
    )


@pytest.fixture
def authority(tmp_path):
    """Somebody who signs certificates, and whom to trust for it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.file = str(tmp_path / "ca.pem")
    return authority


def server_context(authority, name="127.0.0.1"):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


SECURE = {"require_starttls": True, "auth_required": True, "authenticator": authenticate}
LOGIN = {"MAIL_USE_TLS": True, "MAIL_USERNAME": "postman", "MAIL_PASSWORD": "pw"}


def test_starttls_and_a_login(start, authority):
    mailbox = Mailbox()
    with smtp_server(mailbox, tls_context=server_context(authority), **SECURE) as port:
        start(port, MAIL_CA_FILE=authority.file, **LOGIN)(ASK)
    assert len(mailbox.messages) == 1


def test_tls_from_the_beginning(start, authority):
    mailbox = Mailbox()
    with smtp_server(mailbox, ssl_context=server_context(authority)) as port:
        start(port, MAIL_USE_SSL=True, MAIL_CA_FILE=authority.file)(ASK)
    assert len(mailbox.messages) == 1


@pytest.mark.parametrize("fault", ["password", "authority", "name"])
def test_a_wrong_login_or_certificate_is_a_503(start, authority, fault):
    mailbox = Mailbox()
    context = server_context(authority, "elsewhere.example" if fault == "name" else "127.0.0.1")
    settings = {**LOGIN, "MAIL_CA_FILE": authority.file}
    if fault == "password":
        settings["MAIL_PASSWORD"] = "guess"
    if fault == "authority":
        settings["MAIL_CA_FILE"] = None
    with smtp_server(mailbox, tls_context=context, **SECURE) as port:
        assert_refused(start(port, **settings))
    assert mailbox.messages == []


def assert_refused(staff):
    """A mail that is not sent is a 503, and leaves the former code."""
    before = staff("GET ").json["PasswordResetCode"]
    response = staff(ASK, status=503)
    assert response.headers["Retry-After"]
    assert response.json["Message"] == (
        "Password reset email could not be sent: the mail server did not accept it."
    )
    assert staff("GET ").json["PasswordResetCode"] == before


def test_a_refusing_server_leaves_the_former_code(start):
    mailbox = Mailbox()
    with smtp_server(mailbox) as port:
        staff = start(port)
        staff(ASK)
        mailbox.refuse = True
        assert_refused(staff)
    staff(REDEEM, {"code": code_in(mailbox.messages[0]), "new": NEW})


def test_an_absent_server_is_a_503(start):
    assert_refused(start(free_port()))


@pytest.mark.parametrize("greeting", [b"", b"220 hello\r\n"])
def test_a_server_that_does_not_get_on_costs_seconds(start, greeting):
    """It goes on until the request is answered, so that only a limit of time can answer it."""
    is_over = threading.Event()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(greeting)
                is_over.wait(120)

        server = threading.Thread(target=serve)
        server.start()
        assert_refused(start(listener.getsockname()[1]))
        is_over.set()
        server.join()


@pytest.mark.parametrize("mailbox", [Mailbox(is_silent=True), Mailbox(refuse=True)])
def test_a_mail_that_the_server_has_not_accepted_does_not_count(start, real_db, mailbox):
    with smtp_server(mailbox) as port:
        assert_refused(start(port))
    counts = real_db.quotas.find({"_id": {"$regex": "^mails"}})
    assert [count["Used"] for count in counts] == [0, 0]

"""Mails to accounts: codes to reset a password, invitations, and notices."""

from __future__ import annotations

import contextlib
import re
import smtplib
import ssl
import time
from email.utils import parseaddr
from pathlib import Path
from typing import Any, NamedTuple

from flask import Flask, has_request_context, render_template, request
from flask_mail import BadHeaderError, Connection, Mail, Message

from app.core import metrics
from app.core.errors import Unavailable
from app.core.limits import Limiter, working
from app.core.naming import email_as_sent
from app.core.services import current
from app.core.types import Document
from app.http.context import setting


class Letter(NamedTuple):
    """A kind of mail with a code: its noun in errors, the settings of its subject and lifetime."""

    # The field of the account that has the code; in small letters, the name of the template.
    field: str
    noun: str
    subject: str
    seconds: str


RESET = Letter("Reset", "Password reset email", "RESET_SUBJECT", "RESET_CODE_SECONDS")
INVITATION = Letter("Invitation", "The invitation", "INVITATION_SUBJECT", "INVITATION_SECONDS")


class MailNotSent(Unavailable):
    """The mail server did not accept the mail."""

    retry_after = 30


class MailNotConfigured(Unavailable):
    """In production without MAIL_SERVER."""

    sentence = "{noun} could not be sent: mail is not configured."
    retry_after = 60


class PublicUrlNotSet(Unavailable):
    """In production, no mail has the host of a request in a link: any client can forge it."""

    sentence = "{noun} could not be sent: its link needs the setting QM_PUBLIC_URL."
    retry_after = 60


class TimedConnection(Connection):
    """Flask-Mail's connection, with a timeout and verified certificates."""

    def configure_host(self) -> smtplib.SMTP:
        trust = ssl.create_default_context(cafile=setting("MAIL_CA_FILE"))
        server, port, seconds = self.mail.server, self.mail.port, setting("MAIL_TIMEOUT_SECONDS")
        if self.mail.use_ssl:
            host: smtplib.SMTP = smtplib.SMTP_SSL(server, port, timeout=seconds, context=trust)
        else:
            host = smtplib.SMTP(server, port, timeout=seconds)
        try:
            if self.mail.use_tls:
                host.starttls(context=trust)
            if self.mail.username and self.mail.password:
                host.login(self.mail.username, self.mail.password)
        except BaseException:
            host.close()
            raise
        return host

    def __exit__(self, *fault: Any) -> None:
        # The mail is already accepted or refused: an error of QUIT does not matter.
        with contextlib.suppress(OSError):
            super().__exit__(*fault)


class Mailer:
    """Sends mails by SMTP, or writes them to the outbox if no server is configured."""

    def __init__(self, app: Flask, limiter: Limiter) -> None:
        self._mail = Mail(app)
        self._limiter = limiter

    @property
    def outbox(self) -> Path | None:
        """The folder that gets the mails; None if a mail server does."""
        return None if setting("MAIL_SERVER") else Path(setting("DATA_DIR")) / "outbox"

    def send_code(self, user: Document, code: str, letter: Letter = RESET) -> None:
        """Send a code that resets a password, or that accepts an invitation."""
        minutes = max(1, setting(letter.seconds) // 60)
        facts = {"code": code, "minutes": minutes, "days": max(1, minutes // 1440)}
        if letter is INVITATION:
            # Browsers do not send a fragment, so no log contains the code.
            facts["link"] = self.link(f"invitation#{user['_id']}.{code}", letter.noun)
        facts["game"] = setting("GAME_NAME")
        subject, template = setting(letter.subject), letter.field.lower()
        self.send(subject, template, user, letter.noun, **facts)

    def link(self, path: str, noun: str = "The mail") -> str:
        """Return the address of a page of the console, for a mail with this noun."""
        address = setting("PUBLIC_URL")
        if not address:
            if setting("ENV") == "production" or not has_request_context():
                raise PublicUrlNotSet(noun)
            address = request.host_url.rstrip("/")
        return f"{address}/console/{path}"

    def send(
        self,
        subject: str,
        template: str,
        user: Document,
        noun: str = "The mail",
        **facts: Any,
    ) -> None:
        """Send a mail, or raise MailNotSent."""
        with metrics.MAILS.labels("failed").count_exceptions():
            # A name from the game may contain line breaks, which could forge lines of the mail.
            for key, fact in {"name": user["Name"], **facts}.items():
                is_text = isinstance(fact, str)
                facts[key] = "".join(filter(str.isprintable, fact)) if is_text else fact
            sender = setting("MAIL_DEFAULT_SENDER")
            _, address = parseaddr(sender)
            message = Message(
                subject,
                # Flask-Mail would encode domains with IDNA 2003, which may yield other domains.
                recipients=[email_as_sent(user["Email"])],
                body=render_template(f"{template}.txt", **facts),
                html=render_template(f"{template}.html", **facts),
                sender=sender.replace(address, email_as_sent(address) or address),
            )
            why = "the mail server did not accept it"
            try:
                if self.outbox is None:
                    self._send(message)
                elif setting("ENV") == "production":
                    raise MailNotConfigured(noun)
                else:
                    why = "it could not be written to the outbox"
                    self._write(self.outbox, message, user["Name"])
            except (OSError, ValueError, BadHeaderError) as error:
                raise MailNotSent(f"{noun} could not be sent: {why}.") from error
        metrics.MAILS.labels("sent").inc()

    def _send(self, message: Message) -> None:
        # The time that the mail server takes is none at the database.
        with working(self._limiter), TimedConnection(self._mail) as connection:
            connection.send(message)

    def _write(self, outbox: Path, message: Message, name: str) -> None:
        message.date = time.time()
        safe_name = re.sub(r"[^\w-]", "_", name)[:40]
        outbox.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = outbox / f"{time.time_ns()}-{safe_name}.eml"
        # A code is as sensitive as a password, and an existing folder may be open to others.
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(message.as_bytes())


mailer = current(Mailer)

"""Mails with a code to reset a password."""

from __future__ import annotations

import contextlib
import re
import smtplib
import socket
import ssl
import threading
import time
from contextlib import AbstractContextManager
from email.message import EmailMessage
from email.utils import formatdate, make_msgid, parseaddr
from pathlib import Path
from typing import Any

from flask import Config, render_template

from app import metrics
from app.errors import Unavailable
from app.limits import Limiter
from app.naming import email_as_sent
from app.request_scope import renew_time_limit, working
from app.storage.limits.reset_mails import MailNotSent

FAILED = "Password reset email could not be sent"
# What a server answers that does not take a mail.
REFUSED = (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused)


class MailNotConfigured(MailNotSent):
    """In production without MAIL_SERVER."""

    sentence = f"{FAILED}: mail is not configured."
    retry_after = 60


class TimedSmtp(smtplib.SMTP):
    """An SMTP connection with a deadline for the whole dialogue.

    A socket timeout is not enough: a server that trickles its answers never exceeds it.
    """

    # Whether it has begun to send a mail, which may then arrive without an answer.
    has_sent_data = False

    def __init__(self, host: str, port: int, seconds: float, **tls: Any) -> None:
        self._deadline = threading.Timer(seconds, self._abort)
        self._deadline.daemon = True
        self._deadline.start()
        try:
            super().__init__(host, port, timeout=seconds, **tls)
        except BaseException:
            self.close()
            raise

    def data(self, msg: Any) -> tuple[int, bytes]:
        self.has_sent_data = True
        return super().data(msg)

    def __exit__(self, *error: Any) -> None:
        # The mail was accepted or refused already: an error of QUIT changes nothing.
        with contextlib.suppress(smtplib.SMTPException, OSError):
            super().__exit__(*error)

    def close(self) -> None:
        self._deadline.cancel()
        super().close()

    def _abort(self) -> None:
        sock = getattr(self, "sock", None)
        with contextlib.suppress(OSError):
            if sock is not None:
                sock.shutdown(socket.SHUT_RDWR)


class TimedSmtpOverTls(TimedSmtp, smtplib.SMTP_SSL):
    """The same with TLS from the beginning."""


class Mailer:
    """Sends codes by SMTP, or writes them to the outbox if no server is configured."""

    def __init__(self, config: Config, limiter: Limiter) -> None:
        self._config = config
        self._limiter = limiter

    def slot(self) -> AbstractContextManager[None]:
        """Return the slot that sending needs, to be taken before an attempt is counted."""
        return working(self._limiter)

    def send_code(self, name: str, email: str, code: str) -> None:
        """Hand a code over to the mail server, or raise Unavailable: MailNotSent if it is sure."""
        with metrics.MAILS.labels("failed").count_exceptions():
            message = self._message(name, email, code)
            if self._config["MAIL_SERVER"]:
                self._send(message)
            elif self._config["ENV"] == "production":
                raise MailNotConfigured
            else:
                self._write(message, name)
        metrics.MAILS.labels("sent").inc()

    def _message(self, name: str, email: str, code: str) -> EmailMessage:
        minutes = max(1, self._config["RESET_CODE_SECONDS"] // 60)
        # A name from the game may hold line breaks, which could forge lines of our text.
        printable = "".join(filter(str.isprintable, name))
        facts = {"name": printable, "code": code, "minutes": minutes}
        message = EmailMessage()
        try:
            message["Subject"] = self._config["RESET_SUBJECT"]
            message["From"] = _sender(self._config["MAIL_DEFAULT_SENDER"])
            message["To"] = email_as_sent(email)
        except ValueError as error:  # such as a line break in an address
            raise _not_sent("the address is not valid") from error
        message["Date"] = formatdate(localtime=True)
        message["Message-ID"] = make_msgid()
        message.set_content(render_template("reset.txt", **facts))
        message.add_alternative(render_template("reset.html", **facts), subtype="html")
        return message

    def _send(self, message: EmailMessage) -> None:
        config = self._config
        connection = None
        try:
            with self._connect() as connection:
                if config["MAIL_USE_TLS"]:
                    connection.starttls(context=self._trust())
                if config["MAIL_USERNAME"] and config["MAIL_PASSWORD"]:
                    connection.login(config["MAIL_USERNAME"], config["MAIL_PASSWORD"])
                connection.send_message(message)
        except (smtplib.SMTPException, OSError, ValueError) as error:
            is_unsure = connection and connection.has_sent_data and not isinstance(error, REFUSED)
            kind = Unavailable if is_unsure else MailNotSent
            raise _not_sent("the mail server did not take it", kind) from error
        finally:
            # What came of it is stored now, and the time with the mail server does not count.
            renew_time_limit()

    def _connect(self) -> TimedSmtp:
        config = self._config
        server = config["MAIL_SERVER"], config["MAIL_PORT"], config["MAIL_TIMEOUT_SECONDS"]
        if config["MAIL_USE_SSL"]:
            return TimedSmtpOverTls(*server, context=self._trust())
        return TimedSmtp(*server)

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._config["MAIL_CA_FILE"])

    def _write(self, message: EmailMessage, name: str) -> None:
        outbox = Path(self._config["DATA_DIR"]) / "outbox"
        safe_name = re.sub(r"[^\w-]", "_", name)[:40]
        try:
            outbox.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = outbox / f"{time.time_ns()}-{safe_name}.eml"
            # A code is as good as a password, and an existing folder may be open to others.
            path.touch(mode=0o600, exist_ok=False)
            path.write_bytes(message.as_bytes())
        except (OSError, ValueError) as error:
            raise _not_sent("the outbox did not take it") from error


def _not_sent(why: str, kind: type[Unavailable] = MailNotSent) -> Unavailable:
    return kind(f"{FAILED}: {why}.", retry_after=30)


def _sender(text: str) -> str:
    """Return the sender with the domain of its address in ASCII."""
    _, address = parseaddr(text)
    return text.replace(address, email_as_sent(address) or address)

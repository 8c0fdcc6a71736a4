"""Runs real nginx with config/nginx.conf, in which only the lines marked CHANGE are others."""

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
from contextlib import contextmanager
from pathlib import Path

import trustme

from tests.ports import free_port
from tests.system.programs import Asked, wait_until

CONFIGURATION = Path(__file__).parents[2] / "config" / "nginx.conf"
NAME = "quartermaster.test"
# Debian keeps it where only the superuser looks.
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MISSING = "nginx is not installed: apt-get install nginx-light"


def adapted(text, changes):
    """Return the configuration with the marked lines that begin like this replaced."""
    lines, used = [], set()
    for line in text.splitlines():
        begin = next((key for key in changes if line.strip().startswith(key)), None)
        if begin is not None and "# CHANGE" in line:
            used.add(begin)
            line = changes[begin]
        lines.append(line)
    assert used == set(changes), "a line to be changed is not marked, or not there"
    return "\n".join(lines)


class Site(Asked):
    """A running nginx: where it listens, whom to trust, and what it writes."""

    def __init__(self, folder, upstream, **changes):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.port, self.plain_port = free_port(), free_port()
        self._make_certificate()
        everywhere = {**self._changes(upstream), **changes}
        self.configuration = self.folder / "nginx.conf"
        self.configuration.write_text(adapted(CONFIGURATION.read_text(), everywhere))
        self.access_log, self.error_log = self.folder / "access.log", self.folder / "error.log"

    def _make_certificate(self):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.folder / "ca.pem")
        certificate = authority.issue_cert(NAME, "127.0.0.1")
        certificate.private_key_and_cert_chain_pem.write_to_path(self.folder / "server.pem")
        self.tls = ssl.create_default_context(cafile=self.folder / "ca.pem")

    def _changes(self, upstream):
        folder = self.folder
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        return {
            # Without a choice of users, nginx runs as whoever started it.
            "user ": "user root;" if os.geteuid() == 0 else "",
            "pid ": f"pid {folder}/nginx.pid;",
            "error_log ": f"error_log {folder}/error.log warn;",
            "access_log ": f"access_log {folder}/access.log quartermaster;",
            **{f"{kind}_temp_path": f"{kind}_temp_path {folder}/{kind};" for kind in kinds},
            "server unix:": f"server unix:{upstream} max_fails=0;",
            "listen 80": f"listen 127.0.0.1:{self.plain_port};",
            "listen [::]:80": "",
            "listen 443": f"listen 127.0.0.1:{self.port} ssl http2;",
            "listen [::]:443": "",
            "server_name": f"server_name {NAME};",
            "root ": f"root {folder}/certbot;",
            "ssl_certificate ": f"ssl_certificate {folder}/server.pem;",
            "ssl_certificate_key ": f"ssl_certificate_key {folder}/server.pem;",
        }

    def connection(self, timeout=120):
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self.tls, timeout=timeout
        )

    def send(self, *parts, plain=False):
        """Send bytes as they are, and return the answer as bytes."""
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        with raw if plain else self.tls.wrap_socket(raw, server_hostname=NAME) as stream:
            for part in parts:
                stream.sendall(part)
            return read_all(stream)

    def logged(self):
        return [json.loads(line) for line in self.access_log.read_text().splitlines()]


def read_all(stream):
    """Read until the other side closes, in whatever manner."""
    received = b""
    try:
        while chunk := stream.recv(65536):
            received += chunk
    except OSError:
        pass
    return received


def parsed(answer):
    """Return the status, the headers and the body of an answer in bytes."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


@contextmanager
def proxying(folder, upstream, **changes):
    """Run nginx until the block ends."""
    site = Site(folder, upstream, **changes)
    arguments = [NGINX, "-p", str(site.folder), "-c", str(site.configuration)]
    arguments += ["-e", str(site.error_log), "-g", "daemon off;"]
    output = site.folder / "output.txt"
    with output.open("wb") as log:
        site.process = subprocess.Popen(arguments, stdout=log, stderr=log)
    try:
        wait_until(lambda: is_open(site.port), output)
        yield site
    finally:
        site.process.terminate()
        site.process.wait(120)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

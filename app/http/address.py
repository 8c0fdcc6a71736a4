"""Where a request comes from, as far as it can be trusted."""

from __future__ import annotations

import ipaddress
import re

from flask import Flask, request
from werkzeug.middleware.proxy_fix import ProxyFix

# Whoever has one address of IPv6 has as many as he likes, all within this.
NETWORK_BITS = 64
# Some proxies add the client's port: 192.0.2.1:5000, [2001:db8::1]:5000.
_PORT = re.compile(r"^(?:([0-9.]+):[0-9]+|\[([^\]]*)\](?::[0-9]+)?)$")


def register(app: Flask, proxies: int) -> None:
    """Believe what this many proxies say of the client, and nothing that the client says itself."""
    if proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign] # as Flask documents it
            app.wsgi_app, x_for=proxies, x_proto=proxies
        )


def client_address() -> str:
    """Return the address to count a client by."""
    text = _PORT.sub(r"\1\2", request.remote_addr or "")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if address.version == 6 and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
    return str(address.ipv4_mapped if address.version == 6 else address)

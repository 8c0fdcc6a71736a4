"""The address of the client; forwarded addresses only count from trusted proxies."""

from __future__ import annotations

import ipaddress
import re

from flask import Flask, request
from werkzeug.middleware.proxy_fix import ProxyFix

# A client usually controls a whole /64 network of IPv6 addresses.
NETWORK_BITS = 64
# Some proxies append the client's port: 192.0.2.1:5000, [2001:db8::1]:5000.
_PORT = re.compile(r"^(?:([0-9.]+):[0-9]+|\[([^\]]*)\](?::[0-9]+)?)$")


def register(app: Flask, proxies: int) -> None:
    """Trust the X-Forwarded headers of this many proxies, but none that the client sends."""
    if proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign] # as Flask documents it
            app.wsgi_app, x_for=proxies, x_proto=proxies
        )


def remote_address() -> str:
    """Return the address of the client, without a port."""
    return _PORT.sub(r"\1\2", request.remote_addr or "")


def client_address() -> str:
    """Return the address, or the IPv6 network, that identifies a client in rate limits."""
    text = remote_address()
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if address.version == 4:
        return str(address)
    network = ipaddress.ip_network((address, NETWORK_BITS), strict=False)
    return str(address.ipv4_mapped or network)

"""Servers that lie, each in its own way, to see whether the bench notices."""

import orjson

from benchmarks.peers import limit
from benchmarks.peers.shared import encode, given


def wrong_level(environ, start_response):
    """Answer a look-up with a level that nobody has."""
    _, answer = limit.respond(environ)
    return answered({**answer, "Level": 1_000_000}, start_response)


def forgotten_gives(environ, start_response):
    """Answer a give as if it had happened."""
    if not environ["PATH_INFO"].endswith("/give"):
        return limit.app(environ, start_response)
    name = environ["PATH_INFO"].split("/")[-3]
    item = orjson.loads(environ["wsgi.input"].read())["itemid"]
    player = limit.players.find_one({"NameKey": limit.name_key(name)})
    player["Inventory"]["0"]["Quantity"] += 1
    return answered(given(player, item), start_response)


def answered(value, start_response):
    body = encode(value)
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

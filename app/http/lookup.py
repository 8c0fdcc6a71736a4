"""Lookup keys in paths: ``<lookup:key>`` hands a view the id or the name that is meant."""

from __future__ import annotations

from typing import Any

from flask import Flask
from werkzeug.routing import BaseConverter

from app.http.api import Api
from app.keys import Lookup


class LookupConverter(BaseConverter):
    """A path segment that holds a guid or a name."""

    def to_python(self, value: str) -> Lookup:
        return Lookup.parse(value)

    def to_url(self, value: Any) -> str:
        return super().to_url(str(value))


def register(app: Flask, api: Api) -> None:
    app.url_map.converters["lookup"] = LookupConverter
    api.register_converter(LookupConverter, lambda _: {"type": "string"})

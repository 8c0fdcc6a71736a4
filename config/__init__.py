"""Loads the settings: defaults, then the environment's class, then QM_<NAME> variables."""

from __future__ import annotations

import difflib
import logging
import os
import typing
from collections.abc import Callable, Mapping
from typing import Any

from config.base import Settings
from config.development import Development
from config.production import Production
from config.testing import Testing

PREFIX = "QM_"
SECRET_LENGTH = 32
ENVIRONMENTS: dict[str, type[Settings]] = {
    "development": Development,
    "production": Production,
    "testing": Testing,
}

log = logging.getLogger(__name__)


class SettingsError(Exception):
    """The settings do not allow a start; the text says which and why."""


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings that the environment asks for, overrides last."""
    environ = os.environ if environ is None else environ
    settings = _environment(environ.get(f"{PREFIX}ENV") or "development")()
    for name, value in {**_from_environ(settings, environ), **overrides}.items():
        setattr(settings, name, value)
    _check(settings)
    return settings


def _environment(name: str) -> type[Settings]:
    if name not in ENVIRONMENTS:
        raise SettingsError(f"QM_ENV is '{name}'; it must be one of {', '.join(ENVIRONMENTS)}.")
    return ENVIRONMENTS[name]


def _from_environ(settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    kinds = typing.get_type_hints(type(settings))
    values = {}
    for variable, text in environ.items():
        name, text = variable.removeprefix(PREFIX), text.strip()
        if name == variable or not text:
            continue
        if name in kinds:
            values[name] = _parse(variable, text, kinds[name])
        else:
            near = difflib.get_close_matches(name, kinds, n=1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else "."
            log.warning("%s is not a setting%s", variable, hint)
    return values


def _parse(variable: str, text: str, hint: Any) -> Any:
    """Read a variable as the type that its setting is annotated with."""
    kind = typing.get_origin(hint)
    if kind is not list:
        kind = next((kind for kind in typing.get_args(hint) if kind is not type(None)), hint)
    try:
        return PARSERS[kind](text)
    except ValueError:
        raise SettingsError(f"{variable} is '{text}'; it must be {EXPECTED[kind]}.") from None


def _boolean(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    bool: _boolean,
    list: lambda text: [part.strip() for part in text.split(",") if part.strip()],
}
EXPECTED = {int: "a whole number", float: "a number", bool: "true or false"}


def _check(settings: Settings) -> None:
    missing = [PREFIX + name for name in settings.REQUIRED if not getattr(settings, name)]
    if missing:
        raise SettingsError(
            f"The {settings.ENV} environment cannot start without {' and '.join(missing)}."
        )
    for secret in filter(None, [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]):
        if len(secret) < SECRET_LENGTH:
            raise SettingsError(f"{PREFIX}SECRET_KEY must have {SECRET_LENGTH} characters or more.")
    for name, choices in CHOICES.items():
        if getattr(settings, name) not in choices:
            raise SettingsError(f"{PREFIX}{name} must be one of {', '.join(choices)}.")
    for name, hint in typing.get_type_hints(type(settings)).items():
        value = getattr(settings, name)
        if hint in (int, float) and (value < 0 or (value == 0 and name not in MAY_BE_0)):
            raise SettingsError(f"{PREFIX}{name} is {value}; it must be greater than 0.")


CHOICES = {"LOG_FORMAT": ("text", "json"), "LOG_LEVEL": ("DEBUG", "INFO", "WARNING", "ERROR")}
MAY_BE_0 = ("AUTH_CACHE_SECONDS", "TOTAL_CACHE_SECONDS", "ONLINE_TTL_SECONDS")

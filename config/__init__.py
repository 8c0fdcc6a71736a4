"""Loads the settings: defaults, then the environment's class, then QM_<NAME> variables."""

from __future__ import annotations

import difflib
import os
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from config.base import Development, Production, Settings, Testing

PREFIX = "QM_"
MIN_SECRET_LENGTH = 32
ENVIRONMENTS: dict[str, type[Settings]] = {
    "development": Development,
    "production": Production,
    "testing": Testing,
}


class SettingsError(Exception):
    """The settings are invalid; the text names the setting and the reason."""


def load(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings of an environment; overrides take precedence over its variables."""
    environ = os.environ if environ is None else environ
    env = environ.get(f"{PREFIX}ENV") or "development"
    if env not in ENVIRONMENTS:
        raise SettingsError(f"QM_ENV is '{env}'; it must be one of {', '.join(ENVIRONMENTS)}.")
    settings = ENVIRONMENTS[env]()
    for name, value in {**_from_environ(settings, environ), **overrides}.items():
        setattr(settings, name, value)
    for fault in _faults(settings):
        raise SettingsError(fault)
    return settings


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a warning for each QM_ variable that is not a setting, such as a misspelt one."""
    environ = os.environ if environ is None else environ
    kinds = typing.get_type_hints(Settings)
    sentences = []
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if name != variable and name not in kinds:
            near = difflib.get_close_matches(name, kinds, n=1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else "."
            sentences.append(f"{variable} is not a setting{hint}")
    return sentences


def _from_environ(settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: _parse(PREFIX + name, environ[PREFIX + name].strip(), hint)
        for name, hint in typing.get_type_hints(type(settings)).items()
        if environ.get(PREFIX + name, "").strip()
    }


def _parse(variable: str, text: str, hint: Any) -> Any:
    """Convert a variable to the annotated type of its setting."""
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


def _faults(settings: Settings) -> Iterator[str]:
    """Yield a sentence for each invalid setting."""
    required = REQUIRED.get(settings.ENV, ())
    if missing := [PREFIX + name for name in required if not getattr(settings, name)]:
        yield f"The {settings.ENV} environment cannot start without {' and '.join(missing)}."
    yield from _secret_faults(settings)
    if settings.MAIL_USE_TLS and settings.MAIL_USE_SSL:
        yield "QM_MAIL_USE_TLS and QM_MAIL_USE_SSL exclude each other."
    yield from _address_faults(settings)
    yield from _openid_faults(settings)
    operator = settings.OPERATOR or ""
    if len(operator) > 255 or not operator.isprintable():
        yield "QM_OPERATOR must be at most 255 printable characters."
    if settings.MAIL_CA_FILE and not Path(settings.MAIL_CA_FILE).is_file():
        yield f"QM_MAIL_CA_FILE names no file: {settings.MAIL_CA_FILE}."
    for origin in settings.CORS_ORIGINS:
        if not ORIGIN.fullmatch(origin):
            yield f"QM_CORS_ORIGINS has '{origin}': list origins such as https://example.com."
    if recorded := [name for name in settings.UNRECORDED_FIELDS if name not in FREQUENT]:
        yield (
            f"QM_UNRECORDED_FIELDS has '{recorded[0]}': history may leave out only "
            f"{', '.join(FREQUENT)}."
        )
    if settings.PUBLIC_URL and not ORIGIN.fullmatch(settings.PUBLIC_URL):
        yield f"QM_PUBLIC_URL is '{settings.PUBLIC_URL}'; write it like https://qm.example.com."
    for rule in settings.APPROVAL:
        if not APPROVAL_RULE.fullmatch(rule):
            yield (
                f"QM_APPROVAL has '{rule}'; it takes batches>N with a number of rows, erasures and "
                "roles, separated by commas."
            )
    yield from _value_faults(settings)
    yield from _argon2_faults(settings)


def _address_faults(settings: Settings) -> Iterator[str]:
    if settings.SOCKET and not settings.TRUSTED_PROXIES:
        yield (
            "QM_SOCKET needs QM_TRUSTED_PROXIES=1 or more: behind a Unix socket, only the proxy "
            "knows the addresses of clients."
        )
    is_loopback = settings.HOST in LOOPBACK
    if settings.ENV == "production" and not (is_loopback or settings.TRUSTED_PROXIES):
        yield (
            f"QM_HOST is {settings.HOST}: production listens on 127.0.0.1, ::1 or QM_SOCKET, with "
            "a proxy in front. For a proxy on another machine, set QM_TRUSTED_PROXIES=1."
        )


def _openid_faults(settings: Settings) -> Iterator[str]:
    together = [PREFIX + name for name in OPENID_TOGETHER]
    missing = [PREFIX + name for name in OPENID_TOGETHER if not getattr(settings, name)]
    if missing and len(missing) < len(together):
        yield f"{', '.join(together)} belong together, but {' and '.join(missing)} is not set."
    dependent = (settings.OPENID_GROUP_ROLES, settings.OPENID_CREATES_ACCOUNTS)
    if missing and (any(dependent) or not settings.STAFF_PASSWORDS):
        yield (
            "QM_OPENID_GROUP_ROLES, QM_OPENID_CREATES_ACCOUNTS and QM_STAFF_PASSWORDS=false need a "
            "provider: set QM_OPENID_ISSUER."
        )
    if settings.OPENID_ISSUER and not _is_issuer(settings.OPENID_ISSUER):
        yield (
            f"QM_OPENID_ISSUER is '{settings.OPENID_ISSUER}'; it must be an https:// address "
            "without a query, or http:// on this machine."
        )
    for pair in settings.OPENID_GROUP_ROLES:
        group, _, role = pair.rpartition("=")
        if not (group.strip() and role.strip()):
            yield f"QM_OPENID_GROUP_ROLES contains '{pair}'; each part must be group=role."


def _is_issuer(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_private = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    return bool(is_private and parts.hostname and not (parts.query or parts.fragment))


def _secret_faults(settings: Settings) -> Iterator[str]:
    secret = settings.SECRET_KEY or ""
    if secret and len(secret) < MIN_SECRET_LENGTH:
        yield f"QM_SECRET_KEY must have {MIN_SECRET_LENGTH} characters or more."
    if "," in secret:
        yield (
            "QM_SECRET_KEY must hold no comma: as a former one, it could not stand in "
            "QM_SECRET_KEY_FALLBACKS."
        )
    if any(len(former) < MIN_SECRET_LENGTH for former in settings.SECRET_KEY_FALLBACKS):
        yield (
            f"QM_SECRET_KEY_FALLBACKS must hold former secrets of {MIN_SECRET_LENGTH} characters "
            "or more, separated by commas; one that has a comma in it cannot stand there."
        )


def _value_faults(settings: Settings) -> Iterator[str]:
    for name, choices in CHOICES.items():
        if getattr(settings, name) not in choices:
            yield f"{PREFIX}{name} must be one of {', '.join(filter(None, choices))}."
    for name, kind in typing.get_type_hints(type(settings)).items():
        if kind in (int, float):
            value = getattr(settings, name)
            minimum, maximum = _bounds(name, kind)
            if not minimum <= value <= maximum:  # also refuses NaN: its comparisons are all false
                bounds = f"at least {minimum} and at most {maximum}"
                yield f"{PREFIX}{name} is {value}; it must be {bounds}."


def _bounds(name: str, kind: type) -> tuple[float, float]:
    minimum = 0 if name in MAY_BE_0 else MINIMA.get(name, 1 if kind is int else 0.001)
    if name.endswith("_SECONDS") and name not in LIFETIMES:
        return minimum, LONGEST_TIMEOUT
    return minimum, MAXIMA.get(name, LARGEST_NUMBER)


def _argon2_faults(settings: Settings) -> Iterator[str]:
    lanes, memory = settings.ARGON2_PARALLELISM, settings.ARGON2_MEMORY_KIB
    if memory < 8 * lanes:
        yield f"QM_ARGON2_MEMORY_KIB is {memory}; argon2 needs 8 for each lane, {8 * lanes}."
    if settings.ARGON2_TIME_COST * memory > MAX_ARGON2_WORK:
        yield (
            f"QM_ARGON2_TIME_COST times QM_ARGON2_MEMORY_KIB must be at most {MAX_ARGON2_WORK}: a "
            "sign-in would take longer than a request may."
        )


# The fields of a player that change while it plays, and that nobody can own, earn or lose.
FREQUENT = ("MapId", "MapName", "X", "Y", "Dir", "Sprite", "Face", "Vitals", "InBank")
# As browsers send it: no path, and no wildcard, which flask-cors would read as a pattern.
ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?", re.ASCII)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
OPENID_TOGETHER = ("OPENID_ISSUER", "OPENID_CLIENT_ID", "OPENID_CLIENT_SECRET")
APPROVAL_RULE = re.compile(r"batches( *> *[0-9]{1,6})?|erasures|roles", re.ASCII)
REQUIRED = {"production": ("SECRET_KEY", "MONGODB_URI")}
CHOICES = {
    "COMPATIBILITY": ("", "intersect"),
    "ENVIRONMENT_COLOUR": ("", "green", "blue", "violet", "amber", "red", "grey"),
    "LOG_FORMAT": ("text", "json"),
    "LOG_LEVEL": ("DEBUG", "INFO", "WARNING", "ERROR"),
    "OPENAPI_VERSION": ("3.0.2", "3.0.3"),
}
# Equal to MOST_WORK in app/users/passwords.py, which config cannot import.
MAX_ARGON2_WORK = 4_000_000
MAY_BE_0 = (
    "AUTH_CACHE_SECONDS",
    "TOTAL_CACHE_SECONDS",
    "CATALOGUE_CACHE_SECONDS",
    "ONLINE_TTL_SECONDS",
    "PASSWORD_CACHE_SECONDS",
    "HASH_LINE",
    "MAIL_LINE",
    "TRUSTED_PROXIES",
    "REQUESTS_PER_MINUTE",
    "RESET_MAILS_PER_HOUR",
    "RESET_MAILS_PER_DAY",
    "MAX_REQUESTS",
    "MAX_REQUESTS_JITTER",
    "HISTORY_DAYS",
    "GAME_EVENT_DAYS",
    "ERASURE_DELAY_DAYS",
)
LARGEST_NUMBER = 2**31 - 1
# One day. pymongo and sockets reject much longer timeouts, with misleading errors.
LONGEST_TIMEOUT = 86_400
LIFETIMES = (
    "ACCESS_TOKEN_SECONDS",
    "REFRESH_TOKEN_SECONDS",
    "RESET_CODE_SECONDS",
    "INVITATION_SECONDS",
    "CONSOLE_SESSION_SECONDS",
    "ONLINE_TTL_SECONDS",
    "FAILURE_WINDOW_SECONDS",
)
# The minimum that mongod accepts.
MINIMA = {"EMBEDDED_CACHE_GB": 0.25}
MAXIMA = {
    **dict.fromkeys(("PORT", "MAIL_PORT", "GAME_PORT"), 65_535),
    **dict.fromkeys(("WORKERS", "THREADS", "HASH_PLACES", "HASH_LINE"), 1000),
    **dict.fromkeys(("MAIL_PLACES", "MAIL_LINE"), 1000),
    **dict.fromkeys(("MONGODB_POOL_SIZE", "EMBEDDED_CACHE_GB", "PAGE_SIZE_MAX"), 10_000),
    **dict.fromkeys(("INVENTORY_SIZE", "BANK_SIZE", "SPELLS_SIZE"), 10_000),
    "CONNECTIONS": 1_000_000,
    "TRUSTED_PROXIES": 100,
    "ARGON2_PARALLELISM": 255,
    "HISTORY_DAYS": 36_500,
    "GAME_EVENT_DAYS": 36_500,
    "ERASURE_DELAY_DAYS": 365,
    "CHARACTER_NAME_SHORTEST": 255,
    "CHARACTER_NAME_LONGEST": 255,
}

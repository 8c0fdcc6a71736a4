"""Loads the settings: defaults, then the environment's class, then QM_<NAME> variables."""

from __future__ import annotations

import difflib
import os
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from config.base import Development, Production, Settings, Testing

PREFIX = "QM_"
MIN_SECRET_LENGTH = 32
# Settings of the last release that did something unless they were 0, and what replaces them.
REMOVED = {
    "ERASURE_DELAY_DAYS": "erasures begin at once; QM_APPROVAL=erasures requires approval.",
}
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
    env = environ.get(f"{PREFIX}ENV", "development").strip()
    if env not in ENVIRONMENTS:
        raise SettingsError(f"QM_ENV is '{env}'; it must be one of {', '.join(ENVIRONMENTS)}.")
    for name, instead in REMOVED.items():
        if environ.get(f"{PREFIX}{name}", "0").strip() not in ("", "0"):
            raise SettingsError(f"{PREFIX}{name} was removed: {instead}")
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


def explain(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each setting its variable, where it comes from, its default and its value."""
    environ = os.environ if environ is None else environ
    for name in typing.get_type_hints(Settings):
        value, default = getattr(settings, name), getattr(Settings, name)
        if environ.get(PREFIX + name, "").strip():
            origin = "environment"
        elif name == "SECRET_KEY" and value is None:
            origin, value = f"{settings.DATA_DIR}/secret_key", MASK
        else:
            origin = "default" if value == default else f"QM_ENV={settings.ENV}"
        yield PREFIX + name, origin, _shown(name, default), _shown(name, value)


def _shown(name: str, value: Any) -> str:
    """Return a value as a variable has it, without its secrets."""
    if value in (None, "", []):
        return ""
    if name in SECRETS:
        return MASK
    if isinstance(value, bool):
        return str(value).lower()
    return PASSWORD.sub(MASK, ",".join(value) if isinstance(value, list) else str(value))


def _from_environ(settings: Settings, environ: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for name, hint in typing.get_type_hints(type(settings)).items():
        text = environ.get(PREFIX + name, "").strip()
        default = getattr(settings, name)
        if text:
            values[name] = _parse(PREFIX + name, text, hint)
        elif PREFIX + name in environ and default not in (None, "", []):
            raise SettingsError(
                f"{PREFIX}{name} is empty; give it a value, or remove it for {default}."
            )
    return values


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
    yield from _text_faults(settings)
    yield from _value_faults(settings)
    yield from _address_faults(settings)
    yield from _combination_faults(settings)
    yield from _argon2_faults(settings)


def _text_faults(settings: Settings) -> Iterator[str]:
    for name in typing.get_type_hints(type(settings)):
        value = getattr(settings, name)
        shape, sentence = SHAPES.get(name, ANY_TEXT)
        is_list = isinstance(value, list)
        for text in value if is_list else [value]:
            if not isinstance(text, str) or not text:
                continue
            if not re.fullmatch(shape, text) or not text.isprintable():
                holds = f" contains '{text}'; each part" if is_list else f" is '{text}'; it"
                # What has no form of a URI may hold its password anywhere.
                is_hidden = name in (*SECRETS, "MONGODB_URI")
                shown = "" if is_hidden else PASSWORD.sub(MASK, holds)
                yield f"{PREFIX}{name}{shown} must {sentence}."
    for name, exists, kind in PATHS:
        path = getattr(settings, name)
        if path and not exists(Path(path)):
            yield f"{PREFIX}{name} names no {kind}: {path}."


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


def _combination_faults(settings: Settings) -> Iterator[str]:
    for group in TOGETHER:
        missing = [PREFIX + name for name in group if not getattr(settings, name)]
        if missing and len(missing) < len(group):
            names, verb = _listed([PREFIX + name for name in group]), "are" if missing[1:] else "is"
            yield f"{names} belong together, but {_listed(missing)} {verb} not set."
    if settings.MAIL_USE_TLS and settings.MAIL_USE_SSL:
        yield "QM_MAIL_USE_TLS and QM_MAIL_USE_SSL exclude each other."
    for name, bound in AT_MOST.items():
        value, most = getattr(settings, name), getattr(settings, bound)
        if most and value > most and value != getattr(type(settings), name):
            yield f"{PREFIX}{name} is {value}; it must be at most {PREFIX}{bound}, which is {most}."
    dependent = (settings.OPENID_GROUP_ROLES, settings.OPENID_CREATES_ACCOUNTS)
    if not settings.OPENID_ISSUER and (any(dependent) or not settings.STAFF_PASSWORDS):
        yield (
            "QM_OPENID_GROUP_ROLES, QM_OPENID_CREATES_ACCOUNTS and QM_STAFF_PASSWORDS=false need a "
            "provider: set QM_OPENID_ISSUER."
        )


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


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
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# As browsers send it: no path, and no wildcard, which flask-cors would read as a pattern.
ORIGIN = r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?"
HOST = r"[\w.-]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(%\w+)?"
MAIL_ADDRESS = r"[^\s<>@,]+@[\w.-]+"
ANY_TEXT = r"(?s:.*)", "hold only printable characters"
# What the text, or each part of a list, must match, and the end of the sentence about another one.
SHAPES = {
    "SECRET_KEY": (
        f"[^,]{{{MIN_SECRET_LENGTH},}}",
        f"have {MIN_SECRET_LENGTH} characters or more, and no comma: as a former one, it could not "
        "stand in QM_SECRET_KEY_FALLBACKS",
    ),
    "SECRET_KEY_FALLBACKS": (
        f".{{{MIN_SECRET_LENGTH},}}",
        f"hold former secrets of {MIN_SECRET_LENGTH} characters or more, separated by commas; one "
        "that has a comma in it cannot stand there",
    ),
    "MONGODB_URI": (
        r"(mongodb(\+srv)?|mongomock)://.*",
        "begin with mongodb:// or mongodb+srv://",
    ),
    "MONGODB_DATABASE": (
        r'[^/\\. "$*<>:|?]{1,63}',
        'be a name of at most 63 characters, without spaces and any of / \\ . " $ * < > : | ?',
    ),
    "OPERATOR": (".{1,255}", "be at most 255 printable characters"),
    "HOST": (HOST, "be an address or a host name"),
    "MAIL_SERVER": (HOST, "be an address or a host name; QM_MAIL_PORT is its port"),
    "MAIL_DEFAULT_SENDER": (
        rf'{MAIL_ADDRESS}|("[^"]*"|[^<>@,"]*) *<{MAIL_ADDRESS}>',
        "be a mail address, such as Quartermaster <noreply@example.com>",
    ),
    "CORS_ORIGINS": (ORIGIN, "be an origin such as https://example.com"),
    "PUBLIC_URL": (ORIGIN, "be like https://qm.example.com"),
    "UNRECORDED_FIELDS": (
        "|".join(FREQUENT),
        f"be one of {', '.join(FREQUENT)}",
    ),
    "APPROVAL": (
        r"batches( *> *[0-9]{1,6})?|erasures|roles",
        "be batches>N with a number of rows, erasures or roles",
    ),
    "OPENID_ISSUER": (
        r"(https://([\w.-]+|\[[0-9a-f:]+\])|http://(127\.0\.0\.1|\[::1\]|localhost))(:[0-9]{1,5})?"
        r"(/[^?#]*)?",
        "be an https:// address without a query, or http:// on this machine",
    ),
    "OPENID_GROUP_ROLES": (r".*\S.*=.*[^\s=].*", "be group=role"),
}
PATHS = (("MAIL_CA_FILE", Path.is_file, "file"), ("METRICS_DIR", Path.is_dir, "folder"))
SECRETS = ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "MAIL_PASSWORD", "OPENID_CLIENT_SECRET")
MASK = "***"
# In a URI: up to its last @, since a password may hold unescaped signs, and in the query.
PASSWORD = re.compile(r"(?<=://).*(?=@)|(?<=password=)[^&]*|(?<=token:)[^&,]*", re.IGNORECASE)
TOGETHER = (
    ("OPENID_ISSUER", "OPENID_CLIENT_ID", "OPENID_CLIENT_SECRET"),
    ("MAIL_USERNAME", "MAIL_PASSWORD"),
)
# A default that is larger is reduced. No bound: for ever.
AT_MOST = {
    "GAME_EVENT_DAYS": "HISTORY_DAYS",
    "CHARACTER_NAME_SHORTEST": "CHARACTER_NAME_LONGEST",
}
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
    "CHARACTER_NAME_SHORTEST": 255,
    "CHARACTER_NAME_LONGEST": 255,
}

import inspect
import re
import typing
from itertools import pairwise

import pytest

import config
from config import SettingsError
from config import base as base_module

SECRET = "x" * 32
OPENID = {
    "OPENID_ISSUER": "https://login.example.com",
    "OPENID_CLIENT_ID": "quartermaster",
    "OPENID_CLIENT_SECRET": "secret",
}


def load(**environ):
    return config.load({f"QM_{name}": value for name, value in environ.items()})


def test_every_setting_of_text_declares_what_it_may_hold():
    """Anything printable is right for names and subjects, and for what others judge."""
    free = {
        *("MONGOD", "DATA_DIR", "SOCKET", "POWER_ROLE", "MAIL_USERNAME", "MAIL_PASSWORD"),
        *("RESET_SUBJECT", "INVITATION_SUBJECT", "GAME_NAME", "ENVIRONMENT_NAME", "API_TITLE"),
        *("OPENID_CLIENT_ID", "OPENID_CLIENT_SECRET", "OPENID_GROUPS_CLAIM"),
    }
    texts = {
        name
        for name, hint in typing.get_type_hints(base_module.Settings).items()
        if hint not in (int, float, bool)
    }
    declared = {*config.CHOICES, *config.SHAPES, *(name for name, *_ in config.PATHS)}
    assert texts - declared - {"ENV"} == free


def test_every_setting_has_a_line_of_comment_and_a_type():
    lines = inspect.getsource(base_module.Settings).splitlines()
    hints = typing.get_type_hints(base_module.Settings)
    for above, line in pairwise(lines):
        if match := re.match(r"    ([A-Z][A-Z0-9_]*)\b", line):
            assert above.strip().startswith("#"), line
            assert match[1] in hints


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PORT", "8001", 8001),
        ("AUTH_CACHE_SECONDS", "0", 0.0),
        ("MONGODB_SELECTION_SECONDS", "1.5", 1.5),
        ("MONGODB_URI", "mongodb://db", "mongodb://db"),
        ("PROVIDE_AUTOMATIC_OPTIONS", "yes", True),
        ("SECRET_KEY_FALLBACKS", f"{SECRET}, {SECRET[::-1]}", [SECRET, SECRET[::-1]]),
        ("MAIL_SERVER", " ", None),
        ("CORS_ORIGINS", "", []),
        ("HOST", "fe80::1%eth0", "fe80::1%eth0"),
        ("MAIL_SERVER", "::1", "::1"),
        ("MAIL_DEFAULT_SENDER", '"Rósa, Q." <q@example.com>', '"Rósa, Q." <q@example.com>'),
        ("MAIL_DEFAULT_SENDER", "q@localhost", "q@localhost"),
    ],
)
def test_any_setting_is_overridden_by_its_variable(name, text, value):
    assert getattr(load(**{name: text}), name) == value


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        *(
            (
                {"UNRECORDED_FIELDS": f"X,{name}"},
                f"QM_UNRECORDED_FIELDS contains '{name}'; each part must be one of MapId, MapName, "
                "X, Y, Dir, Sprite, Face, Vitals, InBank.",
            )
            for name in ("Inventory", "x")
        ),
        *(
            (
                {"CORS_ORIGINS": f"https://a.example, {text}"},
                f"QM_CORS_ORIGINS contains '{text}'; each part must be an origin such as "
                "https://example.com.",
            )
            for text in ("*", "https://*.example", "https://a.example/", "a.example", "null")
        ),
        *(
            (
                {"MAIL_DEFAULT_SENDER": text},
                f"QM_MAIL_DEFAULT_SENDER is '{text}'; it must be a mail address, such as "
                "Quartermaster <noreply@example.com>.",
            )
            for text in ("<q@example.com", "q@", "a@b.example, c@d.example")
        ),
        *(
            ({name: text}, f"QM_{name} is '{text}'; it must be an address or a host name{more}.")
            for name, more in (("HOST", ""), ("MAIL_SERVER", "; QM_MAIL_PORT is its port"))
            for text in ("smtp://relay", "relay:587", "a relay")
        ),
        *(
            (
                {"MONGODB_URI": uri},
                "QM_MONGODB_URI must begin with mongodb:// or mongodb+srv://.",
            )
            for uri in ("postgres://x", "keeper:secret@localhost:27017")
        ),
        *(
            ({name: " "}, f"QM_{name} is empty; give it a value, or remove it for {default}.")
            for name, default in (("DATA_DIR", "var"), ("PORT", 8000))
        ),
        (
            {"MONGODB_DATABASE": "a/b"},
            "QM_MONGODB_DATABASE is 'a/b'; it must be a name of at most 63 characters, without "
            'spaces and any of / \\ . " $ * < > : | ?.',
        ),
        ({"GAME_NAME": "a\nb"}, "QM_GAME_NAME is 'a\nb'; it must hold only printable characters."),
        ({"METRICS_DIR": "/nowhere"}, "QM_METRICS_DIR names no folder: /nowhere."),
        (
            {"MAIL_USERNAME": "quartermaster"},
            "QM_MAIL_USERNAME and QM_MAIL_PASSWORD belong together, but QM_MAIL_PASSWORD is not "
            "set.",
        ),
        (
            {"GAME_EVENT_DAYS": "9999"},
            "QM_GAME_EVENT_DAYS is 9999; it must be at most QM_HISTORY_DAYS, which is 400.",
        ),
        (
            {"CHARACTER_NAME_SHORTEST": "41"},
            "QM_CHARACTER_NAME_SHORTEST is 41; it must be at most QM_CHARACTER_NAME_LONGEST, which "
            "is 40.",
        ),
        ({"PORT": "many"}, "QM_PORT is 'many'; it must be a whole number."),
        ({"PORT": "70000"}, "QM_PORT is 70000; it must be at least 1 and at most 65535."),
        (
            {"AUTH_CACHE_SECONDS": "nan"},
            "QM_AUTH_CACHE_SECONDS is nan; it must be at least 0 and at most 86400.",
        ),
        (
            {"MONGODB_SELECTION_SECONDS": "1e9"},
            "QM_MONGODB_SELECTION_SECONDS is 1000000000.0; it must be at least 0.001 and at most "
            "86400.",
        ),
        ({"ENV": "prod"}, "QM_ENV is 'prod'; it must be one of development, production, testing."),
        ({"LOG_LEVEL": "LOUD"}, "QM_LOG_LEVEL must be one of DEBUG, INFO, WARNING, ERROR."),
        *(
            (
                {"SECRET_KEY": secret},
                "QM_SECRET_KEY must have 32 characters or more, and no comma: as a former one, it "
                "could not stand in QM_SECRET_KEY_FALLBACKS.",
            )
            for secret in ("short", f"{SECRET},more")
        ),
        (
            {"SECRET_KEY": SECRET, "SECRET_KEY_FALLBACKS": f"{SECRET},and more"},
            "QM_SECRET_KEY_FALLBACKS must hold former secrets of 32 characters or more, separated "
            "by commas; one that has a comma in it cannot stand there.",
        ),
        ({"OPENAPI_VERSION": "9"}, "QM_OPENAPI_VERSION must be one of 3.0.2, 3.0.3."),
        *(
            (
                {"OPERATOR": name},
                f"QM_OPERATOR is '{name}'; it must be at most 255 printable characters.",
            )
            for name in ("x" * 256, "a\nb")
        ),
        ({"MAIL_CA_FILE": "/nowhere"}, "QM_MAIL_CA_FILE names no file: /nowhere."),
        (
            {"ARGON2_MEMORY_KIB": "15", "ARGON2_PARALLELISM": "2"},
            "QM_ARGON2_MEMORY_KIB is 15; argon2 needs 8 for each lane, 16.",
        ),
        (
            {"ARGON2_TIME_COST": "99999999"},
            "QM_ARGON2_TIME_COST times QM_ARGON2_MEMORY_KIB must be at most 4000000: a sign-in "
            "would take longer than a request may.",
        ),
        (
            {"SOCKET": "/run/app.sock"},
            "QM_SOCKET needs QM_TRUSTED_PROXIES=1 or more: behind a Unix socket, only the proxy "
            "knows the addresses of clients.",
        ),
        *(
            (
                {name: value for name, value in OPENID.items() if name not in missing},
                "QM_OPENID_ISSUER, QM_OPENID_CLIENT_ID and QM_OPENID_CLIENT_SECRET belong "
                f"together, but {sentence} not set.",
            )
            for missing, sentence in (
                (["OPENID_CLIENT_SECRET"], "QM_OPENID_CLIENT_SECRET is"),
                (
                    ["OPENID_CLIENT_ID", "OPENID_CLIENT_SECRET"],
                    "QM_OPENID_CLIENT_ID and QM_OPENID_CLIENT_SECRET are",
                ),
            )
        ),
        *(
            (
                {name: value},
                "QM_OPENID_GROUP_ROLES, QM_OPENID_CREATES_ACCOUNTS and QM_STAFF_PASSWORDS=false "
                "need a provider: set QM_OPENID_ISSUER.",
            )
            for name, value in (
                ("OPENID_GROUP_ROLES", "leads=support"),
                ("OPENID_CREATES_ACCOUNTS", "yes"),
                ("STAFF_PASSWORDS", "no"),
            )
        ),
        *(
            (
                {**OPENID, "OPENID_ISSUER": issuer},
                f"QM_OPENID_ISSUER is '{issuer}'; it must be an https:// address without a query, "
                "or http:// on this machine.",
            )
            for issuer in (
                *("login.example.com", "http://login.example.com", "https://", "ftp://localhost"),
                *("https://login.example.com/?a=b", "https://login.example.com/#top", "https://["),
            )
        ),
        *(
            (
                {**OPENID, "OPENID_GROUP_ROLES": f"leads=support,{pair}"},
                f"QM_OPENID_GROUP_ROLES contains '{pair}'; each part must be group=role.",
            )
            for pair in ("leads", "=support", "leads=")
        ),
        (
            {"ENV": "production"},
            "The production environment cannot start without QM_SECRET_KEY and QM_MONGODB_URI.",
        ),
        (
            {"ENV": "production", "MONGODB_URI": "mongodb://db"},
            "The production environment cannot start without QM_SECRET_KEY.",
        ),
    ],
)
def test_what_does_not_allow_a_start_is_said_in_a_sentence(environ, sentence):
    with pytest.raises(SettingsError) as caught:
        load(**environ)
    assert str(caught.value) == sentence


def test_what_allows_a_start():
    assert load().ENV == "development"
    production = load(ENV="production", SECRET_KEY=SECRET, MONGODB_URI="mongodb://db")
    assert production.LOG_FORMAT == "json"
    for issuer in (
        "https://login.example.com/realms/staff",
        "http://localhost:8080",
        "http://[::1]",
    ):
        load(**{**OPENID, "OPENID_ISSUER": issuer}, STAFF_PASSWORDS="false")
    load(ERASURE_DELAY_DAYS="0")


def test_a_removed_setting_is_refused_with_what_to_use_instead():
    sentence = r"QM_ERASURE_DELAY_DAYS was removed: .*QM_APPROVAL=era"
    with pytest.raises(SettingsError, match=sentence):
        load(ERASURE_DELAY_DAYS="7")


def test_a_variable_that_is_no_setting_is_pointed_out():
    environ = {"QM_PROT": "8001", "QM_PORT": "8001", "QM_XYZZY": "", "PATH": "x"}
    assert config.unknown_variables(environ) == [
        "QM_PROT is not a setting; did you mean QM_PORT?",
        "QM_XYZZY is not a setting.",
    ]


def explained(**environ):
    environ = {f"QM_{name}": value for name, value in environ.items()}
    return {name: row for name, *row in config.explain(config.load(environ), environ)}


def test_settings_are_explained_without_a_secret():
    secret = f"{SECRET}7"
    given = {
        **dict.fromkeys(("SECRET_KEY", "SECRET_KEY_FALLBACKS"), secret),
        **{"MAIL_USERNAME": "qm", "MAIL_PASSWORD": secret},
        **{**OPENID, "OPENID_CLIENT_SECRET": secret},
    }
    for uri, shown in (
        ("mongodb://k:{}@db/qm", "mongodb://***@db/qm"),
        ("mongodb://k:a/b?{}@c@db/qm", "mongodb://***@db/qm"),
        ("mongodb://k/{}@db/qm", "mongodb://***@db/qm"),
        ("mongodb://db/?tlsCertificateKeyFilePassword={}&w=1", None),
        ("mongodb://db/?authMechanismProperties=AWS_SESSION_TOKEN:{},A:b", None),
    ):
        rows = explained(ENV="production", MONGODB_URI=uri.format(secret), **given)
        assert secret not in str(rows)
        assert rows["QM_MONGODB_URI"] == ["environment", "", shown or uri.format("***")]
    for name in config.SECRETS:
        assert rows[f"QM_{name}"] == ["environment", "", "***"]
    assert rows["QM_LOG_FORMAT"] == ["QM_ENV=production", "text", "json"]
    assert rows["QM_CONSOLE"] == ["default", "true", "true"]
    rows = explained(CORS_ORIGINS="http://a.example, http://b.example", POWER_ROLE="")
    assert rows["QM_CORS_ORIGINS"] == ["environment", "", "http://a.example,http://b.example"]
    assert rows["QM_POWER_ROLE"] == ["default", "", ""]
    assert rows["QM_SECRET_KEY"] == ["var/secret_key", "", "***"]


def test_every_setting_that_is_named_like_a_secret_is_one():
    named = {
        name
        for name, hint in typing.get_type_hints(base_module.Settings).items()
        if re.search("SECRET|PASSWORD|TOKEN", name) and hint not in (int, float, bool)
    }
    assert named == set(config.SECRETS)

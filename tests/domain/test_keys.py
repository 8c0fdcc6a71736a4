"""Ids, names and addresses, and the keys by which two spellings are the same."""

import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from app.core.naming import (
    NAME_LENGTH,
    Lookup,
    domain_as_sent,
    email_as_sent,
    name_key,
    name_tails,
    parse_guid,
)
from app.users.domain import is_email, is_username

GUID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


def test_a_guid_is_36_characters_in_any_case():
    assert parse_guid(GUID.upper()) == GUID
    others = ["", "guid", GUID.replace("-", ""), f"{{{GUID}}}", f"{GUID} ", f"{GUID}\n", GUID[:-1]]
    assert [text for text in [*others, "๐" * 36] if parse_guid(text) is not None] == []


def test_a_key_that_parses_as_a_guid_is_an_id_and_any_other_is_a_name():
    assert Lookup.parse(GUID.upper()) == (GUID.upper(), GUID, None)
    assert Lookup.parse("Straße") == ("Straße", None, "strasse")


def test_a_million_accents_take_no_time():
    """Joining them to their letter takes minutes, so what is too long for a name is left alone."""
    name, started = "A" + "\u0301\u0323" * 500_000, time.monotonic()
    assert name_key(name).startswith("a\u0301\u0323")
    assert not is_username(name)
    assert time.monotonic() - started < 20


DOMAINS = {
    # IDNA 2003 made strasse.de of it, which may be somebody else's.
    **dict.fromkeys(("straße.de", "STRAẞE.de", "XN--STRAE-OQA.de"), "xn--strae-oqa.de"),
    **{"οδος.gr": "xn--pxavbm.gr", "क्\u200dष.com": "xn--11b2ezcw70k.com"},
    **{"نامه\u200cای.com": "xn--mgba3gch31f060k.com", "ΟΔΟΣ.gr": "xn--pxavbq.gr"},
    **dict.fromkeys(("BÜCHER.example", "bücher。example"), "xn--bcher-kva.example"),
    **{"Example.COM": "example.com", "r3---sn.example.com": "r3---sn.example.com"},
    # A joiner where none belongs, symbols, empty or long labels: no mail goes there.
    **dict.fromkeys(("a\u200db.com", "☃.net", "ü..co", "ü" * 64 + ".de", "ü" * 1_000_000), ""),
    **dict.fromkeys(("a..co", "a" * 64 + ".de", "¹.", ""), ""),
}


def test_a_domain_is_spelled_by_the_rules_that_registries_have_now():
    for domain, sent in DOMAINS.items():
        short = ascii(domain)[:40]
        assert domain_as_sent(domain) == sent, short
        assert email_as_sent(f"gina@{domain}") == (f"gina@{sent}" if sent else ""), short
        assert is_email(f"gina@{domain}") <= bool(sent), short


@given(st.text(max_size=30))
def test_no_domain_is_sent_as_two(domain):
    sent = domain_as_sent(domain)
    assert sent.isascii()
    assert domain_as_sent(sent) == sent


@given(st.text(max_size=40))
def test_names_compare_without_composition_and_the_key_of_a_key_is_that_key(name):
    composed = unicodedata.normalize("NFC", name)
    key = name_key(composed)
    assert name_key(unicodedata.normalize("NFD", composed)) == name_key(key) == key


def test_names_compare_without_case():
    # Folding takes some of these letters apart.
    names = ["élan", "e\u0301lan", "\u0390\u03c1\u03b7\u03c2", "\u03b0\u03b8", "\u01f0ack"]
    for name in [*names, "\u1e96ana", "\u1f50\u03c2", "Stra\u00dfe\u0301", "ǖ" * NAME_LENGTH]:
        apart = unicodedata.normalize("NFD", name)
        assert name_key(name.upper()) == name_key(name) == name_key(apart), name


@given(st.text(min_size=3), st.data())
def test_any_three_letters_or_more_of_a_name_begin_one_of_its_tails(key, data):
    start = data.draw(st.integers(0, len(key) - 3))
    end = data.draw(st.integers(start + 3, len(key)))
    assert any(tail.startswith(key[start:end]) for tail in name_tails(key))


def test_a_name_too_short_to_be_searched_has_no_tails():
    assert name_tails("ab") == []

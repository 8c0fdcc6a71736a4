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


def test_a_guid_is_served_in_lower_case_whatever_case_it_came_in():
    assert parse_guid(GUID.upper()) == GUID


def test_what_is_not_written_as_a_guid_is_none():
    others = ["", "guid", GUID.replace("-", ""), f"{{{GUID}}}", f"{GUID} ", f"{GUID}\n", GUID[:-1]]
    assert [text for text in [*others, "๐" * 36] if parse_guid(text) is not None] == []


def test_a_key_that_parses_as_a_guid_is_an_id_and_any_other_is_a_name():
    assert Lookup.parse(GUID.upper()) == (GUID.upper(), GUID, None)
    assert Lookup.parse("Straße") == ("Straße", None, "strasse")


def test_a_million_accents_take_no_time():
    """Joining them to their letter takes minutes, so what is too long for a name is left alone."""
    started = time.monotonic()
    assert name_key("A" + "\u0301\u0323" * 500_000).startswith("a\u0301\u0323")
    assert not is_username("A" + "\u0301\u0323" * 500_000)
    assert time.monotonic() - started < 20


def test_a_name_as_long_as_names_can_be_is_the_same_with_its_accents_apart():
    name = "ǖ" * NAME_LENGTH
    assert name_key(unicodedata.normalize("NFD", name)) == name_key(name)


DOMAINS = [
    # IDNA 2003 made strasse.de of it, which may be somebody else's.
    *(("straße.de", "xn--strae-oqa.de"), ("Straße.DE", "xn--strae-oqa.de")),
    *(("STRAẞE.de", "xn--strae-oqa.de"), ("XN--STRAE-OQA.de", "xn--strae-oqa.de")),
    *(("οδος.gr", "xn--pxavbm.gr"), ("ΟΔΟΣ.gr", "xn--pxavbq.gr")),
    *(("نامه\u200cای.com", "xn--mgba3gch31f060k.com"), ("क्\u200dष.com", "xn--11b2ezcw70k.com")),
    *(
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("bücher。example", "xn--bcher-kva.example"),
    ),
    *(("Example.COM", "example.com"), ("r3---sn.example.com", "r3---sn.example.com")),
    # A joiner where none belongs, symbols, empty or long labels: no mail goes there.
    *(("a\u200db.com", ""), ("☃.net", ""), ("ü..co", ""), ("ü" * 64 + ".de", "")),
    *(("a..co", ""), ("a" * 64 + ".de", ""), ("¹.", ""), ("ü" * 1_000_000, ""), ("", "")),
]


def test_a_domain_is_spelled_by_the_rules_that_registries_have_now():
    for domain, sent in DOMAINS:
        short = ascii(domain)[:40]
        assert domain_as_sent(domain) == sent, short
        assert email_as_sent(f"gina@{domain}") == (f"gina@{sent}" if sent else ""), short
        assert is_email(f"gina@{domain}") <= bool(sent), short


@given(st.text(max_size=30))
def test_no_domain_is_sent_as_two(domain):
    sent = domain_as_sent(domain)
    assert sent.isascii()
    assert domain_as_sent(sent) == sent


@given(st.text())
def test_names_compare_without_case_and_without_composition(name):
    decomposed = unicodedata.normalize("NFD", unicodedata.normalize("NFC", name))
    assert name_key(decomposed) == name_key(unicodedata.normalize("NFC", name))


def test_two_spellings_of_one_name_have_one_key():
    assert name_key("ÉLAN") == name_key("élan") == name_key("E\u0301lan")


@given(st.text(max_size=40))
def test_the_key_of_a_key_is_that_key(name):
    assert name_key(name_key(name)) == name_key(name)


def test_a_letter_that_folding_takes_apart_is_the_same_in_capitals():
    names = ["\u0390\u03c1\u03b7\u03c2", "\u03b0\u03b8", "\u01f0ack", "\u1e96ana", "\u1f50\u03c2"]
    for name in [*names, "Stra\u00dfe\u0301"]:
        assert name_key(name.upper()) == name_key(name), name


@given(st.text(min_size=3), st.data())
def test_any_three_letters_or_more_of_a_name_begin_one_of_its_tails(key, data):
    start = data.draw(st.integers(0, len(key) - 3))
    end = data.draw(st.integers(start + 3, len(key)))
    assert any(tail.startswith(key[start:end]) for tail in name_tails(key))


def test_a_name_too_short_to_be_searched_has_no_tails():
    assert name_tails("ab") == []

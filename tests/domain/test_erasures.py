"""Erased people: their names are masked in texts."""

from __future__ import annotations

import pytest

from app.privacy.domain import Person, mask, pattern_of, texts_naming, texts_without


@pytest.mark.parametrize(
    ("name", "text", "masked"),
    [
        (
            "Zoe",
            "as ZOE asked, (zoe), _Zoe_ and Zoe.",
            "as (erased) asked, ((erased)), _(erased)_ and (erased).",
        ),
        ("Zoe", "no Zoes, antizoe", "no Zoes, antizoe"),
        ("Zoe Bar", "Zoe \t bar\nZoe, Bar", "(erased)\nZoe, Bar"),
        ("-Zoe-", "a -zoe- and Zoe", "a (erased) and Zoe"),
        ("zoe.bar@mail.example", "to Zoe.Bar@mail.example!", "to (erased)!"),
        ("E\u0301loi\u0308se", "\u00c9lo\u00efse", "(erased)"),
        ("Straße", "Große STRASSE 3, straße", "Große (erased) 3, (erased)"),
        ("STRASSE", "in der Straße", "in der (erased)"),
        ("\u0390", "\u03aa\u0301!", "(erased)!"),
        ("Zoe", "Zo\u00eb, Zoe\u0308, heißt ZOE", "Zo\u00eb, Zo\u00eb, heißt (erased)"),
        ("Cafe", "00000000-0000-cafe-0000-000000000001", "00000000-0000-cafe-0000-000000000001"),
    ],
)
def test_a_name_is_masked_as_whole_words_as_the_service_compares_names(name, text, masked):
    assert mask(text, pattern_of([name])) == masked


@pytest.mark.parametrize("stored", ["zoe@straße.example", "zoe@xn--strae-oqa.example"])
@pytest.mark.parametrize("typed", ["Zoe@Straße.EXAMPLE", "zoe@XN--strae-oqa.example"])
def test_an_address_is_masked_with_its_domain_in_unicode_and_in_ascii(stored, typed):
    names = pattern_of(texts_naming([{"Email": None, "FormerEmails": [stored]}]))
    assert mask(f"to {typed}.", names) == "to (erased)."


def test_names_are_masked_as_keys_too():
    names = ["Anna", "Berta"]
    result = {"Result": {"Anna": 1, "Of annas": 5, "In": [{"berta said": 4}]}}
    masked = {"Result": {"(erased)": 1, "Of annas": 5, "In": [{"(erased) said": 4}]}}
    person = Person("", [], names, pattern_of(names))
    assert texts_without(result, person, ["Result", "Other", "Result.None"]) == masked

"""What docs/examples says of name keys for other languages, made from app.core.naming.

    python -m tests.name_vectors

writes name_keys.json and case_folding.txt anew. The Python that writes them decides which Unicode
they are of; letters that a later one has added are in neither.
"""

import json
import sys
import unicodedata
from pathlib import Path

from app.core.naming import email_key, name_key, name_tails

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
# By name, what each shows. The escapes keep editors from composing what must not be composed.
NAMES = {
    "aladric": "lower case stays; the tails are all ends of three characters or more",
    "Aladric": "ASCII capitals fold",
    "Li": "two characters: a key without tails",
    "Bo\u00eb": "three characters: one tail",
    "Sir Bob-1_x": "blanks, digits and signs stay, and are in tails",
    " Ann ": "blanks at the ends are a part of the name",
    "O'Neill": "so is an apostrophe",
    "Zo\u00cb": "a composed capital folds",
    "ZOE\u0308": "a decomposed one is composed first, and has the same key",
    "Zo\u1eb8\u0302": "marks in an order of their own are composed to one letter",
    "Zo\u1ec6": "which is this one",
    "\u212bngstr\u00f6m": "the \u00c5ngstr\u00f6m sign is the letter \u00c5",
    "\u2126mega": "and the ohm sign the letter omega",
    "\u212aelvin": "the kelvin sign folds to a plain k",
    "Stra\u00dfe": "\u00df folds to ss: full folding, which lower case does not do",
    "STRASSE": "which has the same key",
    "STRA\u1e9eE": "and so has the capital \u1e9e",
    "\u0130stanbul": "the Turkish dotted capital folds to i and a combining dot: two characters",
    "I\u015f\u0131k": "a capital I folds to i, never to the dotless \u0131, which stays",
    "\u0131\u015f\u0131k": "so this is another name",
    "i\u0307stanbul": "i and a combining dot stay two characters, and equal the dotted capital",
    "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3": "capital sigma folds to \u03c3 everywhere",
    "\u03bf\u03b4\u03c5\u03c3\u03c3\u03b5\u03c5\u03c2": "and so does the final sigma \u03c2",
    "\u0390\u03c1\u03b7\u03c2": "this iota folds to three characters, which are composed again",
    "\u0399\u0308\u0301\u03c1\u03b7\u03c2": "so its capital, of two characters, is the same name",
    "\u1fd3\u03c1\u03b7\u03c2": "its twin is composed to it first",
    "\u1fb3\u03b4\u03b7\u03c2": "a letter with iota subscript folds to two letters",
    "\u1f88\u03b4\u03b7\u03c2": "and so does its capital",
    "\u03b1\u0345\u03b4\u03b7\u03c2": "a combining iota subscript is composed first",
    "\u01f0ack": "j with caron folds to j and a combining caron, and is composed again",
    "j\u030cack": "so it equals the spelling that was two characters, which is composed first",
    "\u0149dlovu": "the n with apostrophe folds to an apostrophe letter and n",
    "\u01c4ivo": "a digraph in capitals folds to the small digraph, not to two letters",
    "\u01c5ivo": "and so does its title case",
    "\ufb00ion": "a ligature folds to its letters",
    "e\ufb03gy": "one of three letters to three",
    "\ufb05yx": "long s and t to st",
    "\u017fam": "the long s to s",
    "\u00b5maze": "the micro sign to the Greek mu",
    "\u0587van": "the Armenian ligature to two letters",
    "\u0416\u0443\u043a": "Cyrillic capitals fold",
    "\u0418\u0306\u043e\u0434": "and are composed first",
    "\u1c80\u043e\u043b\u044f": "an old form of a Cyrillic letter folds to the usual one",
    "\u10a0\u10d0\u10e0\u10d8": "a Georgian capital of the old script folds to its small letter",
    "\u1c90\u10d0\u10e0\u10d8": "one of the modern script to the letter without case",
    "\u13a0\u13a1\u13a2": "Cherokee folds to capitals: these stay",
    "\uab70\uab71\uab72": "and these become those; some libraries have it the other way round",
    "\u13f8\u13f9\u13fa": "the later small letters too",
    "\ud55c\uae00\uc655": "Hangul syllables stay",
    "\u1112\u1161\u11ab\u1100\u1173\u11af\u110b\u116a\u11bc": "their parts are composed to them",
    "\u304b\u3099\u304f": "a kana and its voicing mark are composed",
    "\uff21\uff22\uff23": "full-width capitals fold, and stay full-width",
    "\u2160\u2161\u2162": "Roman numerals fold",
    "\u24b6\u24b7\u24b8": "circled letters fold",
    "\u05e9\u05bc\u05c1\u05d0": "Hebrew points come into their order",
    "\u0958\u092e\u0932": "some composed letters are decomposed by NFC: it excludes them",
    "\u1b05\u1b35\u1b13": "a Balinese letter and its vowel are composed",
    "\u1b06\u1b13": "to this letter, which stays",
    "\U00010400\U00010401\U00010402": "Deseret capitals, beyond 16 bits, fold as well",
    "X\U00010400Y": "three characters, though four units of UTF-16: one tail",
    "\U0001f409\U0001f409": "emoji stay; two characters have no tails, though four units of UTF-16",
    "\U0001f468\u200d\U0001f33e Bo": "joiners are characters of their own, in tails too",
    "\u1e9b\u0323": "a long s with two dots: composed first, then folded, and not composed again",
}
ADDRESSES = {
    "nova@example.com": "an address in ASCII is its own key",
    "Nova.Smith+game@Example.COM": "in lower case",
    "nova@M\u00dcNCHEN.de": "a domain in another script: IDNA 2008 with the mapping of UTS 46",
    "nova@mu\u0308nchen.de": "composed and in lower case first",
    "nova@stra\u00dfe.de": "\u00df stays in a domain: straße.de is not strasse.de",
    "nova@\uff45xample.com": "full-width letters become plain ones",
    "nova@xn--mnchen-3ya.de": "a domain that is encoded already stays",
    "Ni\u00d1o@example.com": "the part before the @ has the key of a name",
    "nova": "what is no address has a key as well",
}


def name_keys():
    """Return the content of name_keys.json, with a line for each vector, in ASCII."""
    names = [
        {"Name": name, "Key": name_key(name), "Tails": name_tails(name_key(name)), "Shows": shows}
        for name, shows in NAMES.items()
    ]
    addresses = [
        {"Email": email, "Key": email_key(email), "Shows": shows}
        for email, shows in ADDRESSES.items()
    ]
    parts = {"Names": names, "Addresses": addresses}
    members = ",".join(f'\n"{name}": [{lines(part)}\n]' for name, part in parts.items())
    return f"{{{members}\n}}\n"


def lines(records):
    return ",".join(f"\n  {json.dumps(record)}" for record in records)


def case_folding():
    """Yield the lines of case_folding.txt, in the format of Unicode's CaseFolding.txt."""
    yield "# How characters fold, in the format of Unicode's CaseFolding.txt, which will do too:"
    yield "# a character; C for a folding to one character, F to several; what it folds to."
    yield f"# Unicode {unicodedata.unidata_version}"
    for code in range(sys.maxunicode + 1):
        folded = chr(code).casefold()
        if folded != chr(code):
            codes = " ".join(f"{ord(character):04X}" for character in folded)
            yield f"{code:04X}; {'C' if len(folded) == 1 else 'F'}; {codes};"


if __name__ == "__main__":
    (EXAMPLES / "name_keys.json").write_text(name_keys())
    (EXAMPLES / "case_folding.txt").write_text("".join(f"{line}\n" for line in case_folding()))

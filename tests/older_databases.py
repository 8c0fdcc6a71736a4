"""Databases as former versions of the program made them; see tests/older/README.rst."""

import json
from pathlib import Path

from bson import json_util

FOLDER = Path(__file__).parent / "older"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
OPTIONS = json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.RELAXED)


def key_scopes():
    """Return by route the sets of names that opened it for a key."""
    openers, opened_by = {}, []
    for line in (FOLDER / "key_scopes.txt").read_text().splitlines():
        if line.startswith(" "):
            openers[line.strip()] = opened_by
        else:
            opened_by = [set(names.split("+")) for names in line.split()]
    return openers


def read(name):
    """Return the collections of an older database, with validators, indexes and documents."""
    return json_util.loads((FOLDER / f"{name}.json").read_text(), json_options=OPTIONS)


def answers(name):
    """Return what the release answered of its database."""
    return json.loads((FOLDER / "answers" / f"{name}.json").read_text())


def make(db, name):
    """Make a database the way the program of its time did, and return its documents."""
    collections = read(name)
    for kind, plan in collections.items():
        db.create_collection(kind, **plan["options"])
        if plan["documents"]:
            # A game may have written some of it.
            db[kind].insert_many(plan["documents"], bypass_document_validation=True)
        if plan["indexes"]:
            db.command("createIndexes", kind, indexes=plan["indexes"])
    return {kind: plan["documents"] for kind, plan in collections.items()}

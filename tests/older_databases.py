"""Databases as former versions of the program made them; see tests/older/README.rst."""

from pathlib import Path

from bson import json_util

FOLDER = Path(__file__).parent / "older"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
OPTIONS = json_util.JSONOptions(tz_aware=True, json_mode=json_util.JSONMode.RELAXED)
# Known in clear; its hash is in each of the files. It is the first user's, who may use the API.
REFRESH_TOKEN = "00000000-0000-4000-8000-000000000002"


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


def make(db, name):
    """Make a database the way the program of its time did, and return its documents."""
    collections = read(name)
    for kind, plan in collections.items():
        db.create_collection(kind, validator={"$jsonSchema": plan["validator"]})
        db.command("collMod", kind, validationLevel="strict")
        if plan["indexes"]:
            db.command("createIndexes", kind, indexes=plan["indexes"])
        if plan["documents"]:
            db[kind].insert_many(plan["documents"])
    return {kind: plan["documents"] for kind, plan in collections.items()}

"""Importing records."""

from __future__ import annotations

from app.operations import ANY, Operation

IMPORT = Operation(
    name="import",
    subject=ANY,
    needs=None,
    arguments=None,
    prepare="app/storage/import_replace, which writes whole documents",
    inverse="import the former record instead",
    moves=None,
    batch=None,
    sentence="Imported",
)

"""What public clients expect in responses beyond the contract."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import orjson
from flask import Response

from app.catalogue.store import objects
from app.core.penalties import BAN, is_in_force
from app.core.types import Document, whole
from app.http.json import encode
from app.players.store import players
from app.users.store import users

# These clients show this as "never"; null would crash them.
NEVER = "0001-01-01T00:00:00Z"


Complete = Callable[[Any], Any]


def complete_with(view: Callable[..., Any], complete: Complete) -> Callable[..., Any]:
    """Return a view whose responses these clients expect to contain more."""

    @functools.wraps(view)
    def completed(**path: Any) -> Response:
        response = cast(Response, view(**path))
        response.set_data(encode(complete(orjson.loads(response.get_data()))))
        return response

    return completed


def _each(complete: Callable[[list[Document]], list[Document]]) -> Complete:
    """Return what completes the records of an answer: one record, a list or an envelope."""

    def completed(answer: Any) -> Any:
        if isinstance(answer, list):
            return complete(answer)
        if "Id" in answer:
            return complete([answer])[0]
        name = "entries" if "entries" in answer else "Values"
        more: Document = {"Sort": [], "Extra": None} if "Total" in answer else {}
        return {**more, **answer, name: complete(answer[name])}

    return completed


def _player(player: Document) -> Document:
    return {
        "Dead": _health(player, "Vitals") <= 0 < _health(player, "MaxVitals"),
        **player,
        "LastOnline": player.get("LastOnline") or NEVER,
    }


def _health(player: Document, field: str) -> float:
    """Return the first vital, which is health; 0 if a game has stored something else."""
    vitals = player.get(field)
    health = vitals[0] if isinstance(vitals, list) and vitals else 0
    return health if isinstance(health, int | float) else 0


def _players(records: list[Document]) -> list[Document]:
    return [_player(record) for record in records]


def _users(records: list[Document]) -> list[Document]:
    ids = [record["Id"] for record in records]
    played = players.play_times(ids)
    accounts = users.get_many(ids, *BAN, "CreationDate")
    now = users.now()
    return [
        {
            **record,
            "RegistrationDate": account.get("CreationDate") or NEVER,
            "PlayTimeSeconds": played[record["Id"]],
            "IsBanned": (banned := is_in_force(account, BAN, now)),
            "BanReason": account.get(BAN.reason) if banned else None,
        }
        for record in records
        for account in (accounts.get(record["Id"], {}),)
    ]


def _slots(answer: Any) -> Any:
    """Return slots, or the slots in an object, with the names of their items."""
    if isinstance(answer, dict):
        return {name: _slots(part) for name, part in answer.items()}
    if not isinstance(answer, list):
        return answer
    names = objects.names_of(slot["ItemId"] for slot in answer)
    return [{**slot, "ItemName": names.get(slot["ItemId"], "")} for slot in answer]


def data_type(variable: Document) -> int:
    """Return the data type of a variable: 1 is a boolean, 2 an integer, 3 a text, 4 a number.

    If the game has not stored it, the value decides; 2 if there is none.
    """
    stored, value = whole(variable.get("DataType")), variable.get("Value")
    if stored is not None:
        return stored
    return 1 if isinstance(value, bool) else 3 if isinstance(value, str) else 2


def _objects(records: list[Document]) -> list[Document]:
    """Return objects; the Type of a variable is the number of its data type."""
    return [_object(record) for record in records]


def _object(record: Document) -> Document:
    if record.keys() == {"Key", "Value"}:
        return {**record, "Value": _object(record["Value"])}
    is_variable = record["Type"].endswith("variable")
    return {**record, "Type": data_type(record)} if is_variable else record


def _both_cases(answer: Document) -> Document:
    """Return an answer with its fields also in PascalCase, as version 0.8 has them."""
    return {**answer, **{name[:1].upper() + name[1:]: value for name, value in answer.items()}}


def _taught(answer: Document) -> Document:
    return {**answer, "Id": answer["SpellId"]}


# The functions that complete responses, with the views of these.
COMPLETED: tuple[tuple[Complete, tuple[str, ...]], ...] = (
    (
        _each(_players),
        (
            "Players.get_player",
            "Users.get_character",
            "Users.list_characters",
            "Players.list_players",
            "Players.rank_players",
            "Players.list_online_players_by_page",
            "Players.list_online_players",
            "Players.list_players_by_body",
            "Guilds.list_guild_members",
        ),
    ),
    (
        _each(_users),
        (
            "Users.list_users",
            "Users.list_users_by_body",
            "Users.get_user",
            "Users.change_email",
            "Users.manage_email",
        ),
    ),
    (
        _slots,
        (
            "Items.get_items",
            "Items.get_inventory",
            "Items.get_bank",
            "Items.get_bag",
            "Guilds.list_guild_bank",
        ),
    ),
    (
        _each(_objects),
        ("Catalogue.list_objects", "Catalogue.list_objects_by_body", "Catalogue.get_object"),
    ),
    (_taught, ("Spells.teach_spell", "Spells.forget_spell")),
    (
        _each(list),
        (
            "Guilds.list_guilds",
            "Global variables.list_global_variables_by_page",
            "Logs.list_user_addresses",
            "Logs.list_trades",
            "Logs.list_user_activity",
            "Logs.list_player_activity",
        ),
    ),
    (
        _both_cases,
        (
            "Info.get_info",
            "Info.get_authorized",
            "Info.get_stats",
            "Info.get_metrics",
            "Players.count_online_players",
            "Game.say_to_everybody",
            "Game.say_on_map",
            "Game.say_to_player",
        ),
    ),
)
COMPLETIONS = {name: complete for complete, names in COMPLETED for name in names}

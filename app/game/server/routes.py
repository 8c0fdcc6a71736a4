"""For games without a MongoDB driver: save characters, report who is online, take actions."""

from __future__ import annotations

from flask import Response

from app.auth import guard
from app.auth.execution import change_route
from app.auth.spending import OverBudget
from app.auth.views import read_route
from app.core.errors import NotFound
from app.core.naming import Lookup
from app.core.permissions import Permission
from app.core.types import Document
from app.game.actions.domain import (
    ActionWithdrawn,
    AnsweredOtherwise,
    NotTaken,
    public_action,
)
from app.game.actions.schemas import DONE_AT, LETTER_EXAMPLE, ActionSchema
from app.game.actions.store import actions
from app.game.server.operations import SAVE
from app.game.server.saving import require_small, save_character, save_characters
from app.game.server.schemas import (
    AnswerArgs,
    OnlineArgs,
    OnlineSchema,
    SavedManySchema,
    SavedSchema,
    SaveManyArgs,
    TakeActionsArgs,
    TakenActionsSchema,
)
from app.http.api import Blueprint
from app.http.examples import ACTION, GAME, PLAYER_ID
from app.http.intents import change_response, replayed_headers
from app.http.json import json_response
from app.http.path_converters import path_guid
from app.players.domain import PlayerNameTaken, SavedSince, WasDeleted, WasErased
from app.players.store import players

NO_BUDGET = OverBudget("shop", "saving a character is not for a key with a budget", "Budget")

blp = Blueprint("GameServer", __name__, url_prefix="/api/v1/game", group="Game")
of_players = Blueprint("SavedPlayers", __name__, url_prefix="/api/v1/players", group="Players")


@change_route(
    of_players,
    SAVE,
    "/<player:player_id>",
    SavedSchema,
    NO_BUDGET,
    NotFound("player", PLAYER_ID),
    SavedSince(9),
    PlayerNameTaken(),
    WasDeleted(),
    WasErased(),
    method="PUT",
)
@of_players.alt_response(201, schema=SavedSchema, description="Made.")
def save_player(args: Document, player_id: Lookup) -> Response:
    """Save a character

    By id. Missing fields keep their values; in a new character, they get their defaults. With
    `Version`, the save is refused if somebody else has changed the character since the game read
    it. Without `Version`, the given fields overwrite the stored ones.
    """
    id_ = path_guid("lookupKey", player_id.text, nil=False)
    saved, is_new = save_character(id_, args)
    return change_response(saved, saved.answer, 201 if is_new else 200)


@read_route(
    of_players,
    "",
    SavedManySchema,
    Permission.GAME_ACT,
    args=SaveManyArgs(),
    method="PUT",
    refuses=(NO_BUDGET,),
)
@of_players.idempotent
def save_players(args: Document) -> Response:
    """Save many characters

    Each row is saved as by `savePlayer`, whatever happens to the others. The results are in the
    same order. A row without time left has the Code `UNAVAILABLE`: send it again.
    """
    results = save_characters(args["Players"])
    headers = replayed_headers(all(is_replayed for _, is_replayed in results))
    return json_response({"Values": [result for result, _ in results]}, headers=headers)


@read_route(blp, "/online", OnlineSchema, Permission.GAME_ACT, args=OnlineArgs(), method="POST")
def report_online(args: Document) -> Document:
    """Report who is online

    A player counts as online until the report is older than `QM_ONLINE_TTL_SECONDS`. Reports leave
    no history entry.
    """
    online, offline = args["Online"], args["Offline"]
    reported = dict.fromkeys([*online, *offline])
    known = players.get_many([*reported], "_id")
    gone = players.report_online(online, offline, args["Everyone"])
    unknown = [id_ for id_ in reported if id_ not in known]
    return {"Online": len(known.keys() & online), "Offline": gone, "Unknown": unknown}


@read_route(
    blp,
    "/actions",
    TakenActionsSchema,
    Permission.GAME_ACT,
    args=TakeActionsArgs(),
    method="POST",
    example={"Values": [{**LETTER_EXAMPLE, "State": "taken", "Taken": DONE_AT, "TakenBy": GAME}]},
)
def take_actions(args: Document) -> Document:
    """Take actions for the game

    Oldest first, and none that is older than 30 seconds. A game polls several times per second: if
    no game has polled for ten seconds, new actions are refused. Actions on users need the role
    `users.query`.
    """
    taker, sees_users = taker_of(args), guard.caller().may(Permission.USERS_READ)
    actions.look(taker)
    found: list[Document] = []
    if args["Unanswered"]:
        found += actions.unanswered(taker, args["Most"])
    found += actions.take(taker, args["Most"] - len(found), sees_users, args["Players"])
    now = actions.now()
    return {"Values": [public_action(action, now) for action in found]}


@read_route(
    blp,
    "/actions/<action_id>",
    ActionSchema,
    Permission.GAME_ACT,
    args=AnswerArgs(),
    method="POST",
    refuses=(
        NotFound("action", ACTION),
        NotTaken(ACTION, GAME),
        AnsweredOtherwise(ACTION),
        ActionWithdrawn(ACTION),
    ),
)
def answer_action(args: Document, action_id: str) -> Document:
    """Answer an action

    Only the game server that took it, with the same account, may answer. Repeating the same answer
    changes nothing. A restart that was withdrawn during the countdown gets 409: do not restart.
    """
    require_small(args["Result"])
    action = actions.answer(action_id, taker_of(args), args["Error"], args["Result"])
    return public_action(action, actions.now())


def taker_of(args: Document) -> Document:
    return {"TakenBy": args["Game"], "TakerId": guard.caller().id}

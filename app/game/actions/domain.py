"""Actions: requests that only the running game can carry out, and its answers. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from app.core.changes import Intent
from app.core.errors import Conflict, Unavailable
from app.core.naming import name_key
from app.core.permissions import Permission
from app.core.types import Document, whole


class ActionWords(NamedTuple):
    """The texts for a kind of action, and the permission to request it."""

    # A past participle, followed by the name of the subject.
    past: str
    # A hint for staff before they request it.
    about: str
    # The answer of the API when it is done. Clients match these texts.
    done: str = ""
    permission: Permission = Permission.GAME_ACT


KINDS = {
    "kick": ActionWords(
        "Kicked",
        "Disconnects the player, who may come back at once. A ban keeps a player out.",
        "{name} has been kicked by the server!",
        Permission.KICK,
    ),
    "kill": ActionWords(
        "Killed", "The game decides what a death costs.", "{name} has been killed!"
    ),
    "warp": ActionWords(
        "Warped", "Without coordinates, the game chooses a place.", "Warped '{name}' to {to}."
    ),
    "chat": ActionWords("Said", "It cannot be recalled."),
    "guild-variable": ActionWords("Set", "The game keeps the variables of guilds."),
    "letter": ActionWords("Delivered", "It waits until the player is online."),
    "restart": ActionWords(
        "Restarted", "Everybody reads the message 10, 5 and 1 minutes before.", "The game restarts."
    ),
}
# Fields of an action that a game writes.
ANSWER_FIELDS = ("Taken", "TakenBy", "Done", "Error", "Result")
ENDED = ("done", "failed", "lapsed")
STATES = ("waiting", "taken", "done", "failed", "lapsed", "withdrawn")
GUILD_VARIABLE = "guild-variable"
LETTER, RESTART = WITHDRAWABLE = ("letter", "restart")
# How long after the request a game may take an action: later, nobody waits for it.
TAKEN_WITHIN = timedelta(seconds=30)
# A game that has not polled for so long counts as stopped.
LOOKED_WITHIN = timedelta(seconds=10)
# The longest error text of a game that is shown.
LONGEST_ERROR = 500
# Stored fields that are served unchanged.
SERVED = (
    "Kind",
    "Arguments",
    "At",
    "Via",
    "Reason",
    "Taken",
    "TakenBy",
    "Done",
    "GivenAt",
    "Result",
)


class NoGame(Unavailable):
    retry_after = int(LOOKED_WITHIN.total_seconds())
    sentence = (
        f"No game is running: no game server has asked for actions in the last {retry_after} "
        "seconds."
    )


class ActionFailed(Conflict):
    """The game refused the action; the text is the game's own."""


class ActionLapsed(Conflict):
    sentence = "No game server took the action in time, so nothing was done; please try again."


class AnsweredOtherwise(Conflict):
    sentence = "The action {action_id} already has a different answer."


class NotTaken(Conflict):
    sentence = "The action {action_id} was not taken by the game '{game}'."


class CannotWithdraw(Conflict):
    sentence = (
        "Only a letter that no game has taken, or a restart that has not happened yet, can be "
        "withdrawn."
    )


class ActionWithdrawn(Conflict):
    sentence = "The action {action_id} was withdrawn: do not carry it out."


def new_action(id_: str, subject: Document, intent: Intent, now: datetime) -> Document:
    """Return the document of a new action; its kind is the operation of the intent."""
    origin = intent.origin
    action: Document = {
        "_id": id_,
        "Kind": intent.operation,
        "Subject": subject,
        "Arguments": intent.arguments,
        "At": now,
        # A letter waits for its player: a game takes it by its kind, and nothing else does.
        "TakeBefore": now if intent.operation == LETTER else now + TAKEN_WITHIN,
        "By": {"UserId": origin.user_id, "Name": origin.name, "Key": origin.key},
        "Via": origin.via,
        "RequestId": origin.request_id,
        "Reason": origin.reason,
        **dict.fromkeys(ANSWER_FIELDS),
    }
    if intent.arguments.get("Items"):
        action["ItemsDue"] = True
    if intent.key is not None:
        keyed = {"RequestKey": request_key(subject, intent), "Fingerprint": intent.fingerprint}
        action |= keyed
    return action


def request_key(subject: Document, intent: Intent) -> str:
    """Return the unique key of a request with an Idempotency-Key, within its subject.

    A message to everybody has no subject, so its key is unique within the caller's account.
    """
    return f"{intent.key} {subject['Kind']} {subject['Id'] or intent.origin.user_id}"


def same_name(one: Document, other: Document) -> bool:
    """Tell whether two subjects have the same name; maps have none."""
    return None not in (one["Name"], other["Name"]) and bool(
        name_key(one["Name"]) == name_key(other["Name"])
    )


def state_of(action: Document, now: datetime) -> str:
    # A game that overlooks the withdrawal of a restart may have carried it out.
    if action.get("Withdrawn") and action["Done"] is None:
        return "withdrawn"
    for field, state in (("Error", "failed"), ("Done", "done"), ("Taken", "taken")):
        if action[field] is not None:
            return state
    return "lapsed" if action["Kind"] != LETTER and action["TakeBefore"] <= now else "waiting"


def is_answered(action: Document) -> bool:
    """Tell whether a game has answered an action."""
    return action["Done"] is not None or action["Error"] is not None


def error_of(action: Document) -> str | None:
    """Return the reason that a game gave for refusing an action; None if there is none."""
    error: str | None = action["Error"]
    if error is None:
        return None
    return error.strip()[:LONGEST_ERROR] or "The game refused without a reason."


def public_action(action: Document, now: datetime) -> Document:
    return {
        "Id": action["_id"],
        **{name: action.get(name) for name in SERVED},
        "Subject": {name: action["Subject"][name] for name in ("Kind", "Id", "Name")},
        "By": {"Key": None, **action["By"]},
        "State": state_of(action, now),
        "Error": error_of(action),
    }


def done_sentence(action: Document) -> str:
    """Return the answer of the API when an action is done; it names the character."""
    subject = action["Subject"]
    name = subject.get("Character", subject["Name"])
    to = f"{action['Arguments'].get('MapId')}{place_of(action)}"
    return KINDS[action["Kind"]].done.format(name=name, to=to)


def place_of(action: Document) -> str:
    """Return the coordinates on a map, if known: of the result, or else as requested."""
    known = {**action["Arguments"], **(action.get("Result") or {})}
    place = [whole(known.get(axis)) for axis in ("X", "Y")]
    return "" if None in place else f" ({place[0]}, {place[1]})"

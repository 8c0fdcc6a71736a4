"""Harmful habits of a game, in sentences for its developers. Pure."""

from __future__ import annotations

from enum import Enum

COUNT_UP = (
    "Filter each write on the Version that was read, increment it by one in the same update, and "
    "read again if nothing matched."
)
BY_FIELDS = (
    "Set and unset only the fields that the game has changed: never replace a document, and never "
    "write back everything that was read."
)
OF_THE_SERVICE = "Do not write to them: they belong to the service."
HEARTBEAT = (
    "Set Online, and LastSeen with $currentDate, for all who play, in one bulk write about every "
    "30 seconds."
)
ANSWER = (
    "Answer each action that was taken: set Done with $currentDate, or Error to a sentence for "
    "staff."
)
TAKE = (
    "Take an action with one update that filters on Taken null and TakeBefore in the future, and "
    "sets TakenBy, and Taken with $currentDate."
)


class Habit(Enum):
    """A mistake that a game makes, and what it should do instead.

    In the sentence, {many} is the number of affected documents or writes, and {fields} names the
    affected fields.
    """

    def __init__(self, sentence: str, instead: str) -> None:
        self.sentence = sentence
        self.instead = instead

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")

    MISSING_FIELDS = (
        "{many} {was} stored without {fields}.",
        "Insert every field of a collection, with its default if there is no value.",
    )
    WRONG_KEYS = (
        "{many} {has} derived fields that do not match the name or the address: {fields}.",
        "Derive NameKey, NameTails and EmailKey again in every write of a name or an address.",
    )
    EMPTY_SLOTS = (
        "{many} {was} stored with empty slots, in {fields}.",
        "Unset a slot when it becomes empty.",
    )
    NULLS = (
        "{many} {was} stored with null in {fields}.",
        "Store an empty map where there is nothing, and leave out what a slot does not have.",
    )
    WRONG_TYPES = (
        "{many} {was} stored with a wrong type in {fields}.",
        "Store whole numbers as integers, times as dates, and ids as guids in lower case.",
    )
    WRONG_VALUES = (
        "{many} {was} stored with unusable values in {fields}.",
        "quartermaster db check reports what is wrong with each.",
    )
    UNKNOWN_FIELDS = (
        "{many} {was} stored with fields that must not be there: {fields}.",
        "Keep fields of the game in players, under names without dots and dollars.",
    )
    NO_VERSION = (
        "{many} {has} no Version that is a whole number.",
        "Insert with the Version 0, an integer, and increment it with $inc.",
    )
    VERSION_SET_BACK = (
        "The Version of {many} decreased.",
        f"{BY_FIELDS} (A backup that was made while others wrote shows the same.)",
    )
    CHANGED_UNCOUNTED = (
        "{many} {has} other values in {fields} than the service left there, at the same Version.",
        COUNT_UP,
    )
    LOST_ENTRIES = (
        "The history of {many} has gaps or was restarted.",
        "Do not write to Journal and JournalCount: emptying a Journal, or saving a whole document, "
        "deletes entries that are not in history yet. (A backup that was made while "
        "others wrote shows the same.)",
    )
    OWN_FIELDS = (
        "{many} {has} values in {fields} that the service never writes.",
        OF_THE_SERVICE,
    )
    STALE_ONLINE = (
        "{many} {is} Online, and {was} not seen within {fields}: by this setting, they "
        "count as offline.",
        f"{HEARTBEAT} Set Online to false when somebody leaves, and for everybody when the game "
        "starts.",
    )
    NEVER_SEEN = (
        "{many} {is} Online, and {has} no date in LastSeen, as {fields} ask for: by this "
        "setting, they count as offline.",
        HEARTBEAT,
    )
    SEEN_IN_FUTURE = (
        "{many} {is} Online, and {was} seen in the future.",
        "Let the database write the time, with $currentDate.",
    )
    NOBODY_ONLINE = ("A game changed {many} but reports nobody as online.", HEARTBEAT)
    BANS_IGNORED = (
        "{many} {is} online although the account is banned.",
        "Check IsBanned and BannedUntil at log-in and during play.",
    )
    DELETED_WRITTEN = (
        "{many} {was} written to while being deleted, or stored again afterwards.",
        "Do not write to a player with DeletedAt, and do not upsert players.",
    )
    NOBODY_LOOKS = (
        "Somebody plays, but no game server asks for actions: {fields}.",
        "Upsert a document in games, with LookedAt set by $currentDate, at least every 2 seconds.",
    )
    WRONG_GAMES = (
        "{many} {has} no usable {fields} in games.",
        "The _id is a text of 1 to 64 characters, and LookedAt is written by $currentDate.",
    )
    NEVER_ANSWERED = ("{many} {was} taken and never answered.", ANSWER)
    ANSWERED_UNTAKEN = ("{many} {was} answered but never taken.", TAKE)
    TAKEN_LATE = ("{many} {was} taken after TakeBefore.", TAKE)
    DONE_AND_ERROR = ("{many} {has} both Done and Error.", ANSWER)
    WRONG_ANSWERS = (
        "{many} {has} unusable values in {fields}.",
        "Taken and Done are dates, TakenBy an _id of games, Error a sentence, Result an object.",
    )
    LEFT_WAITING = ("{many} {was} not taken, although a game server asks for actions.", TAKE)
    WHOLE_DOCUMENTS = (
        "{many} saved a whole document: changes by others are lost.",
        BY_FIELDS,
    )
    WHOLE_MAPS = (
        "{many} set the whole of {fields} instead of single slots.",
        "Set and unset single slots, such as Inventory.3: a whole map that was read a moment ago "
        "overwrites what others have put there since.",
    )
    CHANGES_TAKEN_BACK = (
        "{many} reverted in {fields} what the service had just changed.",
        f"{COUNT_UP} (A game that uses up a gift at once shows the same.)",
    )
    UNFILTERED_WRITES = (
        "{many} changed {fields} and incremented Version without filtering on it: changes by "
        "others are lost.",
        COUNT_UP,
    )
    UNCOUNTED_WRITES = ("{many} changed {fields} without incrementing Version.", COUNT_UP)
    MISCOUNTED_WRITES = ("{many} changed Version other than by one.", COUNT_UP)
    PRESENCE_COUNTED = (
        "{many} incremented Version to report who is online: all other writers must retry.",
        "Write Online, LastSeen and LastOnline alone, without Version.",
    )
    OWN_FIELDS_WRITTEN = ("{many} changed {fields}, which belong to the service.", OF_THE_SERVICE)

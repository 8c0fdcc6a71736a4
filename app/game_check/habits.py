"""Harmful habits of a game, in sentences for its developers. Pure."""

from __future__ import annotations

from enum import Enum

COUNT_UP = (
    "Filter each write on the Version that was read, count it up by one in the same update, "
    "and read again where nothing matched."
)
BY_FIELDS = (
    "Set and unset the fields that the game has changed, and no others: never replace a document, "
    "and never set all that was read of it."
)
OF_THE_SERVICE = "Leave them alone: the service keeps its own books in them."
HEARTBEAT = (
    "Set Online and, by $currentDate, LastSeen of all who play, in bulk and about every 30 seconds."
)
ANSWER = "Answer what was taken: Done by $currentDate, or Error with a sentence for a person."
TAKE = (
    "Take an action by one update that filters on Taken null and TakeBefore in the future, and "
    "sets Taken by $currentDate and TakenBy."
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
        "Insert every field of a collection, with its default where there is nothing to say.",
    )
    WRONG_KEYS = (
        "{many} {has} another {fields} than the name or the address makes.",
        "Derive NameKey, NameTails and EmailKey anew in every write of a name or an address.",
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
        "{many} {was} stored with values that nobody can use, in {fields}.",
        "quartermaster db check says what is wrong with each.",
    )
    UNKNOWN_FIELDS = (
        "{many} {was} stored with fields that must not be there: {fields}.",
        "Keep fields of the game in players, under names without dots and dollars.",
    )
    NO_VERSION = (
        "{many} {has} no Version that is a whole number.",
        "Insert with the Version 0, an integer, and count it up by $inc.",
    )
    VERSION_SET_BACK = (
        "The Version of {many} was set back.",
        f"{BY_FIELDS} (A backup that was made while others wrote shows the same.)",
    )
    CHANGED_UNCOUNTED = (
        "{many} {has} other values in {fields} than the service left there, at the same Version.",
        COUNT_UP,
    )
    LOST_ENTRIES = (
        "The history of {many} has gaps or began anew.",
        "Leave Journal and JournalCount alone: whoever empties a Journal, or saves a whole "
        "document, deletes entries that were not in history yet. (A backup that was made while "
        "others wrote shows the same.)",
    )
    OWN_FIELDS = (
        "{many} {has} something else in {fields} than the service writes there.",
        OF_THE_SERVICE,
    )
    STALE_ONLINE = (
        "{many} {is} Online, and {was} not seen within {fields}: by this setting, they "
        "count as offline.",
        f"{HEARTBEAT} Set Online to false when somebody leaves, and of all when the game starts.",
    )
    NEVER_SEEN = (
        "{many} {is} Online, and {has} no date in LastSeen, as {fields} ask for: by this "
        "setting, they count as offline.",
        HEARTBEAT,
    )
    SEEN_IN_FUTURE = (
        "{many} {is} Online, and {was} seen in the future.",
        "Let the database write the time, by $currentDate.",
    )
    NOBODY_ONLINE = ("A game changed {many} and says of nobody that they are online.", HEARTBEAT)
    BANS_IGNORED = (
        "{many} {is} online although the account is banned.",
        "Read IsBanned and BannedUntil at log-in and during play, and compare with the time.",
    )
    DELETED_WRITTEN = (
        "{many} {was} written to while being deleted, or stored again afterwards.",
        "Leave a player with DeletedAt alone, and let a write that matched nothing insert nothing.",
    )
    NOBODY_LOOKS = (
        "Somebody plays, and no game server looks for actions: {fields}.",
        "Upsert a document in games with LookedAt by $currentDate, at least every 2 seconds.",
    )
    WRONG_GAMES = (
        "{many} {has} no usable {fields} in games.",
        "The _id is a text of 1 to 64 characters, and LookedAt is written by $currentDate.",
    )
    NEVER_ANSWERED = ("{many} {was} taken and never answered.", ANSWER)
    ANSWERED_UNTAKEN = ("{many} {was} answered and not taken before.", TAKE)
    TAKEN_LATE = ("{many} {was} taken after TakeBefore.", TAKE)
    DONE_AND_ERROR = ("{many} {has} both Done and Error.", ANSWER)
    WRONG_ANSWERS = (
        "{many} {has} unusable values in {fields}.",
        "Taken and Done are dates, TakenBy an _id of games, Error a sentence, Result an object.",
    )
    LEFT_WAITING = ("{many} {was} not taken, although a game server looks.", TAKE)
    WHOLE_DOCUMENTS = (
        "{many} saved a whole document: what others changed meanwhile is lost.",
        BY_FIELDS,
    )
    WHOLE_MAPS = (
        "{many} set the whole of {fields}, and not single slots.",
        "Set and unset single slots, such as Inventory.3: a whole map that was read a moment ago "
        "overwrites what others have put there since.",
    )
    CHANGES_TAKEN_BACK = (
        "{many} put back in {fields} what was there before the service changed it, a moment ago.",
        f"{COUNT_UP} (A game that uses up a gift at once shows the same.)",
    )
    UNFILTERED_WRITES = (
        "{many} counted Version up without filtering on it, of {fields}: what others change "
        "meanwhile is lost.",
        COUNT_UP,
    )
    UNCOUNTED_WRITES = ("{many} changed {fields} without counting Version up.", COUNT_UP)
    MISCOUNTED_WRITES = ("{many} changed Version, and not to one more.", COUNT_UP)
    PRESENCE_COUNTED = (
        "{many} counted Version up to say who is online: all who write there have to try again.",
        "Write Online, LastSeen and LastOnline alone, without Version.",
    )
    OWN_FIELDS_WRITTEN = ("{many} changed {fields}, which are the service's own.", OF_THE_SERVICE)

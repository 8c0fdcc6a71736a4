"""A game that does whatever it is asked to, for tests of what asks it."""

import threading
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

from tests.factories import NOW, guid

PACE_SECONDS = 0.03


def look(db, name="world-1", ago=0.0):
    """Say that a game has looked for actions so many seconds ago."""
    looked = datetime.now(timezone.utc) - timedelta(seconds=ago)
    # mongomock empties a document to replace it, while another thread may read it.
    db.games.update_one({"_id": name}, {"$set": {"LookedAt": looked}}, upsert=True)


def make_action(**fields):
    """Return an action that nobody has taken."""
    subject = {"Kind": "player", "Id": guid(), "Name": "Amelia"}
    return {
        **{"_id": guid(), "Kind": "kick", "Subject": subject, "Arguments": {}},
        **{"At": NOW, "TakeBefore": NOW + timedelta(seconds=30)},
        **{"By": {"UserId": guid(), "Name": "clerk"}, "Via": "api"},
        **{"RequestId": None, "Reason": None},
        **dict.fromkeys(("Taken", "TakenBy", "Done", "Error", "Result")),
        **fields,
    }


class Game:
    """Takes actions and answers them, as docs/game.rst says."""

    def __init__(self, db, answer=None):
        self._db, self._answer = db, answer or (lambda action: {})
        # What it writes beyond its part, past the validator.
        self.spoil = {}
        self.taken = []

    def play(self):
        """Look once, and do what there is to do."""
        look(self._db)
        now = datetime.now(timezone.utc)
        while action := self._db.actions.find_one_and_update(
            {"Taken": None, "TakeBefore": {"$gt": now}},
            {"$set": {"Taken": now, "TakenBy": "world-1"}},
            sort=[("TakeBefore", 1)],
        ):
            self.taken.append(action)
            said = {"Done": now, **self._answer(action), **self.spoil}
            self._db.actions.update_one(
                {"_id": action["_id"]}, {"$set": said}, bypass_document_validation=bool(self.spoil)
            )


@contextmanager
def playing(db, answer=None):
    """Have a game that answers; answer returns what else it writes into an action."""
    game = Game(db, answer)
    ending = threading.Event()

    def play():
        while not ending.wait(PACE_SECONDS):
            game.play()

    game.play()
    thread = threading.Thread(target=play, name="game", daemon=True)
    thread.start()
    try:
        yield game
    finally:
        ending.set()
        thread.join()

"""The example world of docs/examples as a process beside the clients, and what its ledger says.

The world notes each write before and after it. Where it was never told what became of one, the
field GameWrite, which it sets in the same update, tells. What the careless forms do is known to the
item as well: each of their writes returns the player as it was before. Only of one that was never
answered it is known from the player that the world remembered, so where the database is killed, the
careless have players of their own.
"""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

from bson import json_util

from tests.system import fork_server
from tests.system.chaos.ledger import Ledger, wiped
from tests.system.chaos.network import LOOPBACK
from tests.system.chaos.stored import DATABASE
from tests.system.programs import GAME

CAREFUL, SLOTS, GUARDED, DOCUMENTS = FORMS = ("no", "slots", "guarded", "documents")
# So short that it often gives up on a write, which may have been made.
PATIENCE_MS = 1500
# How many players it shares with clients, and how many a careless one has to itself.
SHARED, OWN = 6, 3


class ExampleWorld:
    """Plays with some players until it is stopped."""

    def __init__(self, uri, folder, players, form=CAREFUL, pace=20, node=LOOPBACK, patience=None):
        self.name = f"world {form}" if form != CAREFUL else "world careful"
        self._form, self._players = form, players
        self._folder = Path(folder) / f"{self.name} {players[0]}"
        self._uri, self._pace, self._node = uri, pace, node
        if patience:
            self._uri += f"{'&' if '?' in uri else '?'}timeoutMS={patience}"
        # How many writes it did not know the outcome of when it had asked for them.
        self.doubts = 0
        self._process = None
        self._read, self._confirmed = 0, 0
        self.ledger, self.complaints, self.notes = Ledger(), [], []

    @property
    def path(self):
        """The file of its ledger."""
        return self._folder / "ledger.jsonl"

    @property
    def output(self):
        return self._folder / "output.txt"

    def start(self):
        self._folder.mkdir()
        (self._folder / "players.txt").write_text("\n".join(self._players))
        options = ["--characters", str(self._folder / "players.txt"), "--ledger", str(self.path)]
        options += ["--careless", self._form, "--pace", str(self._pace), "--name", self.name]
        command = [GAME, *options, "--quiet"]
        env = {**os.environ, "QM_MONGODB_URI": self._uri, "QM_MONGODB_DATABASE": DATABASE}
        with self.output.open("ab") as log:
            namespace = self._node.namespace
            self._process = fork_server.start(command, env, log, namespace=namespace)

    def stop(self):
        """Ask it to end, as an operator would."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self):
        self._process.kill()
        self._process.wait()

    @contextmanager
    def playing(self):
        """Let it play until the block ends, by itself unless it was killed."""
        self.start()
        try:
            yield self
        finally:
            self.stop()
            self._process.wait(120)

    def join(self):
        if self._process.wait(120) != 0:
            said = self.output.read_text(errors="replace")[-500:]
            self.complaints.append(f"the {self.name} ended with {self._process.returncode}: {said}")

    def is_alive(self):
        return self._process.poll() is None

    @property
    def confirmed(self):
        """How many writes were made so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            self._read += len(new)
            self._confirmed += new.count(b'"State": "made"')
        return self._confirmed

    def settle(self, players, entries):
        """Make a ledger of the file; of what is in doubt, the players as they are stored tell."""
        last = {player["_id"]: player.get("GameWrite") for player in players}
        for write_id, lines in self._writes().items():
            begun, made, unmade = (lines.get(state) for state in ("begun", "made", "not made"))
            is_made = bool(made) or (not unmade and write_id in map(last.get, begun["Effects"]))
            self.doubts += "in doubt" in lines
            if is_made:
                self._add(begun, made or begun)
        if not self._confirmed and not self.confirmed:
            self.complaints.append(f"the {self.name} did not play")
        lost = list(wiped([self.ledger], entries))
        self.notes.append(
            f"the {self.name} made {self.confirmed:,} writes, {self.doubts} of them unconfirmed at "
            f"first, and overwrote {len(lost):,} entries before they had moved"
        )

    def _writes(self):
        """Return by write the lines of its states."""
        writes = {}
        for text in self.path.read_text().splitlines() if self.path.exists() else ():
            line = json_util.loads(text)
            writes.setdefault(line["Write"], {})[line["State"]] = line
        return writes

    def _add(self, begun, ended):
        effects = ended["Effects"] or begun["Effects"]
        for player, effect in effects.items():
            times = begun["At"], ended["At"]
            self.ledger.play(player, effect["Items"], effect["Version"], *times)
            self.ledger.forgotten += effect.get("Entries", ())


def join_in(storm, form, folder=None):
    """Let a careful world share players with the clients, and a careless one have its own."""
    folder = folder or storm.folder
    options = {"pace": 1 / storm.pace, "patience": PATIENCE_MS}
    shared = ExampleWorld(storm.uri, folder, storm.ids[:SHARED], **options)
    own = ExampleWorld(storm.uri, folder, storm.add_players(OWN), form, **options)
    storm.beside += [shared, own]
    return storm

"""The stores that pages read."""

from __future__ import annotations

from app.approvals.store import Approvals
from app.batches.store import Batches
from app.catalogue.store import Objects
from app.game.actions.store import Actions
from app.game.player_events.store import GameEvents
from app.game.samples.store import Samples
from app.history.reports.store import Reports
from app.history.store import History
from app.http.context import current
from app.http.cursors import Cursors
from app.players.deletion.store import Deletions
from app.players.items.store import Bags
from app.players.store import Players
from app.privacy.personal_data import PersonalData
from app.privacy.store import Erasures
from app.storage.client import Storage
from app.users.staff.store import Roles, Staff
from app.users.store import Users

actions = current(Actions)
approvals = current(Approvals)
bags = current(Bags)
batches = current(Batches)
cursors = current(Cursors)
deletions = current(Deletions)
erasures = current(Erasures)
game_events = current(GameEvents)
history = current(History)
objects = current(Objects)
personal_data = current(PersonalData)
players = current(Players)
reports = current(Reports)
roles = current(Roles)
samples = current(Samples)
staff = current(Staff)
storage = current(Storage)
users = current(Users)

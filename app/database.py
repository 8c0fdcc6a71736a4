"""All collections of the database. Each is declared by the feature that stores it."""

from __future__ import annotations

from app.approvals.store import APPROVALS
from app.batches.collections import BATCH_ROWS, BATCHES
from app.game.actions.store import ACTIONS, GAMES
from app.game_events.store import GAME_EVENTS
from app.guilds.store import GUILDS
from app.items.domain import BAG_SUBJECT
from app.items.store import BAGS
from app.oauth.store import REFRESH_TOKENS
from app.objects import domain as objects
from app.objects.store import OBJECTS
from app.players import domain as players
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.samples.store import SAMPLES
from app.staff import domain as staff
from app.staff.store import ROLES
from app.storage.events import EVENTS, LOCKS
from app.storage.fence import ERASURES
from app.storage.history import HISTORY
from app.storage.limits import BUDGETS, QUOTAS
from app.storage.schema.migrations import SCHEMA_VERSIONS
from app.users import domain as users
from app.users.store import USERS

COLLECTIONS = (
    PLAYERS,
    DELETED_PLAYERS,
    BAGS,
    OBJECTS,
    GUILDS,
    USERS,
    ROLES,
    HISTORY,
    EVENTS,
    ACTIONS,
    GAMES,
    GAME_EVENTS,
    BATCHES,
    BATCH_ROWS,
    APPROVALS,
    REFRESH_TOKENS,
    QUOTAS,
    BUDGETS,
    ERASURES,
    LOCKS,
    SAMPLES,
    SCHEMA_VERSIONS,
)
# The kinds of documents that have a history, by collection.
SUBJECTS = {
    kind.collection: kind
    for kind in (players.SUBJECT, users.SUBJECT, BAG_SUBJECT, objects.SUBJECT, staff.SUBJECT)
}

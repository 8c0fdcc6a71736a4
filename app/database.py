"""All collections of the database. Each is declared by the feature that stores it."""

from __future__ import annotations

from app.approvals.store import APPROVALS
from app.batches.store import BATCH_ROWS, BATCHES
from app.catalogue import domain as objects
from app.catalogue.store import OBJECTS
from app.game.actions.store import ACTIONS, GAMES
from app.game.player_events.store import GAME_EVENTS
from app.game.samples import SAMPLES
from app.players import domain as players
from app.players.guilds import GUILDS
from app.players.items.domain import BAG_SUBJECT
from app.players.items.store import BAGS
from app.players.store import DELETED_PLAYERS, PLAYERS
from app.storage.events import EVENTS, LOCKS
from app.storage.fence import ERASURES
from app.storage.history import HISTORY
from app.storage.limits import BUDGETS, QUOTAS
from app.storage.schema.migrations import SCHEMA_VERSIONS
from app.users import domain as users
from app.users.oauth.store import REFRESH_TOKENS
from app.users.staff import domain as staff
from app.users.staff.store import ROLES
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

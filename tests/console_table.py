"""Every page and form of the console, and the roles that it needs.

Written by hand, as tests/endpoint_table.py is. [one] is a guid that belongs to nothing.
"""

from tests.endpoint_table import ITEM, MAP, PLAYER, SPELL, USER, Door
from tests.endpoint_table import VALUES as API_VALUES

TABLE = """
GET   /console                                  api
GET   /console/search                           api
GET   /console/suggest                          api
GET   /console/suggest/player                   api
GET   /console/suggest/[type]                   api
GET   /console/players                          api
GET   /console/players/online                   api
GET   /console/players/[player]                 api
GET   /console/players/[player]/spells          api
GET   /console/players/[player]/variables       api
GET   /console/players/[player]/history         api
GET   /console/players/[player]/notes           api
POST  /console/players/[player]/give            api
POST  /console/players/[player]/take            api
POST  /console/players/[player]/teach           api
POST  /console/players/[player]/forget          api
POST  /console/players/[player]/variables       api
POST  /console/players/[player]/notes           api
POST  /console/players/[player]/rename          api
POST  /console/players/[player]/delete          api
POST  /console/players/[player]/message         api
POST  /console/players/[player]/warp            api
POST  /console/players/[player]/kick            api
POST  /console/players/[player]/kill            api
GET   /console/users                            api users.query
GET   /console/users/[user]                     api users.query
GET   /console/users/[user]/history             api users.query
GET   /console/users/[user]/notes               api users.query
GET   /console/users/[user]/sign-ins            api users.query users.manage
GET   /console/users/[user]/keys                api users.query users.manage
GET   /console/users/[user]/personal-data       api users.query users.manage
POST  /console/users/[user]/ban                 api users.query
POST  /console/users/[user]/unban               api users.query
POST  /console/users/[user]/mute                api users.query
POST  /console/users/[user]/unmute              api users.query
POST  /console/users/[user]/mail-code           api users.query
POST  /console/users/[user]/notes               api users.query
POST  /console/users/[user]/warp                api users.query
POST  /console/users/[user]/kick                api users.query
POST  /console/users/[user]/kill                api users.query
POST  /console/users/[user]/email               api users.query users.manage
POST  /console/users/[user]/password            api users.query users.manage
POST  /console/users/[user]/sign-out            api users.query users.manage
POST  /console/users/[user]/sign-ins/[one]/end  api users.query users.manage
POST  /console/users/[user]/keys                api users.query users.manage
POST  /console/users/[user]/keys/[one]/rotate   api users.query users.manage
POST  /console/users/[user]/keys/[one]/revoke   api users.query users.manage
POST  /console/users/[user]/erase               api users.query users.manage
GET   /console/game                             api
GET   /console/game/[action]                    api
GET   /console/chat                             api
POST  /console/chat                             api
GET   /console/history                          api
GET   /console/history/[entry]                  api
POST  /console/history/[entry]/undo             api
GET   /console/batches                          api
GET   /console/batches/new                      api
POST  /console/batches                          api
GET   /console/batches/[batch]                  api
GET   /console/batches/[batch]/result           api
POST  /console/batches/[batch]/run              api
POST  /console/batches/[running]/pause          api
POST  /console/batches/[batch]/cancel           api
POST  /console/batches/[ended]/undo             api
GET   /console/catalogue                        api
GET   /console/catalogue/[type]                 api
GET   /console/catalogue/[type]/[item]          api
POST  /console/catalogue/servervariable/[global]/value  api
GET   /console/health                           api
GET   /console/sign-ins                         api
POST  /console/sign-ins/[one]/end               api
GET   /console/keys                             api
POST  /console/keys                             api
POST  /console/keys/[one]/rotate                api
POST  /console/keys/[one]/revoke                api
POST  /console/sign-out                         api
GET   /console/sign-in
POST  /console/sign-in
GET   /console/files/[one]/[file]
GET   /console/[one]
POST  /console/[one]
"""
ONE = "99999999-0000-4000-8000-000000000000"
# What a form needs to be carried out.
FIELDS = {
    "give": {"itemid": ITEM, "quantity": "1"},
    "take": {"itemid": ITEM, "quantity": "1"},
    "teach": {"spellid": ITEM},
    "forget": {"spellid": SPELL},
    "variables": {"variable": ITEM, "value": "1"},
    "notes": {"Text": "A note."},
    "rename": {"Name": "Aldric"},
    "delete": {"confirm": PLAYER},
    "message": {"Message": "Hello."},
    "chat": {"Message": "Hello."},
    **{f"[player]/{verb}": {"confirm": PLAYER} for verb in ("kick", "kill")},
    **{f"[user]/{verb}": {"confirm": USER} for verb in ("kick", "kill")},
    "[player]/warp": {"mapid": MAP, "confirm": PLAYER},
    "[user]/warp": {"mapid": MAP, "x": "3", "y": "4", "confirm": USER},
    "batches": {"players": PLAYER, "itemid": ITEM, "quantity": "1"},
    "keys": {"Name": "shop", "players.read": "true"},
    "erase": {"Confirm": USER},
    "/ban": {"duration": "1"},
    "/mute": {"duration": "1"},
    "email": {"new": "moved@example.com", "confirm": USER},
    "password": {"new": "long enough", "again": "long enough", "confirm": USER},
    "[user]/sign-out": {"confirm": USER},
    "value": {"value": "1"},
}
# The rule of one view may have several rows, as its converter any() has words.
WORDS = {"tab": ("spells", "variables", "history", "notes"), "verb": ("ban", "mute")}
VALUES = {
    **{**API_VALUES, "one": ONE, "file": "console.css"},
    **{"ended": API_VALUES["ended_batch"], "running": API_VALUES["running_batch"]},
}

CONSOLE_DOORS = [
    Door("+", method, route, tuple(roles), ())
    for method, route, *roles in (line.split() for line in TABLE.strip().splitlines())
]


def fields_of(door):
    return next((fields for end, fields in FIELDS.items() if door.route.endswith(end)), {})

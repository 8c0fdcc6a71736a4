# ruff: noqa: E501 (a table)
"""Every route of the service, the roles that it needs, and behind the bar the permissions of a key.

Written by hand, because a table made from the code would only agree with itself. See the
section contract-roles; a plus marks what is not one of the 31 numbered endpoints of public clients,
and = what is documented under another path.
"""

import re
from typing import NamedTuple

from tests.factories import make_object, sha256

TABLE = """
 1  GET    /api/v1/players                                       api                        | players.read
 2  GET    /api/v1/players/rank                                  api                        | players.read
 3  POST   /api/v1/players/online                                api                        | players.read
 4  GET    /api/v1/players/online/count                          api                        | players.read
 5  GET    /api/v1/players/[player]                              api                        | players.read
 6  GET    /api/v1/players/[player]/variables                    api                        | players.read
 7  GET    /api/v1/players/[player]/variables/[variable]         api                        | players.read
 8  GET    /api/v1/players/[player]/variables/[variable]/value   api                        | players.read
 9  POST   /api/v1/players/[player]/variables/[variable]         api                        | players.change
10  GET    /api/v1/players/[player]/items                        api                        | players.read
11  GET    /api/v1/players/[player]/items/inventory              api                        | players.read
12  GET    /api/v1/players/[player]/items/bank                   api                        | players.read
13  GET    /api/v1/players/bag/[bag]                             api                        | players.read
14  POST   /api/v1/players/[player]/items/give                   api                        | items.move
15  POST   /api/v1/players/[player]/items/take                   api                        | items.move
16  GET    /api/v1/players/[player]/spells                       api                        | players.read
17  POST   /api/v1/players/[player]/spells/teach                 api                        | players.change
18  POST   /api/v1/players/[player]/spells/forget                api                        | players.change
19  POST   /api/v1/players                                       api                        | players.read
20  GET    /api/v1/users                                         api users.query            | users.read
21  GET    /api/v1/users/[user]                                  api users.query            | users.read
22  POST   /api/v1/users/register                                api users.query            | users.change
23  POST   /api/v1/users/[user]/password/validate                api users.query            | users.change
24  POST   /api/v1/users/[user]/email/change                     api users.query            | users.change
25  POST   /api/v1/users/[user]/password/change                  api users.query            | users.change
26  GET    /api/v1/users/[user]/password/reset                   api users.query            | users.change
27  GET    /api/v1/users/[user]/players                          api users.query            | users.read
28  GET    /api/v1/users/[user]/players/[player]                 api users.query            | users.read
29  POST   /api/v1/users/[user]/manage/email/change              api users.query users.manage| users.find users.manage
30  POST   /api/v1/users/[user]/manage/password/change           api users.query users.manage| users.find users.manage
31  POST   /api/v1/users                                         api users.query            | users.read
 +  POST   /api/v1/users/[user]/password/reset                   api users.query            | users.change
 +  GET    /api/v1/history                                       api                        | history.read
 +  GET    /api/v1/history/[entry]                               api                        | history.read
 +  POST   /api/v1/history/[entry]/undo                          api                        | undo.own
 +  GET    /api/v1/players/[player]/history                      api                        | history.read
 +  GET    /api/v1/users/[user]/history                          api users.query            | history.read users.read
 +  GET    /api/v1/players/online                                api                        | players.read
 +  GET    /api/v1/guilds                                        api                        | players.read
 +  GET    /api/v1/guilds/[guild]                                api                        | players.read
 +  GET    /api/v1/guilds/[guild]/members                        api                        | players.read
 +  GET    /api/v1/guilds/[guild]/variables                      api                        | players.read
 +  GET    /api/v1/guilds/[guild]/bank                           api                        | players.read
 +  GET    /api/v1/leaderboard                                   api                        | leaderboard.read
 +  POST   /api/v1/players/[player]/admin/ban                    api                        | moderate.ban
 +  POST   /api/v1/players/[player]/admin/unban                  api                        | moderate.ban
 +  POST   /api/v1/players/[player]/admin/mute                   api                        | moderate.mute
 +  POST   /api/v1/players/[player]/admin/unmute                 api                        | moderate.mute
 +  POST   /api/v1/users/[user]/admin/ban                        api users.query            | moderate.ban users.find
 +  POST   /api/v1/users/[user]/admin/unban                      api users.query            | moderate.ban users.find
 +  POST   /api/v1/users/[user]/admin/mute                       api users.query            | moderate.mute users.find
 +  POST   /api/v1/users/[user]/admin/unmute                     api users.query            | moderate.mute users.find
 +  GET    /api/v1/users/[user]/moderation                       api users.query            | users.read
 +  GET    /api/v1/gameobjects/[type]                            api                        | any
 +  POST   /api/v1/gameobjects/[type]                            api                        | any
 +  GET    /api/v1/gameobjects/[type]/names                      api                        | any
 +  GET    /api/v1/gameobjects/[type]/[item]                     api                        | any
 +  GET    /api/v1/gameobjects/time                              api                        | any
 +  POST   /api/v1/variables/global                              api                        | any
 +  GET    /api/v1/variables                                     api                        | any
 =  POST   /api/v1/variables                                     api                        | any
 =  GET    /api/v1/variables/[global]                            api                        | any
 =  GET    /api/v1/variables/[global]/value                      api                        | any
 =  POST   /api/v1/variables/[global]                            api                        | objects.change
 =  POST   /api/v1/gameobjects/[type]/names                      api                        | any
 =  POST   /api/v1/chat                                          api                        | game.act
 +  GET    /api/v1/info/metrics                                  api                        | any
 +  GET    /api/v1/info/config/stats                             api                        | any
 +  GET    /api/v1/logs/user/[user]/ip                           api users.query            | history.read users.read
 +  GET    /api/v1/logs/trade                                    api                        | history.read
 =  GET    /api/v1/logs/chat                                     api                        | history.read
 =  GET    /api/v1/logs/pm                                       api                        | history.read
 =  GET    /api/v1/logs/guild/[guild]/activity                   api                        | history.read
 +  GET    /api/v1/variables/global/[global]                     api                        | any
 +  POST   /api/v1/variables/global/[global]                     api                        | objects.change
 +  GET    /api/v1/variables/global/[global]/value               api                        | any
 +  GET    /api/v1/info                                          api                        | any
 +  GET    /api/v1/info/authorized                               api                        | any
 +  GET    /api/v1/info/limits                                   api                        | any
 +  GET    /api/v1/info/stats                                    api                        | any
 +  GET    /api/v1/info/config                                   api                        | any
 +  GET    /api/v1/logs/user/[user]/activity                     api users.query            | history.read users.read
 +  GET    /api/v1/logs/player/[player]/activity                 api                        | history.read
 +  GET    /api/v1/players/[player]/notes                        api                        | players.read
 +  POST   /api/v1/players/[player]/notes                        api                        | notes.write
 +  DELETE /api/v1/users/[user]/second-factor                    api users.query users.manage| none
 +  GET    /api/v1/users/[user]/personal-data                    api users.query users.manage| users.find privacy.export
 +  DELETE /api/v1/users/[user]                                  api users.query users.manage| users.find privacy.erase
 +  POST   /api/v1/users/[user]/name                             api users.query users.manage| users.find users.manage
 +  POST   /api/v1/users/[user]/erase                            api users.query users.manage| users.find privacy.erase
 +  POST   /api/v1/players/[player]/items/transfer               api                         | items.move
 +  POST   /api/v1/players/[player]/name                         api                         | players.rename
 +  POST   /api/v1/players/[player]/level                        api                        | players.change
 +  POST   /api/v1/players/[player]/class                        api                        | players.change
 +  DELETE /api/v1/players/[player]                              api                         | players.delete
 +  GET    /api/v1/users/[user]/notes                            api users.query            | users.read
 +  GET    /api/v1/users/[user]/variables                        api users.query            | users.read
 +  POST   /api/v1/users/[user]/notes                            api users.query            | notes.users users.find
 +  PUT    /api/v1/players/[player_id]                           api                        | game.act
 +  POST   /api/v1/players/[player]/admin/kick                   api                        | moderate.kick
 +  POST   /api/v1/players/[player]/admin/kill                   api                        | game.act
 +  POST   /api/v1/players/[player]/admin/warpto                 api                        | game.act
 +  POST   /api/v1/players/[player]/admin/warptoloc              api                        | game.act
 +  POST   /api/v1/users/[user]/admin/kick                       api users.query            | moderate.kick users.find
 +  POST   /api/v1/users/[user]/admin/kill                       api users.query            | game.act users.find
 +  POST   /api/v1/users/[user]/admin/warpto                     api users.query            | game.act users.find
 +  POST   /api/v1/users/[user]/admin/warptoloc                  api users.query            | game.act users.find
 +  POST   /api/v1/chat/global                                   api                        | game.act
 +  POST   /api/v1/chat/proximity/[map]                          api                        | game.act
 +  POST   /api/v1/chat/direct/[player]                          api                        | game.act
 +  GET    /api/v1/actions                                       api                        | game.act
 +  GET    /api/v1/actions/[action]                              api                        | game.act
 +  POST   /api/v1/actions/[letter]/withdraw                     api                        | game.act
 +  POST   /api/v1/players/[player]/letters                      api                        | game.act
 +  PUT    /api/v1/players                                       api                        | game.act
 +  POST   /api/v1/guilds/[guild]/variables/[variable]           api                        | game.act
 +  POST   /api/v1/game/restart                                  api                        | game.act
 +  POST   /api/v1/game/online                                   api                        | game.act
 +  POST   /api/v1/game/actions                                  api                        | game.act
 +  POST   /api/v1/game/actions/[action]                         api                        | game.act
 +  POST   /api/v1/game/events                                   api                        | game.act
 +  GET    /api/v1/players/[player]/events                       api                        | history.read
 +  POST   /api/v1/players/[player]/items/give-back              api                        | items.move
 +  GET    /api/v1/events                                        api                        | history.read
 +  POST   /api/v1/batches                                       api                        | batches.plan
 +  GET    /api/v1/batches                                       api                        | players.read
 +  GET    /api/v1/batches/[batch]                               api                        | players.read
 +  GET    /api/v1/batches/[batch]/rows                          api                        | players.read
 +  POST   /api/v1/batches/[batch]/advance                       api                        | batches.run
 +  POST   /api/v1/batches/[batch]/run                           api                        | batches.run
 +  POST   /api/v1/batches/[running_batch]/pause                 api                        | batches.run
 +  POST   /api/v1/batches/[batch]/cancel                        api                        | batches.run
 +  POST   /api/v1/batches/[ended_batch]/undo                    api                        | batches.plan undo.own
 +  POST   /api/v1/batches/[ended_batch]/retry                   api                        | batches.plan
 +  POST   /api/v1/approvals                                     api                        | none
 +  GET    /api/v1/approvals                                     api                        | none
 +  GET    /api/v1/approvals/[own_approval]                      api                        | none
 +  POST   /api/v1/approvals/[approval]/approve                  approve                   | none
 +  POST   /api/v1/approvals/[approval]/decline                  approve                   | none
 +  POST   /api/v1/approvals/[own_approval]/withdraw             api                        | none
 +  GET    /api/v1/keys                                          api                        | none
 +  POST   /api/v1/keys                                          api                        | none
 +  POST   /api/v1/keys/[own_key]/rotate                         api                        | none
 +  DELETE /api/v1/keys/[own_key]                                api                        | none
 +  GET    /api/v1/roles                                         api users.query users.manage| none
 +  POST   /api/v1/roles                                         api users.query users.manage| none
 +  GET    /api/v1/roles/[role]                                  api users.query users.manage| none
 +  PUT    /api/v1/roles/[role]                                  api users.query users.manage| none
 +  DELETE /api/v1/roles/[role]                                  api users.query users.manage| none
 +  GET    /api/v1/staff                                         api users.query users.manage| none
 +  POST   /api/v1/staff                                         api users.query users.manage| none
 +  POST   /api/v1/staff/[invited]/invitation                    api users.query users.manage| none
 +  PUT    /api/v1/staff/[user]/roles                            api users.query users.manage| none
 +  POST   /api/v1/staff/[user]/disable                          api users.query users.manage| none
 +  POST   /api/v1/staff/[user]/enable                           api users.query users.manage| none
 +  POST   /api/oauth/token
 +  DELETE /api/oauth/token/[self]                               api                        | users.manage
 +  DELETE /api/oauth/token/[self]/[own]                         api                        | users.manage
 =  DELETE /api/oauth/tokens/[self]                              api                        | users.manage
 =  DELETE /api/oauth/tokens/[self]/[own]                        api                        | users.manage
 +  DELETE /api/oauth/token/[user]                               api users.query users.manage| users.manage
 +  DELETE /api/oauth/token/[user]/[token]                       api users.query users.manage| users.manage
 =  DELETE /api/oauth/tokens/[user]                              api users.query users.manage| users.manage
 =  DELETE /api/oauth/tokens/[user]/[token]                      api users.query users.manage| users.manage
 +  GET    /api/oauth/sign-ins/[self]                            api                        | users.manage
 +  GET    /api/oauth/sign-ins/[user]                            api users.query users.manage| users.manage
 +  DELETE /api/oauth/sign-ins/[self]/[own_sign_in]              api                        | users.manage
 +  DELETE /api/oauth/sign-ins/[user]/[sign_in]                  api users.query users.manage| users.manage
 +  GET    /
 +  GET    /api
 +  GET    /api/docs
 +  GET    /api/docs/files/[file]
 +  GET    /api/openapi.json
 +  GET    /healthz
 +  GET    /readyz
 +  GET    /metrics
"""

PLAYER, USER, SELF, INVITED = "Aladric", "Alice", "Caller", "Ivy"
OTHER_PLAYER = "Elowen"
ITEM, SPELL, VARIABLE, BAG, TOKEN, OWN = (
    f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123456"
)
MAP, ACTION = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "de")
BATCH, ENDED_BATCH = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "f0")
LETTER = "e2e2e2e2-0000-4000-8000-000000000000"
GUILD = "e1e1e1e1-0000-4000-8000-000000000000"
APPROVAL, OWN_APPROVAL = (f"{digit * 4}-0000-4000-8000-000000000000" for digit in ("a0", "a1"))
RUNNING_BATCH = "f0f0f0f0-0000-4000-8000-000000000000"
GLOBAL, CLOCK = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "89")
SIGN_IN, OWN_SIGN_IN, OWN_KEY = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "abc")
ENTRY = "player:77777777-0000-4000-8000-000000000000:1"
CODE, EVENT = "ABCDEFGH", "world-1:1"
PASSWORD, NEW_PASSWORD = sha256("secret"), sha256("new")
VALUES = {
    "invited": INVITED,
    **{"player": PLAYER, "user": USER, "self": SELF, "variable": VARIABLE},
    **{"bag": BAG, "token": TOKEN, "own": OWN, "file": "swagger-ui.css"},
    **{"entry": ENTRY, "type": "item", "item": ITEM, "global": GLOBAL},
    **{"player_id": ENTRY.split(":")[1], "map": MAP, "action": ACTION, "guild": GUILD},
    "letter": LETTER,
    **{"batch": BATCH, "ended_batch": ENDED_BATCH, "running_batch": RUNNING_BATCH},
    **{"sign_in": SIGN_IN, "own_sign_in": OWN_SIGN_IN, "own_key": OWN_KEY},
    **{"role": "viewer", "approval": APPROVAL, "own_approval": OWN_APPROVAL},
}
# What leads a browser to the documentation, and has nothing for a program.
FRONT_DOORS = ("/", "/api")
# What a request needs to be answered with 200; those that are missing need nothing.
BODIES = {
    "admin/ban": {"duration": 7},
    "admin/mute": {"duration": 7},
    "admin/warpto": {"mapid": MAP},
    "admin/warptoloc": {"mapid": MAP, "x": 3, "y": 4},
    "v1/chat": {"Message": "Hello."},
    "chat/global": {"Message": "Hello."},
    "chat/proximity/[map]": {"Message": "Hello."},
    "chat/direct/[player]": {"Message": "Hello."},
    "guilds/[guild]/variables/[variable]": {"value": 5},
    "game/restart": {"Minutes": 10, "Message": "An update."},
    "game/online": {"Online": [], "Offline": []},
    "game/events": {
        "Events": [
            {
                **{"Id": "e2", "Player": ENTRY.split(":")[1], "At": "2026-01-31T19:04:21Z"},
                **{"Kind": "drop", "Items": [{"ItemId": ITEM, "Quantity": -1}]},
            }
        ]
    },
    "items/give-back": {"event": EVENT},
    "[player]/letters": {"Message": "Here it is."},
    "game/actions": {"Game": "door"},
    "game/actions/[action]": {"Game": "door"},
    "players/[player_id]": {"Level": 3},
    "PUT /api/v1/players": {"Players": [{"Id": ENTRY.split(":")[1], "Level": 3}]},
    "[user]/erase": {"Confirm": USER},
    "[user]/name": {"Name": "Alicia"},
    "[player]/level": {"level": 17},
    "[player]/class": {"Id": ITEM},
    "[player]/name": {"Name": "Aldric"},
    "[player]/notes": {"Text": "Asked twice."},
    "[user]/notes": {"Text": "Asked twice."},
    "variables/global/[global]": {"value": 1},
    "variables/[global]": {"value": 1},
    "variables/[variable]": {"value": 1},
    "items/give": {"itemid": ITEM, "quantity": 1},
    "items/take": {"itemid": ITEM, "quantity": 1},
    "items/transfer": {"to": OTHER_PLAYER, "itemid": ITEM, "quantity": 1},
    "spells/teach": {"spellid": ITEM},
    "spells/forget": {"spellid": SPELL},
    "users/register": {"username": "Nova", "email": "nova@example.com", "password": PASSWORD},
    "password/validate": {"password": PASSWORD},
    "[user]/email/change": {"new": "moved@example.com", "authorization": PASSWORD},
    "[user]/password/change": {"new": NEW_PASSWORD, "authorization": PASSWORD},
    "manage/email/change": {"new": "moved@example.com"},
    "manage/password/change": {"new": NEW_PASSWORD},
    "password/reset": {"code": CODE, "new": NEW_PASSWORD},
    "api/v1/batches": {
        "Name": "Gifts",
        "Reason": "Asked for.",
        "Rows": [{"Player": PLAYER, "Operation": "give", "ItemId": ITEM, "Quantity": 1}],
    },
    "api/v1/approvals": {
        "Operation": "give",
        "Subject": PLAYER,
        "Arguments": {"itemid": ITEM, "quantity": 1},
        "Reason": "Asked for.",
    },
    "/decline": {"Why": "Too much."},
    "api/v1/keys": {"Name": "another", "Scopes": ["players.read"]},
    "api/v1/roles": {"Name": "events", "Permissions": ["players.read"]},
    "roles/[role]": {"Permissions": ["players.read"]},
    "api/v1/staff": {"Name": "colleague", "Email": "colleague@example.com", "Roles": ["viewer"]},
    "staff/[user]/roles": {"Roles": ["viewer"]},
    "oauth/token": {"grant_type": "password", "username": "Clerk", "password": PASSWORD},
}


def catalogue():
    """Return the objects that the doors of the catalogue lead to."""
    variable = make_object(Id=GLOBAL, Type="servervariable", Value=0)
    return [make_object(Id=ITEM), variable, make_object(Id=CLOCK, Type="time")]


class Door(NamedTuple):
    """A route, one of its methods, and the roles that a caller needs to have there."""

    number: str
    method: str
    route: str
    roles: tuple[str, ...]
    # Of a key: "any" asks for none, and "none" is closed to keys.
    scopes: tuple[str, ...]

    @property
    def path(self):
        return self.path_with({})

    def path_with(self, values):
        """Return the path with these values in its variable parts, and the usual ones elsewhere."""
        return re.sub(r"\[(\w+)\]", lambda match: {**VALUES, **values}[match[1]], self.route)

    @property
    def variables(self):
        return re.findall(r"\[(\w+)\]", self.route)

    @property
    def body(self):
        """What to send for an answer of 200; nothing where the method has no body."""
        if self.method not in ("POST", "PUT"):
            return None
        door = f"{self.method} {self.route}"
        return next((body for end, body in BODIES.items() if door.endswith(end)), {})

    @property
    def shape(self):
        """The method and the path with its variable parts unnamed, to compare spellings by."""
        return self.method, shape_of(self.route)


def shape_of(path):
    return re.sub(r"\[[^]]*\]|<[^>]*>|\{[^}]*\}", "*", path)


def door_of(line):
    left, _, scopes = line.partition("|")
    number, method, route, *roles = left.split()
    return Door(number, method, route, tuple(roles), tuple(scopes.split()))


DOORS = [door_of(line) for line in TABLE.strip().splitlines()]

"""Every route of the service and the roles that it needs, as docs/contract.rst has them.

Written by hand, because a table made from the code would only agree with itself. See the sections
contract-player-endpoints, contract-user-endpoints and contract-roles; a plus marks what is not one
of the 31 numbered endpoints.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.factories import make_object, sha256

TABLE = """
 1  GET    /api/v1/players                                       api
 2  GET    /api/v1/players/rank                                  api
 3  POST   /api/v1/players/online                                api
 4  GET    /api/v1/players/online/count                          api
 5  GET    /api/v1/players/[player]                              api
 6  GET    /api/v1/players/[player]/variables                    api
 7  GET    /api/v1/players/[player]/variables/[variable]         api
 8  GET    /api/v1/players/[player]/variables/[variable]/value   api
 9  POST   /api/v1/players/[player]/variables/[variable]         api
10  GET    /api/v1/players/[player]/items                        api
11  GET    /api/v1/players/[player]/items/inventory              api
12  GET    /api/v1/players/[player]/items/bank                   api
13  GET    /api/v1/players/bag/[bag]                             api
14  POST   /api/v1/players/[player]/items/give                   api
15  POST   /api/v1/players/[player]/items/take                   api
16  GET    /api/v1/players/[player]/spells                       api
17  POST   /api/v1/players/[player]/spells/teach                 api
18  POST   /api/v1/players/[player]/spells/forget                api
19  POST   /api/v1/players                                       api
20  GET    /api/v1/users                                         api users.query
21  GET    /api/v1/users/[user]                                  api users.query
22  POST   /api/v1/users/register                                api users.query
23  POST   /api/v1/users/[user]/password/validate                api users.query
24  POST   /api/v1/users/[user]/email/change                     api users.query
25  POST   /api/v1/users/[user]/password/change                  api users.query
26  GET    /api/v1/users/[user]/password/reset                   api users.query
27  GET    /api/v1/users/[user]/players                          api users.query
28  GET    /api/v1/users/[user]/players/[player]                 api users.query
29  POST   /api/v1/users/[user]/manage/email/change              api users.query users.manage
30  POST   /api/v1/users/[user]/manage/password/change           api users.query users.manage
31  POST   /api/v1/users                                         api users.query
 +  POST   /api/v1/users/[user]/password/reset                   api users.query
 +  GET    /api/v1/history                                       api
 +  GET    /api/v1/history/[entry]                               api
 +  POST   /api/v1/history/[entry]/undo                          api
 +  GET    /api/v1/players/[player]/history                      api
 +  GET    /api/v1/users/[user]/history                          api users.query
 +  GET    /api/v1/players/online                                api
 +  POST   /api/v1/players/[player]/admin/ban                    api
 +  POST   /api/v1/players/[player]/admin/unban                  api
 +  POST   /api/v1/players/[player]/admin/mute                   api
 +  POST   /api/v1/players/[player]/admin/unmute                 api
 +  POST   /api/v1/users/[user]/admin/ban                        api users.query
 +  POST   /api/v1/users/[user]/admin/unban                      api users.query
 +  POST   /api/v1/users/[user]/admin/mute                       api users.query
 +  POST   /api/v1/users/[user]/admin/unmute                     api users.query
 +  GET    /api/v1/users/[user]/moderation                       api users.query
 +  GET    /api/v1/gameobjects/[type]                            api
 +  POST   /api/v1/gameobjects/[type]                            api
 +  GET    /api/v1/gameobjects/[type]/names                      api
 +  GET    /api/v1/gameobjects/[type]/[item]                     api
 +  GET    /api/v1/gameobjects/time                              api
 +  POST   /api/v1/variables/global                              api
 +  GET    /api/v1/variables/global/[global]                     api
 +  POST   /api/v1/variables/global/[global]                     api
 +  GET    /api/v1/variables/global/[global]/value               api
 +  GET    /api/v1/info                                          api
 +  GET    /api/v1/info/authorized                               api
 +  GET    /api/v1/info/stats                                    api
 +  GET    /api/v1/info/config                                   api
 +  GET    /api/v1/logs/user/[user]/activity                     api users.query
 +  GET    /api/v1/logs/player/[player]/activity                 api
 +  GET    /api/v1/players/[player]/notes                        api
 +  POST   /api/v1/players/[player]/notes                        api
 +  GET    /api/v1/users/[user]/notes                            api users.query
 +  POST   /api/v1/users/[user]/notes                            api users.query
 +  POST   /api/oauth/token
 +  DELETE /api/oauth/token/[self]                               api
 +  DELETE /api/oauth/token/[self]/[own]                         api
 +  DELETE /api/oauth/tokens/[self]                              api
 +  DELETE /api/oauth/tokens/[self]/[own]                        api
 +  DELETE /api/oauth/token/[user]                               api users.query users.manage
 +  DELETE /api/oauth/token/[user]/[token]                       api users.query users.manage
 +  DELETE /api/oauth/tokens/[user]                              api users.query users.manage
 +  DELETE /api/oauth/tokens/[user]/[token]                      api users.query users.manage
 +  GET    /api/oauth/sign-ins/[self]                            api
 +  GET    /api/oauth/sign-ins/[user]                            api users.query users.manage
 +  DELETE /api/oauth/sign-ins/[self]/[own_sign_in]              api
 +  DELETE /api/oauth/sign-ins/[user]/[sign_in]                  api users.query users.manage
 +  GET    /
 +  GET    /api
 +  GET    /api/docs
 +  GET    /api/docs/files/[file]
 +  GET    /api/openapi.json
 +  GET    /healthz
 +  GET    /readyz
 +  GET    /metrics
"""

PLAYER, USER, SELF = "Aladric", "Alice", "Caller"
ITEM, SPELL, VARIABLE, BAG, TOKEN, OWN = (
    f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123456"
)
GLOBAL, CLOCK = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "89")
SIGN_IN, OWN_SIGN_IN = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "ab")
ENTRY = "player:77777777-0000-4000-8000-000000000000:1"
CODE = "ABCDEFGH"
PASSWORD, NEW_PASSWORD = sha256("secret"), sha256("new")
VALUES = {
    **{"player": PLAYER, "user": USER, "self": SELF, "variable": VARIABLE},
    **{"bag": BAG, "token": TOKEN, "own": OWN, "file": "swagger-ui.css"},
    **{"entry": ENTRY, "type": "item", "item": ITEM, "global": GLOBAL},
    **{"sign_in": SIGN_IN, "own_sign_in": OWN_SIGN_IN},
}
# What leads a browser to the documentation, and has nothing for a program.
FRONT_DOORS = ("/", "/api")
# What a request needs to be answered with 200; those that are missing need nothing.
BODIES = {
    "admin/ban": {"duration": 7},
    "admin/mute": {"duration": 7},
    "[player]/notes": {"Text": "Asked twice."},
    "[user]/notes": {"Text": "Asked twice."},
    "variables/global/[global]": {"value": 1},
    "variables/[variable]": {"value": 1},
    "items/give": {"itemid": ITEM, "quantity": 1},
    "items/take": {"itemid": ITEM, "quantity": 1},
    "spells/teach": {"spellid": ITEM},
    "spells/forget": {"spellid": SPELL},
    "users/register": {"username": "Nova", "email": "nova@example.com", "password": PASSWORD},
    "password/validate": {"password": PASSWORD},
    "[user]/email/change": {"new": "moved@example.com", "authorization": PASSWORD},
    "[user]/password/change": {"new": NEW_PASSWORD, "authorization": PASSWORD},
    "manage/email/change": {"new": "moved@example.com"},
    "manage/password/change": {"new": NEW_PASSWORD},
    "password/reset": {"code": CODE, "new": NEW_PASSWORD},
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
        if self.method != "POST":
            return None
        return next((body for end, body in BODIES.items() if self.route.endswith(end)), {})

    @property
    def shape(self):
        """The method and the path with its variable parts unnamed, to compare spellings by."""
        return self.method, shape_of(self.route)


def shape_of(path):
    return re.sub(r"\[[^]]*\]|<[^>]*>|\{[^}]*\}", "*", path)


ROWS = [line.split() for line in TABLE.strip().splitlines()]
DOORS = [Door(number, method, route, tuple(roles)) for number, method, route, *roles in ROWS]

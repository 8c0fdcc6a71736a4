"""Every page and form of the console, and the roles that it needs.

Written by hand, as tests/endpoint_table.py is, but for forms of operations, which follow from that
table. [one] is a guid that belongs to nothing.
"""

from app.console.players.views import FORMS as PLAYER_FORMS
from app.console.users.views import FORMS as USER_FORMS
from tests.endpoint_table import DOORS, ITEM, MAP, PLAYER, USER, Door, shape_of
from tests.endpoint_table import VALUES as API_VALUES

TABLE = """
GET   /console                                  api
GET   /console/search                           api
GET   /console/suggest                          api
GET   /console/suggest/[type]                   api
GET   /console/players                          api
GET   /console/players/online                   api
GET   /console/players.csv                      api
GET   /console/players/online.csv               api
GET   /console/game.csv                         api
GET   /console/chat.csv                         api
GET   /console/approvals.csv                    api
GET   /console/catalogue/[type].csv             api
GET   /console/staff.csv                        api users.query users.manage
GET   /console/roles.csv                        api users.query users.manage
GET   /console/players/[player]                 api
GET   /console/players/[player]/spells          api
GET   /console/players/[player]/variables       api
GET   /console/players/[player]/history         api
GET   /console/players/[player]/notes           api
POST  /console/players/[player]/variables       api
POST  /console/players/[player]/delete          api
POST  /console/players/[player]/message         api
POST  /console/players/[player]/letter          api
POST  /console/players/[player]/warp            api
POST  /console/players/[player]/kick            api
POST  /console/players/[player]/kill            api
GET   /console/users                            api users.query
GET   /console/users/banned                     api users.query
GET   /console/users/muted                      api users.query
GET   /console/users.csv                        api users.query
GET   /console/users/banned.csv                 api users.query
GET   /console/users/muted.csv                  api users.query
GET   /console/users/[user]                     api users.query
GET   /console/users/[user]/history             api users.query
GET   /console/users/[user]/notes               api users.query
GET   /console/users/[user]/sign-ins            api users.query users.manage
GET   /console/users/[user]/keys                api users.query users.manage
GET   /console/users/[user]/personal-data       api users.query users.manage
POST  /console/users/[user]/mail-code           api users.query
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
POST  /console/users/[user]/second-factor       api users.query users.manage
POST  /console/users/[user]/reset-sign-in       api users.query users.manage
POST  /console/users/[user]/erase               api users.query users.manage
GET   /console/game                             api
GET   /console/history.csv                      api
GET   /console/batches.csv                      api
GET   /console/players/[player]/history.csv     api
GET   /console/game/[action]                    api
POST  /console/game/[letter]/withdraw           api
POST  /console/game                             api
GET   /console/chat                             api
POST  /console/chat                             api
GET   /console/history                          api
GET   /console/history/[entry]                  api
POST  /console/history/[entry]/undo             api
POST  /console/history/[entry]/undo-partial     api
GET   /console/batches                          api
GET   /console/batches/new                      api
GET   /console/batches/new/found                api
GET   /console/batches/new/file                 api
GET   /console/batches/new/changes              api
POST  /console/batches/new/players              api
POST  /console/batches/new/found                api
POST  /console/batches/new/file                 api
POST  /console/batches/new/changes              api
GET   /console/batches/[batch]                  api
GET   /console/batches/[batch].csv              api
POST  /console/batches/[batch]/run              api
POST  /console/batches/[running]/pause          api
POST  /console/batches/[batch]/cancel           api
POST  /console/batches/[ended]/undo             api
POST  /console/batches/[ended]/retry            api
GET   /console/approvals                        api
GET   /console/approvals/[own_approval]         api
POST  /console/approvals/[approval]/approve     approve
POST  /console/approvals/[approval]/decline     approve
POST  /console/approvals/[own_approval]/withdraw  api
GET   /console/catalogue                        api
GET   /console/catalogue/[type]                 api
GET   /console/catalogue/[type]/[item]          api
GET   /console/catalogue/servervariable/[global]  api
POST  /console/catalogue/servervariable/[global]/value  api
GET   /console/report                           api
GET   /console/health                           api
GET   /console/staff                            api users.query users.manage
POST  /console/staff                            api users.query users.manage
GET   /console/staff/[user]                     api users.query users.manage
POST  /console/staff/[user]/roles               api users.query users.manage
POST  /console/staff/[user]/disable             api users.query users.manage
POST  /console/staff/[user]/enable              api users.query users.manage
POST  /console/staff/[invited]/invite           api users.query users.manage
GET   /console/roles                            api users.query users.manage
POST  /console/roles                            api users.query users.manage
GET   /console/roles/[role]                     api users.query users.manage
POST  /console/roles/[role]/change              api users.query users.manage
POST  /console/roles/[role]/remove              api users.query users.manage
GET   /console/sign-ins                         api
POST  /console/sign-ins/[one]/end               api
GET   /console/second-factor                    api
POST  /console/second-factor/set-up             api
POST  /console/second-factor/recovery-codes     api
POST  /console/second-factor/switch-off         api
GET   /console/keys                             api
POST  /console/keys                             api
POST  /console/keys/[one]/rotate                api
POST  /console/keys/[one]/revoke                api
POST  /console/sign-out                         api
GET   /console/sign-in
POST  /console/sign-in
POST  /console/sign-in/code
GET   /console/invitation
POST  /console/invitation
GET   /console/sign-in/company
GET   /console/sign-in/company/callback
GET   /console/files/[one]/[file]
GET   /console/[one]
POST  /console/[one]
"""
ONE = "99999999-0000-4000-8000-000000000000"
# What a form needs to be carried out.
FIELDS = {
    "variables": {"variableid": ITEM, "value": "1"},
    "delete": {"confirm": PLAYER},
    "message": {"Message": "Hello."},
    "letter": {"Message": "Here it is.", "itemid": ITEM, "quantity": "1"},
    "chat": {"Message": "Hello."},
    "console/game": {"Minutes": "10", "Message": "An update."},
    **{f"[player]/{verb}": {"confirm": PLAYER} for verb in ("kick", "kill")},
    **{f"[user]/{verb}": {"confirm": USER} for verb in ("kick", "kill")},
    "[player]/warp": {"mapid": MAP, "confirm": PLAYER},
    "[user]/warp": {"mapid": MAP, "x": "3", "y": "4", "confirm": USER},
    "new/players": {"players": PLAYER, "itemid": ITEM, "quantity": "1"},
    "new/found": {"itemid": ITEM, "quantity": "1"},
    "new/changes": {"Item": ITEM},
    "decline": {"Why": "Too much."},
    "keys": {"Name": "shop", "may-keys.manage": "true"},
    "console/staff": {"Name": "colleague", "Email": "colleague@example.com", "may-viewer": "true"},
    "staff/[user]/roles": {"may-viewer": "true"},
    "staff/[user]/disable": {"confirm": USER},
    "console/roles": {"Name": "events", "may-players.read": "true"},
    "[role]/change": {"may-players.read": "true", "ItemsPerDay": "7"},
    "[role]/remove": {"confirm": API_VALUES["role"]},
    "erase": {"Confirm": USER},
    "/ban": {"duration": "1"},
    "/mute": {"duration": "1"},
    "email": {"new": "moved@example.com", "confirm": USER},
    "password": {"new": "long enough", "again": "long enough", "confirm": USER},
    "[user]/sign-out": {"confirm": USER},
    "[user]/second-factor": {"confirm": USER},
    "[user]/reset-sign-in": {"Email": "moved@example.com", "reason": "Lost."},
    "value": {"value": "1"},
}
# The rule of one view may have several rows, as its converter any() has words.
WORDS = {"tab": ("spells", "variables", "history", "notes"), "verb": ("ban", "mute")}
VALUES = {
    **{**API_VALUES, "one": ONE, "file": "console.css"},
    **{"ended": API_VALUES["ended_batch"], "running": API_VALUES["running_batch"]},
}

WRITTEN = [
    Door("+", method, route, tuple(roles), ())
    for method, route, *roles in (line.split() for line in TABLE.strip().splitlines())
]


def form_doors():
    """Yield the forms that the table leaves out, each with the endpoint of its operation.

    Whoever may call the endpoint may send the form, and it takes the same.
    """
    known = {door.route for door in WRITTEN if door.method == "POST"}
    endpoints = {door.shape: door for door in DOORS}
    for whose, tabs in (("player", PLAYER_FORMS), ("user", USER_FORMS)):
        for form in (form for forms in tabs.values() for form in forms if form.operation):
            path = form.name if form.path is None else form.path
            route = f"/console/{whose}s/[{whose}]/{path}"
            if route not in known:
                routes = form.operation.routes
                method, path = routes[form.view or next(iter(routes))]
                endpoint = endpoints[method, shape_of(path)]
                yield Door("+", "POST", route, endpoint.roles, ()), endpoint


OF_FORMS = {door.route: endpoint for door, endpoint in form_doors()}
CONSOLE_DOORS = [*WRITTEN, *(door for door, _ in form_doors())]


def fields_of(door):
    if door.route in OF_FORMS:
        return {name: str(value) for name, value in OF_FORMS[door.route].body.items()}
    return next((fields for end, fields in FIELDS.items() if door.route.endswith(end)), {})

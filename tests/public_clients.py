"""What public clients of this API send, step by step, and what they read of the answers.

Each session is that of one client of docs/compatibility.rst, from its published source. Without
QM_COMPATIBILITY=intersect, a step is answered with its strict status instead of a 200.
"""

from typing import Any, NamedTuple

# Whatever is there, if it is not null.
ANY = object
NIL = "00000000-0000-0000-0000-000000000000"
DENIED = "Authorization has been denied for this request."


class Step(NamedTuple):
    """A request, and by path what the client reads: a type, or a value that it compares."""

    method: str
    path: str
    body: Any = None
    reads: dict[str, Any] = {}
    strict: int = 200
    status: int = 200
    is_form: bool = False
    is_multipart: bool = False
    is_expired: bool = False


def get(path, **more):
    return Step("GET", f"/api/v1{path}", **more)


def post(path, body=None, **more):
    return Step("POST", f"/api/v1{path}", body, **more)


def token(**more):
    body = {"grant_type": "password", "username": "{caller}", "password": "{password}"}
    reads = {"access_token": str, "refresh_token": str, "expires_in": int}
    return Step("POST", "/api/oauth/token", body, reads=reads, **more)


STATE = get("/info/stats", reads={"uptime": int, "onlineCount": int, "cps": int})
# With a token that has expired: the text is compared, and a new token is asked for.
RENEWAL = [
    get("/info/stats", reads={"Message": DENIED}, status=401, strict=401, is_expired=True),
    token(),
    STATE,
]
ITEM = {"Name": str, "Icon": str, "Description": str, "ItemType": int}
GIVEN = {"id": "{item}", "quantity.total": int}
BAN = {"duration": 7, "reason": "Cheating", "moderator": "admin"}
BANNED, MUTED = "{user} has been banned!", "{user} has been muted!"
KICKED, KILLED = "{{{}}} has been kicked by the server!", "{{{}}} has been killed!"
WARPED = "Warped '{{{}}}' to {{map}} (13, 22)."
CHAT = {"Message": "Hello, all.", "Color": {"A": 255, "R": 255, "G": 0, "B": 0}, "Target": ""}
UNBANNED, UNMUTED = "{user} has been unbanned!", "{user} has been unmuted!"
PLAYER = {
    **{"Sprite": str, "Level": int, "Name": str, "ClassId": str, "MapId": str, "StatPoints": int},
    **{"Vitals.1": int, "MaxVitals.1": int, "Exp": int, "ExperienceToNextLevel": int},
    **{"BaseStats.4": int, "StatPointAllocations.4": int},
}


def in_the_game(whom, name, empty):
    """Return the steps that kick, kill and warp somebody; some send a body where none is needed."""
    place = {"mapid": "{map}", "x": 13, "y": 22}
    return [
        post(f"/{whom}/admin/kick", empty, reads={"Message": KICKED.format(name)}),
        post(f"/{whom}/admin/kill", empty, reads={"Message": KILLED.format(name)}),
        post(f"/{whom}/admin/warpto", {"mapid": "{map}"}, reads={"Message": WARPED.format(name)}),
        post(f"/{whom}/admin/warptoloc", place, reads={"Message": WARPED.format(name)}),
    ]


def chatting():
    said = {"success": True, "chatMessage.Message": "Hello, all.", "chatMessage.Color.R": 255}
    return [
        post("/chat/global", CHAT, reads=said),
        post("/chat/proximity/{map}", CHAT, reads={**said, "mapId": "{map}"}),
        post("/chat/direct/{player}", CHAT, reads={**said, "lookupKey": "{player}"}),
    ]


# Calls of the functions of each client, by its own unmodified code against make run and make world:
# those that were answered as it expects, and those that fail by its own defect; none by ours.
RUNS = {
    "Intersect-Connect/intersect-connect-wordpress": (6, 1),
    "WhiteAssassins/Intersect_CMS main_ci4": (34, 1),
    "WhiteAssassins/Intersect_CMS codeigniter3": (16, 0),
    "Thomasfds/intersect-cms": (16, 5),
    "Intersect CMS Unleashed": (39, 2),
    "intersect-tool": (34, 1),
    "OniSensei/Intersect-Admin": (35, 0),
    "IntersectTS": (66, 7),
}


# What only QM_COMPATIBILITY=intersect adds; the Type of a variable is a number with it.
ADDED = (
    *("RegistrationDate", "PlayTimeSeconds", "IsBanned", "Dead", "ItemName", "LastOnline"),
    *("Value.Type", "OnlineCount", "Sort"),
)
GUILDS = [
    get("/guilds?page=0&pageSize=20", reads={"Values.0.Key.Name": "Lanterns", "Sort": list}),
    get("/guilds/{guild}", reads={"Id": "{guild}", "Name": "Lanterns", "FoundingDate": str}),
    get("/guilds/{guild}/members?page=0&pageSize=20", reads={"Values.0.Name": "{player}"}),
]

SESSIONS: dict[str, list[Step]] = {
    # A content management system in PHP, with a shop that is paid in points.
    "Intersect CMS Unleashed": [
        *RENEWAL,
        get("/info/config", reads={"Player.MaxLevel": int}),
        post("/players/online", {"page": 0, "size": 100}, reads={"entries": list}, strict=400),
        get("/players/rank?page=0&pageSize=25&sortDirection=Descending", reads={"Values.0": dict}),
        get("/players?page=0&pageSize=30", reads={"Total": int, "Values.0.LastOnline": str}),
        get("/users?page=0&pageSize=100", reads={"Values.0.RegistrationDate": str}),
        get("/users/Newcomer", reads={"Message": "No user with name 'Newcomer'."}, status=404),
        post(
            "/users/register",
            {"username": "Newcomer", "password": "{password}", "email": "new@example.com"},
            reads={"Username": "Newcomer"},
        ),
        post(
            "/users/{user}/password/validate",
            {"username": "{user}", "password": "{password}"},
            reads={"Message": "Password Correct"},
            strict=400,
        ),
        get("/gameobjects/item/{item}", reads=ITEM),
        get("/users/{user_id}/players", reads={"0.Id": str, "0.Dead": False}),
        get("/players/{player_id}/items/inventory", reads={"34.ItemId": NIL, "0.ItemName": str}),
        post(
            "/players/{player_id}/items/give",
            {"itemId": "{item}", "quantity": "2", "bankoverflow": False},
            reads=GIVEN,
            strict=400,
        ),
        post("/gameobjects/item/", {"page": 0, "count": 20}, reads={"entries.0.Key": str}),
        post(
            "/users/{user_id}/manage/password/change",
            {"new": "{password}"},
            reads={"Message": "Password Correct"},
        ),
        post("/users/{user_id}/admin/ban", BAN, reads={"Message": BANNED}),
        post(
            "/users/{user_id}/admin/unban",
            {"username": "{user}"},
            reads={"Message": UNBANNED},
        ),
        post("/users/{user_id}/admin/mute", BAN, reads={"Message": MUTED}),
        post("/users/{user_id}/admin/unmute", {"username": "{user}"}, reads={"Message": UNMUTED}),
        post("/users/{user_id}/admin/kick", [], reads={"Message": KICKED.format("user")}),
        post("/users/{user_id}/admin/kill", [], reads={"Message": KILLED.format("user")}),
        get("/logs/user/{user_id}/activity", reads={"Values": list, "Total": int}),
        get("/logs/player/{player_id}/activity", reads={"Values": list}),
        get("/logs/user/{user_id}/ip", reads={"Values": list, "Total": int}),
        get("/logs/trade?page=0&pageSize=20", reads={"Values": [], "Total": 0}),
        get("/info/metrics", reads={"OnlineCount": int}),
        *GUILDS,
    ],
    # Another in PHP, which keeps its token for as long as it is said to live.
    "WhiteAssassins/Intersect_CMS main_ci4": [
        token(),
        STATE,
        post("/gameobjects/item?pageSize=5000", reads={"entries.0.Value.Name": str}),
        post("/users/{user}/password/validate", {"password": "{PASSWORD}"}, reads={"Message": str}),
        get("/users/{user}", reads={"Id": str, "IsBanned": False, "PlayTimeSeconds": int}),
        post(
            "/players/{player}/items/give",
            {"itemid": "{item}", "quantity": 1, "bankoverflow": False},
            reads=GIVEN,
        ),
        post("/players/{player}/admin/mute", {"duration": 1}, reads={"Message": ANY}),
        post("/players/{player}/admin/unmute", [], reads={"Message": ANY}),
    ],
    # Its older version: it sends forms.
    "WhiteAssassins/Intersect_CMS codeigniter3": [
        token(is_form=True),
        STATE,
        post(
            "/chat/global",
            {**{f"Color[{part}]": "255" for part in "ARGB"}, "Message": "Hello.", "Target": ""},
            reads={"success": True, "chatMessage.Color.A": 255},
            strict=415,
            is_form=True,
        ),
        post(
            "/players/{player}/admin/Kick",
            [],
            reads={"Message": KICKED.format("player")},
            strict=404,
        ),
    ],
    # The oldest in PHP: it takes the money first, and never looks at the answer of the gift.
    "Thomasfds/intersect-cms": [
        token(),
        get("/gameobjects/item/{item}", reads=ITEM),
        get("/users/{user_id}/players", reads={"0.Name": str}),
        post(
            "/players/{player_id}/items/give",
            {"itemid": "{item}", "quantity": "1", "bankoverflow": True},
            reads=GIVEN,
            strict=400,
        ),
        post("/gameobjects/item", {"page": 0, "count": 100}, reads={"entries.0.Value.Icon": str}),
    ],
    # A plug-in of a blog: it registers whoever it is told that nobody is.
    "Intersect-Connect/intersect-connect-wordpress": [
        token(is_form=True),
        STATE,
        get("/users/Blogger", reads={"Message": "No user with name 'Blogger'."}, status=404),
        post(
            "/users/register",
            {"username": "Blogger", "password": "{password}", "email": "blog@example.com"},
            reads={"Username": "Blogger"},
            strict=415,
            is_form=True,
        ),
        get("/users/Blogger", reads={"Id": str}, strict=404),
        # Version 1.1, by curl with an array.
        token(is_multipart=True, strict=415),
    ],
    # A moderation tool for the desktop.
    "intersect-tool": [
        *RENEWAL,
        get("/players/online/count", reads={"onlineCount": int}),
        post("/players/online", {"page": 0, "count": 100}, reads={"entries": list}),
        get("/players/online?page=0&pageSize=20", reads={"Values": list, "Total": int}),
        get("/players?page=0&pageSize=20", reads={"Values.0.Name": str}),
        get("/players/{player}", reads=PLAYER),
        get("/players/{player}/items/bank", reads={"0.Slot": int}),
        get("/users/{user_id}/", reads={"Name": "{user}"}),
        post("/users/{user_id}/admin/ban", {**BAN, "ip": True}, reads={"Message": BANNED}),
        post("/users/{user_id}/admin/unban", [], reads={"Message": UNBANNED}),
        post("/users/{user_id}/admin/mute", {**BAN, "ip": True}, reads={"Message": MUTED}),
        post("/users/{user_id}/admin/unmute", [], reads={"Message": UNMUTED}),
        *in_the_game("players/{player}", "player", None),
        *in_the_game("users/{user_id}", "user", []),
        *chatting(),
        post("/variables/global", {"page": 0, "count": 25}, reads={"entries.0.Value": ANY}),
        post("/variables/global/{variable}", {"value": 150}, reads={"Value": 150, "Type": 2}),
        get("/logs/user/{user_id}/activity?page=0&pageSize=20", reads={"Values": list}),
        *GUILDS,
        # Without an ampersand.
        get(
            "/guilds/{guild}/members?page=0pageSize=20",
            reads={"Values.0.Name": "{player}"},
            strict=400,
        ),
        get("/users?page=0&pageSize=undefined", reads={"Values.0.Name": str}, strict=400),
        get("/guilds/{guild}/variables", reads={}),
        post("/guilds/{guild}/variables/{variable}", {"value": 80}, reads={"Value": 80}),
        post(
            "/players/{player}/items/take",
            {"itemid": "{item}", "quantity": 1},
            reads={"ItemId": "{item}"},
        ),
    ],
    # A program for Windows, which loads the whole catalogue before it shows anything.
    "OniSensei/Intersect-Admin": [
        token(),
        STATE,
        *(
            post(f"/gameobjects/{kind}", {"page": 0, "count": 99999}, reads={"total": int})
            for kind in (
                *("map", "npc", "quest", "animation", "class", "item", "projectile", "resource"),
                *("shop", "spell", "crafttables", "crafts", "event", "playervariable"),
                *("servervariable", "tileset"),
            )
        ),
        *(
            post(f"/gameobjects/{kind}", {"page": 0}, reads={"entries.0.Value.Type": int})
            for kind in ("playervariable", "servervariable")
        ),
        get("/gameobjects/map/{map}", reads={"Name": str}),
        get("/players/rank?page=0&pageSize=10&sortDirection=Descending", reads={"Count": int}),
        get(
            "/info/config",
            reads={
                "Player.MaxStat": int,
                "Player.MaxBank": int,
                "GameName": str,
                "ServerPort": int,
            },
        ),
        post("/players/online", {"page": 0, "count": 0}, reads={"total": int}, strict=400),
        get("/players?page=0&pageSize=99999", reads={"Count": int, "Values.0.UserId": str}),
        get("/users/{user}", reads={"Power.PersonalInformation": bool, "MuteReason": None}),
        post(
            "/players/{player}/admin/ban",
            {"duration": 1, "reason": "", "modereator": "admin", "ip": False},
            reads={"Message": "{player} has been banned!"},
            strict=400,
        ),
        post("/players/{player}/admin/unban", reads={"Message": ANY}),
        *in_the_game("players/{player}", "player", {}),
        *chatting(),
        Step(
            "POST",
            "/api/oauth/token",
            {"grant_type": "refresh_token", "refresh_token": "{refresh}"},
            reads={"access_token": str, "refresh_token": str},
        ),
    ],
    # A library: what the programs send that are made with it.
    "IntersectTS": [
        get("/info", reads={"name": str, "port": int}),
        get("/info/authorized", reads={"authorized": True}),
        get("/players/{player}/variables", reads={"0.VariableId": str}),
        get("/players/{player}/spells", reads={}),
        post("/variables/global", {"page": 0, "count": 5}, reads={"entries.0.TextId": str}),
        get("/variables/global/{variable}/value", reads={"value": int}),
        get("/gameobjects/item/names", reads={"{item}": str}),
        get("/gameobjects/time", reads={"Name": str}),
        *in_the_game("players/{player_id}", "player", None),
        *chatting(),
        get("/gameobjects/weapon", reads={"Message": ANY}, status=404),
        post(
            "/chat",
            {"message": "Hello.", "color": {"a": 255, "r": 0, "g": 0, "b": 0}},
            reads={"success": True, "chatMessage.Color.A": 255},
            strict=400,
        ),
        get("/logs/user/{user_id}/ip", reads={"Values.0.LastUsed": str}),
        get("/variables?page=0&pageSize=5", reads={"Values.0.Name": str}),
        get("/variables/{variable}/value", reads={"value": int}),
        post("/gameobjects/item/names", reads={"{item}": str}),
        get("/info/config/stats", reads={"4": str}),
    ],
}
